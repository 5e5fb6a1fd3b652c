"""Requests that mix transactions, producers, groups, or states of a group."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.connection import Outcome
from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.transactional import Producer, describe_producers, fetch

from kohort.protocol import records
from kohort.protocol.records import Record


def _batch(producer: Producer | None, attributes: int, sequence: int = 0) -> bytes:
    header: dict[str, Any] = {"attributes": attributes}
    if producer is not None:
        header["producer_id"] = producer.producer_id
        header["producer_epoch"] = producer.epoch
        header["base_sequence"] = sequence
    some = [Record(0, int(time.time() * 1000), None, b"v")]
    return records.build_batch(some, **header)


async def _produce(
    a: Producer, rows: list[tuple[str, int, bytes]], version: int
) -> Outcome:
    """One Produce for several topics and partitions."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, batch in rows:
        row = {"index": partition, "records": batch}
        topics.setdefault(topic, []).append(row)
    return await a.peer.call(
        "Produce",
        version,
        transactional_id=a.id,
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            {"name": name, "partition_data": some} for name, some in topics.items()
        ],
    )


async def txn_produce_mixed(env: Env) -> None:
    """Batches with and without a transaction, a producer, or a partition, in one request."""
    one, two = await env.topic("one", 3), await env.topic("two")
    a = await Producer.ready(env, "A", "a")
    b = await Producer.ready(env, "B", "b")
    in_one = records.TRANSACTIONAL
    for version in (11, 12):
        await _produce(
            a, [(one, 0, _batch(a, in_one)), (two, 0, _batch(None, 0))], version
        )
        await _produce(
            a, [(one, 0, _batch(a, in_one)), (two, 0, _batch(a, 0))], version
        )
        await _produce(
            a, [(one, 0, _batch(a, in_one)), (one, 1, _batch(b, in_one))], version
        )
        await _produce(
            a, [(one, 0, _batch(a, in_one)), (one, 2, _batch(b, 0))], version
        )
        await _produce(
            a, [(one, 1, _batch(a, in_one)), (one, 9, _batch(a, in_one))], version
        )
        await _produce(a, [(one, 2, _batch(None, in_one))], version)
        await _produce(b, [(two, 0, _batch(a, in_one))], version)
        await a.describe()
    await a.end()
    await fetch(env, a.peer, one, 0, 1, 2)
    await describe_producers(a.peer, one, 0, 1, 2)


async def txn_produce_part_of_partitions(env: Env) -> None:
    """Produce v11 to several partitions, of which the transaction has one."""
    topic = await env.topic(partitions=3)
    a = await Producer.ready(env, "A")
    await a.add(topic, 1)
    rows = [(topic, p, _batch(a, records.TRANSACTIONAL)) for p in range(3)]
    await _produce(a, rows, 11)
    await a.end()
    await _produce(a, rows, 11)
    await fetch(env, a.peer, topic, 0, 1, 2)


async def txn_add_and_verify_together(env: Env) -> None:
    """One AddPartitionsToTxn v4: an addition, a verification, and two refusals."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A", "a")
    b = await Producer.ready(env, "B", "b")
    c = await Producer.ready(env, "C", "c")
    topics = [{"name": topic, "partitions": [0, 1]}]
    await b.add(topic, 1)
    wanted = [
        a.identity | {"verify_only": False},
        b.identity | {"verify_only": True},
        c.identity | {"verify_only": True, "producer_epoch": 9},
        c.identity | {"verify_only": False, "transactional_id": "nobody's"},
    ]
    for version in (4, 5):
        transactions = [each | {"topics": topics} for each in wanted]
        await a.peer.call("AddPartitionsToTxn", version, transactions=transactions)
    for each in (a, b, c):
        await each.describe()


async def txn_offsets_during_rebalance(env: Env) -> None:
    """TxnOffsetCommit of a member while the group prepares and completes a rebalance."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    (m,) = await env.stable_group("M")
    old = {"member_id": m.member_id, "generation_id": m.generation}
    n = await env.newcomer("N")
    joining = await env.rebalance(n, 2)
    await a.commit_offset(topic, 1, 5, **old)
    await a.commit_offset(topic, 2, 5, **(old | {"member_id": n.member_id}))
    await a.commit_offset(topic, 3, 5)
    await env.results(await m.send_join(), joining)
    await a.commit_offset(topic, 4, 5, **old)
    for member in (m, n):
        now = {"member_id": member.member_id, "generation_id": member.generation}
        await a.commit_offset(topic, 5, 5, **now)
    await a.end(5)
    await env.fetch_all_offsets(a.peer)


async def txn_offsets_of_two_groups(env: Env) -> None:
    """One transaction with the offsets of two groups, read together with require_stable."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    other = env.group("other")
    await env.commit_offsets(a.peer, commit_topic(topic, 1), group=other)
    await a.commit_offset(topic, 5, 5)

    async def both() -> None:
        groups = [{"group_id": g, "topics": None} for g in (env.group(), other, "none")]
        for stable in (True, False):
            await a.peer.call("OffsetFetch", 9, groups=groups, require_stable=stable)

    await both()
    await a.commit_offset(topic, 6, 5, group_id=other)
    await both()
    await env.delete_groups(a.peer, other)
    await a.end(5)
    await both()
    await a.commit_offset(topic, 7, 5, group_id=other)
    await a.end(5, commits=False)
    await both()
