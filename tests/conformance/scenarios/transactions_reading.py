"""Reading beside transactions: Fetch, ListOffsets, and requests of operators."""

from __future__ import annotations

from typing import Any

from tests.conformance.env import Env
from tests.conformance.peer import Peer
from tests.conformance.transactional import (
    COMMITTED,
    UNCOMMITTED,
    Producer,
    describe_producers,
    fetch,
)


async def _two(env: Env) -> tuple[Producer, Producer]:
    a = await Producer.ready(env, "A", "a")
    return a, await Producer.ready(env, "B", "b")


async def _list(peer: Peer, topic: str, *times: int) -> None:
    for isolation in (UNCOMMITTED, COMMITTED):
        for time_ms in times:
            row = {"partition_index": 0, "current_leader_epoch": -1}
            wanted = [row | {"timestamp": time_ms}]

            def edit(body: dict[str, Any]) -> None:
                for row in body["topics"][0]["partitions"]:
                    row["timestamp"] = row["timestamp"] > 0

            await peer.call(
                "ListOffsets",
                7,
                edit=edit,
                replica_id=-1,
                isolation_level=isolation,
                topics=[{"name": topic, "partitions": wanted}],
            )


async def txn_fetch_batch_does_not_fit(env: Env) -> None:
    """A limit below the first batch: no list of aborted transactions, but for the first partition."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    for partition in (0, 1):
        await a.produce(topic, version=12, partition=partition, base_sequence=0)
    await a.end(5, commits=False)
    for isolation in (UNCOMMITTED, COMMITTED):
        for most in (0, 1, 80, 1 << 20):
            over = {"isolation": isolation, "partition_max_bytes": most}
            await fetch(env, a.peer, topic, 0, 1, **over)
            await fetch(env, a.peer, topic, 1, 0, **over)


async def txn_fetch_overlapping(env: Env) -> None:
    """Overlapping transactions end in the order of their begin, and in the other."""
    for first in (0, 1):
        topic = await env.topic(f"t{first}")
        both = await _two(env)
        a, b = both
        await a.produce(topic, version=12)
        await b.produce(topic, 2, version=12)
        await a.produce(topic, version=12)
        for isolation in (UNCOMMITTED, COMMITTED):
            await fetch(env, a.peer, topic, isolation=isolation)
        await both[first].end(5, commits=False)
        await fetch(env, a.peer, topic)
        await _list(a.peer, topic, -1, -2)
        await both[1 - first].end(5, commits=False)
        for offset in range(7):
            await fetch(env, a.peer, topic, offset=offset)


async def txn_list_offsets_while_open(env: Env) -> None:
    """ListOffsets by time, by isolation level: before, in, and after a transaction."""
    topic = await env.topic()
    a, b = await _two(env)
    times = (-1, -2, 0, 2**60)
    await a.produce(topic, transactional=False)
    await a.produce(topic, version=12)
    await _list(a.peer, topic, *times)
    await b.produce(topic, version=12)
    await b.end(5)
    await _list(a.peer, topic, *times)
    await a.end(5)
    await _list(a.peer, topic, *times)


async def txn_describe_producers_in_course(env: Env) -> None:
    """DescribeProducers: markers of both generations, and the next epoch after them."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    for end in (4, 5):
        await a.produce(topic, version=12)
        await describe_producers(a.peer, topic)
        await a.end(end, commits=False)
        await describe_producers(a.peer, topic)
        await a.produce(topic, 3, version=12)
        await describe_producers(a.peer, topic)
        await a.end(end)
        await a.init()
    await describe_producers(a.peer, topic, 0, 0, 7)


async def txn_delete_records_of_open_one(env: Env) -> None:
    """DeleteRecords up to the middle of an open transaction, which then ends."""
    for commits in (True, False):
        topic = await env.topic(f"t{commits:d}")
        a = await Producer.ready(env, "A", f"a{commits:d}")
        await a.produce(topic, 2, version=12)
        await a.produce(topic, 2, version=12)
        for offset in (1, 2, 3, -1):
            rows = [{"partition_index": 0, "offset": offset}]
            topics = [{"name": topic, "partitions": rows}]
            await a.peer.call("DeleteRecords", 2, topics=topics, timeout_ms=5_000)
            await _list(a.peer, topic, -1, -2)
        await describe_producers(a.peer, topic)
        await a.produce(topic, version=12)
        await a.end(5, commits=commits)
        await fetch(env, a.peer, topic, offset=4)


async def txn_list_filters(env: Env) -> None:
    """ListTransactions: patterns of the whole id, invalid ones, durations, and states."""
    a = await Producer.ready(env, "A", "a")
    await a.add_group()

    def own(body: dict[str, Any]) -> None:
        body["transaction_states"] = [
            each
            for each in body["transaction_states"]
            if each["transactional_id"] == a.id
        ]

    async def listed(version: int, **fields: Any) -> None:
        wanted = {"state_filters": [], "producer_id_filters": []} | fields
        await a.peer.call("ListTransactions", version, edit=own, **wanted)

    for states in (["Ongoing"], ["ongoing"], ["Empty", "Nonsense", "Dead"], [""]):
        await listed(0, state_filters=states)
    for duration in (-1, -9, 3_600_000, 2**62):
        await listed(1, duration_filter=duration, producer_id_filters=[a.producer_id])
    for pattern in (
        None,
        "",
        a.id,
        f".*{a.id}.*",
        "x",
        "-a",
        ".*-a",
        "(",
        "[a",
        "(?i)X.*",
    ):
        await listed(2, transactional_id_pattern=pattern, duration_filter=-1)
    await a.end()
    await listed(2, transactional_id_pattern="x-.*", duration_filter=3_600_000)


async def txn_describe_lists(env: Env) -> None:
    """DescribeTransactions of no id, the empty one, one twice, and unknown ones."""
    topics = [await env.topic(name, 3) for name in ("one", "two")]
    a = await Producer.ready(env, "A", "a")
    for topic in topics:
        await a.add(topic, 2, 0)
    for ids in ([], [""], [a.id, a.id], ["nobody", a.id, ""]):
        await a.peer.call("DescribeTransactions", 0, transactional_ids=ids)
