"""InitProducerId, and producers that are fenced."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.transactional import Producer

UNKNOWN = {"producer_id": 987_654_321, "producer_epoch": 3}


async def txn_init_timeouts(env: Env) -> None:
    """Transaction timeouts of 0 and less, and up to the largest one."""
    a = await Producer.ready(env, "A")
    for version in (0, 4, 5):
        for timeout_ms in (0, -1, 1, 900_000, 900_001):
            await a.init(version, transaction_timeout_ms=timeout_ms)
    await a.describe()


async def txn_init_without_id(env: Env) -> None:
    """No transactional id: any producer id and epoch get a new id; timeouts do not matter."""
    a = await Producer.ready(env, "A")
    for over in ({}, a.identity, UNKNOWN, {"producer_id": -1, "producer_epoch": 2}):
        fields = over | {"transactional_id": None, "transaction_timeout_ms": -5}
        await a.init(4, **fields)


async def txn_init_new_id_with_foreign_producer(env: Env) -> None:
    """A transactional id without a state takes any producer id, and makes a new one."""
    await Producer.ready(env, "A")
    for number, version in enumerate((3, 4, 5)):
        b = Producer(env, await env.peer(f"B{number}"), f"b{number}")
        await b.init(version, **UNKNOWN)
        await b.init(version, **UNKNOWN)


async def txn_init_foreign_producer(env: Env) -> None:
    """The producer id of another transactional id, by version, also in a transaction."""
    a = await Producer.ready(env, "A")
    b = await Producer.ready(env, "B", "b")
    theirs = {"producer_id": b.producer_id, "producer_epoch": b.epoch}
    for version in (3, 4, 5):
        await a.init(version, **theirs)
    await a.add_group()
    for version in (3, 5):
        await a.init(version, **theirs)
    await a.describe()


async def txn_init_stale_epochs_in_transaction(env: Env) -> None:
    """A transaction is open: an epoch of the past or the future aborts it as well."""
    topic = await env.topic()
    for plus in (-1, 1, 7):
        a = await Producer.ready(env, "A", f"epoch {plus}")
        await a.init()
        await a.add(topic)
        fields = a.identity | {"producer_epoch": a.epoch + plus}
        await a.init(5, **fields)
        await a.settle()
        await a.describe()
        await a.init(5, **fields)
        await a.init(5)


async def txn_init_after_next_epoch(env: Env) -> None:
    """After EndTxn v5: the epoch before its end is taken as a repeated request."""
    topic = await env.topic()
    for version in (3, 5):
        a = await Producer.ready(env, "A", f"v{version}")
        before = a.identity
        await a.produce(topic, version=12)
        await a.end(5)
        await a.init(version, **before)
        await a.init(version, **before)
        await a.describe()


async def txn_init_changes_timeout(env: Env) -> None:
    """The timeout is that of the latest InitProducerId, not that of a refused one."""
    a = await Producer.ready(env, "A")
    await a.init(transaction_timeout_ms=5_000)
    await a.init(transaction_timeout_ms=900_001)
    await a.init(transaction_timeout_ms=7_000, **UNKNOWN)
    await a.describe()
    await a.add_group()
    await a.init(transaction_timeout_ms=9_000)
    await a.settle()
    await a.describe()
