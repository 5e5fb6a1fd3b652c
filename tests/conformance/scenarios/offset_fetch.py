"""OffsetFetch: versions, shapes, and groups that rebalance."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import commit_topic
from tests.conformance.steps import wanted


async def fetch_offsets_of_deleted_topic(env: Env) -> None:
    """Offsets go with their topic, of simple groups and of those with members."""
    topic, other = await env.topic("x"), await env.topic("y")
    a = await env.peer("A")
    simple, stable = env.group("simple"), env.group("stable")
    await env.commit_offsets(a, commit_topic(topic, 1), group=simple)
    (m,) = await env.stable_group("M", group=stable)
    await m.commit(topic, 1)
    await m.commit(other, 2)
    await a.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=10_000)
    for _ in range(50):
        with env.transcript.muted():
            left = await a.call(
                "OffsetFetch",
                9,
                groups=[
                    {"group_id": simple, "topics": None},
                    {"group_id": stable, "topics": None},
                ],
            )
        if sum(len(g["topics"]) for g in left["groups"]) == 1:
            break
        await env.settle(0.1)
    for group in (simple, stable):
        await a.call("OffsetFetch", 9, groups=[{"group_id": group, "topics": None}])
        await env.fetch_offsets(a, wanted(topic), wanted(other), group=group)
    await env.describe(a, simple, stable, version=6)
    await m.heartbeat()
    await m.commit(topic, 3)


async def fetch_same_group_twice(env: Env) -> None:
    """A group, a topic and a partition repeated in one request."""
    topic = await env.topic()
    group = env.group()
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 1))
    for version in (8, 9):
        await a.call(
            "OffsetFetch",
            version,
            groups=[
                {"group_id": group, "topics": [wanted(topic, 0, 0), wanted(topic)]},
                {"group_id": group, "topics": None},
                {"group_id": group, "topics": []},
            ],
        )
    for version in (1, 5, 7):
        await env.fetch_offsets(
            a, wanted(topic, 0, 0), wanted(topic, 0), version=version
        )


async def fetch_unknown_group_with_member_fields(env: Env) -> None:
    """v9 member id and epoch for a group that does not exist, and for a simple one."""
    topic = await env.topic()
    a = await env.peer("A")
    simple = env.group("simple")
    await env.commit_offsets(a, commit_topic(topic, 1), group=simple)
    for group in (env.group("nobody"), simple):
        for member_id, epoch in (
            (None, -1),
            (None, 3),
            ("made-up", -1),
            ("made-up", 3),
        ):
            for topics in ([wanted(topic)], None):
                await a.call(
                    "OffsetFetch",
                    9,
                    groups=[
                        {
                            "group_id": group,
                            "topics": topics,
                            "member_id": member_id,
                            "member_epoch": epoch,
                        }
                    ],
                )


async def fetch_by_topic_id(env: Env) -> None:
    """v10: known, unknown and zero ids, repeated, with unknown partitions."""
    topic = await env.topic(partitions=2)
    topic_id = await env.topic_id(topic)
    unknown = uuid.UUID("11111111-2222-4333-8444-555555555555")
    env.symbols.name_uuid(unknown, "<unknown-topic-id>")
    group = env.group()
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 1))

    def by_id(which: uuid.UUID | None, *partitions: int) -> dict[str, Any]:
        return {"topic_id": which, "partition_indexes": list(partitions)}

    for topics in (
        [by_id(topic_id, 0, 1, 9)],
        [by_id(topic_id, 0), by_id(topic_id, 0, 1)],
        [by_id(unknown, 0), by_id(topic_id, 0), by_id(unknown, 1)],
        [by_id(None, 0)],
        [by_id(topic_id)],
        [by_id(unknown)],
        [],
    ):
        await a.call("OffsetFetch", 10, groups=[{"group_id": group, "topics": topics}])
    await a.call(
        "OffsetFetch",
        10,
        groups=[
            {"group_id": env.group("nobody"), "topics": [by_id(topic_id, 0)]},
            {"group_id": env.group("nobody"), "topics": None},
            {"group_id": group, "topics": None},
        ],
    )


async def fetch_all_topics(env: Env) -> None:
    """Null topics mean everything that is committed; from v2 on."""
    topic = await env.topic("x", partitions=2)
    other = await env.topic("y")
    group = env.group()
    a = await env.peer("A")
    await env.commit_offsets(
        a, commit_topic(topic, 1, partition=1), commit_topic(other, 2)
    )
    for version in range(2, 8):
        await a.call("OffsetFetch", version, group_id=group, topics=None)
    for version in (8, 9):
        await a.call(
            "OffsetFetch", version, groups=[{"group_id": group, "topics": None}]
        )


async def fetch_no_topics(env: Env) -> None:
    """An empty topic list is not the same as null."""
    topic = await env.topic()
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 1))
    for version in (1, 2, 7, 8, 9):
        await env.fetch_offsets(a, version=version)


async def fetch_empty_group_id(env: Env) -> None:
    """The empty group id is a valid one here."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (1, 2, 7, 8, 9):
        await env.fetch_offsets(a, wanted(topic), version=version, group="")


async def fetch_several_groups(env: Env) -> None:
    """v8 and v9 take several groups, each with its own topics."""
    topic = await env.topic("x", partitions=2)
    other = await env.topic("y")
    groups = [env.group(s) for s in ("one", "two", "none")]
    a = await env.peer("A")
    await env.commit_offsets(
        a, commit_topic(topic, 1), commit_topic(other, 2), group=groups[0]
    )
    await env.commit_offsets(a, commit_topic(topic, 3, partition=1), group=groups[1])
    for version in (8, 9):
        await a.call(
            "OffsetFetch",
            version,
            groups=[
                {"group_id": groups[0], "topics": [wanted(topic, 0, 1)]},
                {"group_id": groups[1], "topics": None},
                {"group_id": groups[2], "topics": [wanted(other)]},
            ],
        )
    await a.call("OffsetFetch", 9, groups=[])


async def fetch_classic_group_with_member_fields(env: Env) -> None:
    """v9 member id and epoch, for a classic group."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    await a.commit(topic, 1)
    for member_id, epoch in (
        (None, -1),
        (a.member_id, 1),
        (a.member_id, 7),
        ("made-up", 1),
    ):
        await a.peer.call(
            "OffsetFetch",
            9,
            groups=[
                {
                    "group_id": env.group(),
                    "topics": [wanted(topic)],
                    "member_id": member_id,
                    "member_epoch": epoch,
                }
            ],
        )


async def fetch_during_rebalance(env: Env) -> None:
    """Offsets can be fetched in every state."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B")
    await a.commit(topic, 1)
    joining = await env.rebalance(a, 2)
    await env.fetch_offsets(b.peer, wanted(topic))
    await b.join()
    await joining.result()
    await env.fetch_offsets(b.peer, wanted(topic))
