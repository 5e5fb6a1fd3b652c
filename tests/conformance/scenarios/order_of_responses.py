"""The order of topics, partitions, groups and resources in responses."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.producing import fetch_fields, produce_fields
from tests.conformance.steps import partitions_of, wanted
from tests.wire.malformed_batches import batch, good

ORDERED = True
UNKNOWN_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")


def _offsets(topic: str, *partitions: int, metadata: str = "") -> dict[str, Any]:
    """A topic of OffsetCommit."""
    made = [
        {"partition_index": each, "committed_offset": 7, "committed_metadata": metadata}
        for each in partitions
    ]
    return {"name": topic, "partitions": made}


async def _topics(env: Env) -> tuple[str, str, str, str]:
    """Two topics of 3 partitions, and two names of none."""
    return (
        await env.topic("one", 3),
        await env.topic("two", 3),
        env.fresh_topic_name("unknown"),
        env.fresh_topic_name("unknown-2"),
    )


async def order_of_commit(env: Env) -> None:
    """OffsetCommit: unknown topics and partitions, oversized metadata among the good."""
    one, two, unknown, unknown_2 = await _topics(env)
    a = await env.peer("A")
    for version in (2, 6, 9):
        await env.commit_offsets(
            a,
            _offsets(two, 2, 9, 0),
            _offsets(unknown, 1, 0),
            _offsets(one, 1),
            _offsets(two, 1),
            _offsets(unknown_2, 0),
            _offsets(one, 8, 0, metadata="x" * 5000),
            version=version,
        )


async def order_of_commit_that_fails(env: Env) -> None:
    """OffsetCommit of a stranger: which of the partitions come first."""
    one, two, unknown, _ = await _topics(env)
    await env.stable_group("A")
    b = await env.peer("B")
    topics = _offsets(two, 2, 9, 0), _offsets(unknown, 1, 0), _offsets(one, 1)
    await env.commit_offsets(b, *topics, member_id="made-up")


async def order_of_commit_by_topic_id(env: Env) -> None:
    """OffsetCommit v10: unknown ids and partitions among the good."""
    one, two, *_ = await _topics(env)
    env.symbols.name_uuid(UNKNOWN_ID, "<unknown-topic-id>")
    ids = await env.topic_id(two), UNKNOWN_ID, await env.topic_id(one)
    topics = [_offsets("", 2, 9, 0) | {"topic_id": each} for each in ids]
    for each in topics:
        del each["name"]
    await env.commit_offsets(await env.peer("A"), *topics, version=10)


async def order_of_offset_fetch(env: Env) -> None:
    """OffsetFetch: topics and partitions as they are asked for, groups too."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    for group in ("", "other"):
        await env.commit_offsets(
            a, commit_topic(one, 5, 1), commit_topic(two, 5, 2), group=env.group(group)
        )
    topics = wanted(two, 2, 9, 0), wanted(unknown, 1, 0), wanted(one, 1), wanted(two, 1)
    for version in (1, 5, 7, 8):
        await env.fetch_offsets(a, *topics, version=version)
    groups = [
        {"group_id": env.group(group), "topics": list(topics)}
        for group in ("other", "nobody", "", "other")
    ]
    await a.call("OffsetFetch", 9, groups=groups)


async def order_of_offset_delete(env: Env) -> None:
    """OffsetDelete: unknown partitions, and a subscribed topic, among the good."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    offsets = [commit_topic(t, 5, p) for t in (one, two) for p in range(3)]
    await env.commit_offsets(a, *offsets)
    topics = (
        partitions_of(two, 2, 9, 0),
        partitions_of(unknown, 1, 0),
        partitions_of(one, 1),
    )
    await env.delete_offsets(a, *topics)


async def order_of_fetch(env: Env) -> None:
    """Fetch: unknown topics, partitions and offsets out of range among the good."""
    one, two, unknown, unknown_2 = await _topics(env)
    a = await env.peer("A")
    fine = batch(int(time.time() * 1000), good())
    await _fill(env, fine, one, two)
    for version in (4, 7, 11, 12):
        topics = [
            fetch_fields(two, 2, 9, 0)["topics"][0],
            fetch_fields(unknown, 1, 0)["topics"][0],
            fetch_fields(one, 1, offset=99)["topics"][0],
            fetch_fields(one, 0)["topics"][0],
            fetch_fields(unknown_2, 0)["topics"][0],
            fetch_fields(two, 1)["topics"][0],
        ]
        await a.call("Fetch", version, max_wait_ms=0, min_bytes=0, topics=topics)


async def order_of_fetch_by_topic_id(env: Env) -> None:
    """Fetch v13 to v17: unknown ids and partitions among the good."""
    one, two, *_ = await _topics(env)
    env.symbols.name_uuid(UNKNOWN_ID, "<unknown-topic-id>")
    ids = [await env.topic_id(two), UNKNOWN_ID, await env.topic_id(one)]
    a = await env.peer("A")
    for version in (13, 15, 17):
        topics = []
        for each in ids:
            topic = fetch_fields("", 2, 9, 0)["topics"][0]
            del topic["topic"]
            topics.append(topic | {"topic_id": each})
        await a.call("Fetch", version, max_wait_ms=0, min_bytes=0, topics=topics)


async def order_of_fetch_in_session(env: Env) -> None:
    """Fetch sessions: a full one, then what has changed, then additions."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    fine = batch(int(time.time() * 1000), good())
    asked = [
        fetch_fields(two, 2, 9, 0)["topics"][0],
        fetch_fields(unknown, 0)["topics"][0],
        fetch_fields(one, 1, 0)["topics"][0],
    ]
    session = 0
    for epoch, topics in enumerate(
        (asked, [], [], [fetch_fields(two, 1)["topics"][0]])
    ):
        if epoch == 2:
            await _fill(env, fine, one, two)
        with env.transcript.muted():
            answer = await a.call(
                "Fetch",
                12,
                max_wait_ms=0,
                min_bytes=0,
                session_id=session,
                session_epoch=epoch,
                topics=topics,
            )
        session = answer["session_id"]
        env.note(f"epoch {epoch}", responses=answer["responses"])


async def _fill(env: Env, records: bytes, *topics: str) -> None:
    """Unrecorded: Kafka answers Produce in any order."""
    with env.transcript.muted():
        peer = await env.peer("producer")
        for topic in topics:
            fields = produce_fields(topic, (0, records), (1, records))
            await peer.call("Produce", 9, **fields)


async def order_of_leader_epochs(env: Env) -> None:
    """OffsetForLeaderEpoch: unknown topics and partitions among the good."""
    one, two, unknown, _ = await _topics(env)
    a = await env.peer("A")
    topics = [
        {
            "topic": topic,
            "partitions": [{"partition": p, "leader_epoch": 0} for p in partitions],
        }
        for topic, partitions in ((two, (2, 9, 0)), (unknown, (1, 0)), (one, (1,)))
    ]
    await a.call("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics)


async def order_of_metadata_by_topic_id(env: Env) -> None:
    """Metadata v12: unknown ids among the good."""
    one, two, *_ = await _topics(env)
    env.symbols.name_uuid(UNKNOWN_ID, "<unknown-topic-id>")
    ids = await env.topic_id(two), UNKNOWN_ID, await env.topic_id(one)
    topics = [{"name": None, "topic_id": each} for each in ids]
    await (await env.peer("A")).call("Metadata", 12, topics=topics)


async def order_of_topic_partitions(env: Env) -> None:
    """DescribeTopicPartitions: sorted by name, unknown ones among the good."""
    one, two, unknown, unknown_2 = await _topics(env)
    a = await env.peer("A")
    names = [{"name": each} for each in (unknown_2, two, unknown, one)]
    await a.call("DescribeTopicPartitions", 0, topics=names)


async def order_of_create_topics(env: Env) -> None:
    """CreateTopics: names that exist, repeated or invalid among the good."""
    exists = await env.topic("exists")
    a = await env.peer("A")
    new, twice, new_2 = (
        env.fresh_topic_name(each) for each in ("new", "twice", "new-2")
    )
    names = new, exists, twice, "a/b", new_2, twice
    topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in names]
    topics.append(
        {
            "name": env.fresh_topic_name("none"),
            "num_partitions": 0,
            "replication_factor": 1,
        }
    )
    for version in (2, 7):
        await a.call(
            "CreateTopics", version, topics=topics, timeout_ms=5000, edit=_no_configs
        )


async def order_of_coordinators(env: Env) -> None:
    """FindCoordinator v4: keys as they are asked for."""
    a = await env.peer("A")
    keys = [env.group(each) for each in ("z", "x", "y")]
    await a.call(
        "FindCoordinator", 4, key_type=0, coordinator_keys=[*keys, "", keys[0]]
    )


async def order_of_leaves(env: Env) -> None:
    """LeaveGroup: members as they are named, unknown ones among the known."""
    members = await env.stable_group("A", "B", "C")
    leaving = [members[2], members[0]]
    identities = [{"member_id": each.member_id} for each in leaving]
    peer = await env.peer("admin")
    await env.remove_members(
        peer, identities[0], {"member_id": "made-up"}, identities[1], version=5
    )


def _no_configs(body: dict[str, Any]) -> None:
    """Drops the configuration of new topics from CreateTopics."""
    for topic in body["topics"]:
        topic.pop("configs", None)


async def order_of_configs(env: Env) -> None:
    """DescribeConfigs and IncrementalAlterConfigs answer in the order of the request."""
    topic = await env.topic()
    a = await env.peer("A")
    missing = env.group("missing")
    keys = ["retention.ms", "no.such.key", "cleanup.policy"]
    described = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name in ((9, "x"), (2, missing), (4, "7"), (2, topic), (2, "a b"))
    ]
    for resources in (described, *([each] for each in described)):
        await a.call("DescribeConfigs", 4, resources=resources)
    changes = [
        {"name": key, "config_operation": 0, "value": "60000"}
        for key in ("segment.ms", "retention.ms")
    ]
    altered = [
        {"resource_type": kind, "resource_name": name, "configs": changes}
        for kind, name in ((2, missing), (2, topic), (4, "7"), (9, "x"))
    ]
    await a.call("IncrementalAlterConfigs", 1, resources=altered, validate_only=True)
