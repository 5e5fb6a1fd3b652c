"""Requests about several topics or groups, of which some fail."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.conformance.env import Env
from tests.conformance.producing import produce_fields
from tests.conformance.steps import topics_named
from tests.wire.malformed_batches import HOUR_MS, batch, good

UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")


async def _topics(env: Env) -> tuple[str, str, str, str]:
    """Two topics of 3 partitions, and two unknown names."""
    return (
        await env.topic("one", 3),
        await env.topic("two", 3),
        env.fresh_topic_name("unknown"),
        env.fresh_topic_name("unknown-2"),
    )


async def mixed_groups(env: Env) -> None:
    """DescribeGroups and DeleteGroups: unknown groups among the known, and repeated."""
    for name in ("x", "y", "z"):
        await env.stable_group(name, group=env.group(name))
    a = await env.peer("A")
    groups = [env.group(each) for each in ("z", "nobody", "x", "none", "y", "x")]
    await env.describe(a, *groups)
    await env.describe(a, *groups, version=6)
    await env.commit_offsets(a, group=env.group("empty"))
    await env.delete_groups(a, *groups, env.group("empty"))


async def mixed_list_offsets(env: Env) -> None:
    """ListOffsets: unknown topics and partitions, and duplicates, among the good."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")

    def asked(topic: str, *partitions: int) -> dict[str, Any]:
        made = [{"partition_index": each, "timestamp": -1} for each in partitions]
        return {"name": topic, "partitions": made}

    for version in (1, 5, 7):
        topics = [asked(two, 2, 9, 0), asked(unknown, 1, 0), asked(one, 1)]
        await a.call("ListOffsets", version, replica_id=-1, topics=topics)
        topics = [*topics, asked(two, 1, 2), asked(one, 0, 0)]
        await a.call("ListOffsets", version, replica_id=-1, topics=topics)


async def mixed_metadata(env: Env) -> None:
    """Metadata: unknown and invalid names among the good, and partitions."""
    one, two, unknown, unknown_2 = await _topics(env)
    a = await env.peer("A")
    for version in (4, 8, 12):
        names = two, unknown, "a/b", one, unknown_2
        fields = topics_named(version, *names) | {"allow_auto_topic_creation": False}
        await a.call("Metadata", version, **fields)


async def mixed_produce(env: Env) -> None:
    """Produce: unknown topics and partitions, and refused batches, among the good."""
    one, two, unknown, unknown_2 = await _topics(env)
    now = int(time.time() * 1000)
    fine, wrong = batch(now, good()), batch(now, good(), crc=5)
    late = batch(now + 2 * HOUR_MS, good())
    topics = [
        produce_fields(two, (2, wrong), (9, fine), (0, fine), (1, late)),
        produce_fields(unknown, (1, fine), (0, wrong)),
        produce_fields("__consumer_offsets", (0, fine)),
        produce_fields(one, (1, fine)),
        produce_fields(unknown_2, (0, fine)),
        produce_fields(one, (0, wrong), (2, fine)),
    ]
    a = await env.peer("A")
    for version in (3, 9):
        data = [each["topic_data"][0] for each in topics]
        await a.call("Produce", version, acks=-1, timeout_ms=5000, topic_data=data)


async def mixed_produce_by_topic_id(env: Env) -> None:
    """Produce v13: unknown ids, and refused batches, among the good."""
    one, two, *_ = await _topics(env)
    env.symbols.name_uuid(UNKNOWN_ID, "<unknown-topic-id>")
    now = int(time.time() * 1000)
    fine, wrong = batch(now, good()), batch(now, good(), crc=5)
    data = [
        {"index": 2, "records": wrong},
        {"index": 9, "records": fine},
        {"index": 0, "records": fine},
    ]
    ids = await env.topic_id(two), UNKNOWN_ID, await env.topic_id(one)
    topics = [{"topic_id": each, "partition_data": data} for each in ids]
    a = await env.peer("A")
    await a.call("Produce", 13, acks=-1, timeout_ms=5000, topic_data=topics)


async def mixed_create_partitions(env: Env) -> None:
    """CreatePartitions: unknown topics, and counts that are refused."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    topics = [{"name": n, "count": c} for n, c in ((two, 4), (unknown, 4), (one, 2))]
    await a.call("CreatePartitions", 3, topics=topics, timeout_ms=5000)


async def mixed_delete_topics(env: Env) -> None:
    """DeleteTopics: unknown names and ids."""
    one, two, unknown, _ = await _topics(env)
    env.symbols.name_uuid(UNKNOWN_ID, "<unknown-topic-id>")
    two_id = await env.topic_id(two)
    a = await env.peer("A")
    await a.call("DeleteTopics", 5, topic_names=[unknown, one], timeout_ms=5000)
    topics = [
        {"name": unknown, "topic_id": None},
        {"name": None, "topic_id": UNKNOWN_ID},
        {"name": None, "topic_id": two_id},
    ]
    await a.call("DeleteTopics", 6, topics=topics, timeout_ms=5000)


async def mixed_delete_records(env: Env) -> None:
    """DeleteRecords: unknown topics, partitions and offsets."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": p, "offset": o} for p, o in partitions],
        }
        for topic, partitions in (
            (two, ((2, 0), (9, 0), (0, 5))),
            (unknown, ((1, 0),)),
            (one, ((1, -1),)),
        )
    ]
    await a.call("DeleteRecords", 2, topics=topics, timeout_ms=5000)
