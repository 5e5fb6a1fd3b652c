"""Partitions of a transaction, its end, and its markers."""

from __future__ import annotations

from typing import Any

from tests.conformance.connection import Outcome
from tests.conformance.env import Env
from tests.conformance.transactional import (
    UNCOMMITTED,
    Producer,
    describe_producers,
    fetch,
    mark,
)


def _named(name: str, *partitions: int) -> dict[str, Any]:
    return {"name": name, "partitions": list(partitions)}


async def _add_batched(
    a: Producer, *transactions: dict[str, Any], version: int = 4
) -> Outcome:
    """AddPartitionsToTxn from v4 on; each transaction is the producer's by default."""
    some = [a.identity | each for each in transactions]
    return await a.peer.call("AddPartitionsToTxn", version, transactions=some)


async def txn_add_repeated_partitions(env: Env) -> None:
    """A partition or topic that is named twice; a topic without partitions, and none."""
    one, two = await env.topic("one", 2), await env.topic("two")
    a = await Producer.ready(env, "A")
    lists = [
        [_named(one, 0, 0)],
        [_named(one, 0), _named(two, 0), _named(one, 1, 0)],
        [_named(one, 9, 9, 0, 0)],
        [_named(one), _named(two, 0)],
        [_named("no-such-topic")],
        [_named(one, 0), _named("no-such-topic", 1), _named(one, 0)],
        [],
    ]
    for topics in lists:
        await a.add(one, version=0, topics=topics)
        await a.add(one, version=3, topics=topics, producer_epoch=7)
        for verifies in (True, False):
            await _add_batched(a, {"topics": topics, "verify_only": verifies})
        await _add_batched(
            a, {"topics": topics, "verify_only": True, "producer_id": 987_654_321}
        )


async def txn_internal_topics(env: Env) -> None:
    """Partitions of internal topics: added, verified, and produced to."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    await a.add_group()
    await a.end()
    for name in ("__consumer_offsets", "__transaction_state"):
        topics = [_named(name, 0), _named(topic, 0)]
        for version in (0, 3):
            await a.add(topic, version=version, topics=topics)
        await _add_batched(a, {"topics": topics, "verify_only": True})
        await a.produce(name)
        await a.produce(name, version=12, base_sequence=0)
        await a.describe()
        await _add_batched(a, {"topics": topics, "verify_only": False})
        await a.end()
    for version in (3, 12):
        await a.produce(topic, version=version, acks=2, base_sequence=0)
    await a.describe()


async def txn_verify_by_state(env: Env) -> None:
    """Verification of a partition: before, in, and after a transaction, and fenced."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    asked = {"topics": [_named(topic, 0, 1)], "verify_only": True}
    for version in (4, 5):
        await _add_batched(a, asked, version=version)
        await a.add(topic, 1)
        await _add_batched(a, asked, version=version)
        await _add_batched(a, asked | {"producer_epoch": 5}, version=version)
        await a.end()
        await _add_batched(a, asked, version=version)


async def txn_begin_without_partitions(env: Env) -> None:
    """An empty list begins a transaction; its end writes no marker."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    for version, end in ((0, 0), (3, 4), (3, 5)):
        await a.add(topic, version=version, topics=[])
        await a.describe()
        await a.end(end)
        await a.describe()


async def txn_generations_mix(env: Env) -> None:
    """Produce v11 and v12, EndTxn v4 and v5, in all combinations."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    for produce in (11, 12):
        for end in (4, 5):
            for commits in (True, False):
                if produce == 11:
                    await a.add(topic)
                await a.produce(topic, version=produce)
                await a.end(end, commits=commits)
    await a.describe()
    await fetch(env, a.peer, topic)
    await describe_producers(a.peer, topic)


async def txn_end_without_transaction(env: Env) -> None:
    """EndTxn without a transaction: v5 may abort, which raises the epoch."""
    for version in (4, 5):
        a = await Producer.ready(env, "A", f"v{version}")
        for commits in (True, False):
            await a.end(version, commits=commits)
            await a.describe()
        await a.add_group()
        await a.end(version)
        for commits in (False, True, False):
            await a.end(version, commits=commits)
            await a.describe()


async def txn_end_next_epoch_repeated(env: Env) -> None:
    """EndTxn v5 again, with the epoch before: the same answer, or code 48."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    for commits in (True, False):
        before = a.identity
        await a.produce(topic, version=12)
        await a.end(5, commits=commits)
        for again in (commits, not commits):
            await a.end(5, commits=again, **before)
        await a.end(4, commits=commits, **before)
        await a.describe()
        older = before | {"producer_epoch": before["producer_epoch"] - 1}
        await a.end(5, commits=commits, **older)


async def txn_produce_negative_epoch(env: Env) -> None:
    """Epochs below -1, of a producer that the partition does not know, and knows."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    for _ in range(2):
        for epoch in (-2, -32_768):
            await a.produce(topic, transactional=False, producer_epoch=epoch)
            await a.produce(topic, version=12, producer_epoch=epoch)
        await a.produce(topic, version=12)


async def txn_plain_batch_in_transaction(env: Env) -> None:
    """A producer's batch without the transactional flag, before, in and after one."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    await a.produce(topic, transactional=False)
    await a.produce(topic, version=12)
    for version in (11, 12):
        await a.produce(topic, version=version, transactional=False)
    await a.end(4)
    await a.produce(topic, transactional=False)
    await fetch(env, a.peer, topic)
    await describe_producers(a.peer, topic)


async def txn_markers_without_producer(env: Env) -> None:
    """No producer id, or no epoch: code -1 for all partitions of the request."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    for version in (1, 2):
        await mark(a, topic, version=version, producer_id=-1)
        await mark(a, topic, version=version, producer_epoch=-1, partitions=(0, 9))
        await mark(a, topic, version=version, producer_epoch=-1, partitions=(9,))
        await mark(a, topic, version=version, producer_epoch=-1, partitions=())
        await mark(a, topic, version=version, producer_epoch=-2)
    await fetch(env, a.peer, topic, 0, 1, isolation=UNCOMMITTED)


async def txn_markers_of_offsets(env: Env) -> None:
    """The group's partition, named twice, without a producer, and beside others."""
    offsets, topic = "__consumer_offsets", await env.topic()
    a = await Producer.ready(env, "A")
    await a.add_group()
    await a.end()
    named = [
        [(offsets, [0, 0])],
        [(offsets, [0, 999])],
        [(topic, [0, 9]), (offsets, [0, 0, 999])],
    ]
    lacking: list[dict[str, Any]] = [{}, {"producer_id": -1}, {"producer_epoch": -1}]
    for over in lacking:
        for some in named:
            topics = [{"name": n, "partition_indexes": found} for n, found in some]
            await mark(a, topic, topics=topics, **over)
    await fetch(env, a.peer, topic, isolation=UNCOMMITTED)


async def txn_markers_of_several_producers(env: Env) -> None:
    """Markers of several producers; one without a producer id stops the others."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    b = await Producer.ready(env, "B", "b")
    for each in (a, b):
        await each.produce(topic, version=12)

    def marker(producer: Producer, *partitions: int, **over: Any) -> dict[str, Any]:
        made = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch + 1,
            "transaction_result": True,
            "topics": [{"name": topic, "partition_indexes": list(partitions)}],
            "coordinator_epoch": 0,
            "transaction_version": 2,
        }
        return made | over

    markers = [marker(a, 0, 9), marker(b, 1), marker(a, 1)]
    await a.peer.call("WriteTxnMarkers", 2, markers=markers)
    markers = [marker(b, 0), marker(b, 1, producer_id=-1), marker(a, 0)]
    await a.peer.call("WriteTxnMarkers", 2, markers=markers)
    await fetch(env, a.peer, topic, 0, 1)


async def txn_markers_fence(env: Env) -> None:
    """A marker with the next epoch fences the producer in that partition only."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    await a.produce(topic, version=12)
    await mark(a, topic, producer_epoch=a.epoch + 1)
    await a.produce(topic, version=12)
    await a.produce(topic, version=12, partition=1, base_sequence=0)
    await describe_producers(a.peer, topic, 0, 1)
    await fetch(env, a.peer, topic, 0, 1)
