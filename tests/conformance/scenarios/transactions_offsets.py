"""Offsets in transactions: members, pending offsets, and what ends or deletes them."""

from __future__ import annotations

from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.transactional import Producer


async def _both(env: Env, a: Producer, topic: str) -> None:
    """OffsetFetch of partition 0, and the same with require_stable."""
    wanted = {"name": topic, "partition_indexes": [0]}
    for stable in (False, True):
        await env.fetch_offsets(a.peer, wanted, version=7, require_stable=stable)


async def txn_offsets_of_member_fields(env: Env) -> None:
    """Member id, generation and instance id, each missing or wrong, v3 and v5."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    (m,) = await env.stable_group("M", static=True)
    own = {
        "member_id": m.member_id,
        "generation_id": m.generation,
        "group_instance_id": m.instance,
    }
    wrong: list[dict[str, Any]] = [
        {},
        {"group_instance_id": None},
        {"group_instance_id": "i-other"},
        {"generation_id": m.generation + 1},
        {"generation_id": -1},
        {"member_id": ""},
        {"member_id": "made-up"},
        {"member_id": "", "generation_id": -1},
        {"member_id": "", "generation_id": -1, "group_instance_id": None},
        {"member_id": "made-up", "generation_id": -1, "group_instance_id": None},
    ]
    await a.add_group()
    for version in (3, 5):
        for number, over in enumerate(wrong):
            await a.commit_offset(topic, number, version, **(own | over))
    await a.end()
    await _both(env, a, topic)


async def txn_offsets_of_empty_group_fields(env: Env) -> None:
    """A group without members, or unknown: generations and members that it never had."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    await a.add_group()
    for _ in range(2):
        for over in (
            {"generation_id": 0},
            {"generation_id": 3, "member_id": "made-up"},
            {"generation_id": -2},
            {"member_id": "made-up"},
            {"group_instance_id": "i-made-up"},
        ):
            await a.commit_offset(topic, 4, **over)
    await a.end(commits=False)
    await _both(env, a, topic)


async def txn_offsets_of_two_producers(env: Env) -> None:
    """Two pending offsets of one partition: the later one in the log counts."""
    topic = await env.topic()
    for first_commits in (True, False):
        a = await Producer.ready(env, "A", f"a {first_commits}")
        b = await Producer.ready(env, "B", f"b {first_commits}")
        await a.commit_offset(topic, 10, 5)
        await b.commit_offset(topic, 20, 5)
        await a.commit_offset(topic, 11, 5)
        await _both(env, a, topic)
        await a.end(5, commits=first_commits)
        await _both(env, a, topic)
        await b.end(5)
        await _both(env, a, topic)


async def txn_offsets_group_deleted(env: Env) -> None:
    """DeleteGroups while offsets are pending; then the transaction commits."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    await env.commit_offsets(a.peer, commit_topic(topic, 3))
    for commits in (True, False):
        await a.commit_offset(topic, 5, 5)
        await env.delete_groups(a.peer)
        await env.describe(a.peer, version=6)
        await _both(env, a, topic)
        await a.end(5, commits=commits)
        await _both(env, a, topic)
        await env.describe(a.peer, version=6)
        await env.delete_groups(a.peer)


async def txn_offsets_deleted_and_written_again(env: Env) -> None:
    """OffsetDelete, and a plain commit, while an offset is pending; then it commits."""
    topic = await env.topic()
    a = await Producer.ready(env, "A")
    wanted = {"name": topic, "partitions": [{"partition_index": 0}]}
    await a.commit_offset(topic, 5, 5)
    await env.delete_offsets(a.peer, wanted)
    await _both(env, a, topic)
    await env.commit_offsets(a.peer, commit_topic(topic, 6))
    await _both(env, a, topic)
    await a.commit_offset(topic, 7, 5)
    await a.end(5)
    await _both(env, a, topic)


async def txn_offsets_pending_by_version(env: Env) -> None:
    """OffsetFetch v6 to v9 of a pending offset: one partition, two, all of them."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")
    await env.commit_offsets(a.peer, commit_topic(topic, 3, partition=1))
    await a.commit_offset(topic, 5, 5)
    for version in (6, 7, 8, 9):
        for partitions in ([0], [1], [0, 1], [0, 9]):
            wanted = {"name": topic, "partition_indexes": partitions}
            over: dict[str, Any] = {"require_stable": True} if version >= 7 else {}
            await env.fetch_offsets(a.peer, wanted, version=version, **over)
    group = {"group_id": env.group(), "topics": None}
    await a.peer.call("OffsetFetch", 9, groups=[group], require_stable=True)


async def txn_offsets_unknown_among_known(env: Env) -> None:
    """Unknown topics and partitions, repeated ones, and none at all."""
    topic = await env.topic(partitions=2)
    a = await Producer.ready(env, "A")

    def named(name: str, *partitions: int) -> dict[str, Any]:
        rows = [{"partition_index": p, "committed_offset": 5 + p} for p in partitions]
        return {"name": name, "partitions": rows}

    await a.add_group()
    for version in (0, 3, 5):
        for topics in (
            [named(topic, 0, 9), named("no-such-topic", 0)],
            [named(topic, 0, 0), named(topic, 1)],
            [named("no-such-topic", 1)],
            [named(topic)],
            [],
        ):
            await a.commit_offset(topic, 0, version, topics=topics)
    await a.end()
    await env.fetch_all_offsets(a.peer)


async def txn_offsets_refused_stay_out(env: Env) -> None:
    """Too long metadata, negative offsets, and a leader epoch."""
    topic = await env.topic(partitions=3)
    a = await Producer.ready(env, "A")
    rows = [
        {"partition_index": 0, "committed_offset": -7, "committed_metadata": "m"},
        {
            "partition_index": 1,
            "committed_offset": 3,
            "committed_leader_epoch": 5,
            "committed_metadata": None,
        },
        {
            "partition_index": 2,
            "committed_offset": 1,
            "committed_metadata": "m" * 4097,
        },
    ]
    await a.commit_offset(topic, 0, 5, topics=[{"name": topic, "partitions": rows}])
    await a.end(5)
    await env.fetch_all_offsets(a.peer)
