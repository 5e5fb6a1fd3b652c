"""OffsetCommit: versions, states, members and simple consumers."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.env import Env
from tests.conformance.member import assignments, commit_topic
from tests.conformance.steps import wanted


async def commit_retention_time(env: Env) -> None:
    """v2 to v4 bring a retention time; it changes nothing at first."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 3, 4):
        for retention in (-1, 600_000, 10**12):
            group = env.group(f"v{version}-{retention}")
            await env.commit_offsets(
                a,
                commit_topic(topic, 1),
                version=version,
                retention_time_ms=retention,
                group=group,
            )
            await env.fetch_offsets(a, wanted(topic), group=group)


async def commit_refused_entirely_makes_group(env: Env) -> None:
    """A first commit of which nothing is stored: is there a group afterwards?"""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 9):
        # This group is not described: whether it exists depends on other groups'
        # records in the same partition of the log.
        group = env.group(f"metadata-{version}")
        await env.commit_offsets(
            a, commit_topic(topic, 1, metadata="x" * 5000), version=version, group=group
        )
        group = env.group(f"partition-{version}")
        await env.commit_offsets(
            a, commit_topic(topic, 1, 9), version=version, group=group
        )
        await env.describe(a, group, version=6)
        group = env.group(f"topic-{version}")
        unknown = env.fresh_topic_name(f"unknown-{version}")
        await env.commit_offsets(
            a, commit_topic(unknown, 1), version=version, group=group
        )
        await env.describe(a, group, version=6)
        group = env.group(f"empty-{version}")
        await env.commit_offsets(
            a, {"name": topic, "partitions": []}, version=version, group=group
        )
        await env.describe(a, group, version=6)


async def commit_of_stranger_with_unknown_partitions(env: Env) -> None:
    """A wrong generation and unknown partitions: which error for which."""
    topic = await env.topic()
    unknown = env.fresh_topic_name("unknown")
    (a,) = await env.stable_group("A")
    for version in (2, 9):
        topics = [
            commit_topic(topic, 1),
            commit_topic(topic, 1, 9),
            commit_topic(unknown, 1),
            commit_topic(topic, 1, metadata="x" * 5000),
        ]
        await a.commit(topic, 1, version, topics=topics)
        await a.commit(
            topic, 1, version, topics=topics, generation_id_or_member_epoch=7
        )
        await a.commit(topic, 1, version, topics=topics, member_id="made-up")
        await a.commit(topic, 1, version, topics=topics[1:3], member_id="made-up")


async def commit_same_partition_twice(env: Env) -> None:
    """A topic and a partition repeated in one request: the last one counts."""
    topic = await env.topic(partitions=2)
    unknown = env.fresh_topic_name("unknown")
    a = await env.peer("A")
    twice = [commit_topic(topic, 1), commit_topic(topic, 2), commit_topic(topic, 3, 1)]
    await env.commit_offsets(a, *twice)
    await env.fetch_offsets(a, wanted(topic, 0, 1))
    await env.commit_offsets(
        a, *twice, commit_topic(unknown, 1), commit_topic(unknown, 2)
    )
    await env.fetch_offsets(a, wanted(topic, 0, 0, 1), wanted(topic, 0))


async def commit_ids_of_nobody(env: Env) -> None:
    """Generation and member id in all combinations, in every state, v2 and v9."""
    topic = await env.topic()
    watcher = await env.peer("watcher")
    a, b = await env.stable_group("A", "B", sync=False)

    async def ask() -> None:
        for version in (2, 8, 9):
            for generation in (-2, -1, 0, a.generation):
                for member_id in ("", "made-up", b.member_id):
                    await env.commit_offsets(
                        watcher,
                        commit_topic(topic, 1),
                        version=version,
                        generation_id_or_member_epoch=generation,
                        member_id=member_id,
                    )

    await ask()
    await env.sync_all([a, b])
    await ask()
    joining = await env.rebalance(a, 2)
    await ask()
    await b.leave()
    await joining.result()
    await a.leave()
    await ask()


async def commit_leader_epoch(env: Env) -> None:
    """Leader epochs are stored from v6 on and returned from OffsetFetch v5 on."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (5, 6, 9):
        group = env.group(f"v{version}")
        committed = commit_topic(topic, 1)
        if version >= 6:
            committed["partitions"][0]["committed_leader_epoch"] = 17
        await env.commit_offsets(a, committed, version=version, group=group)
        for fetched in (4, 5, 9):
            await env.fetch_offsets(a, wanted(topic), version=fetched, group=group)


async def commit_null_metadata(env: Env) -> None:
    """Null metadata comes back as the empty string."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 8, 9):
        group = env.group(f"v{version}")
        await env.commit_offsets(
            a, commit_topic(topic, 1, metadata=None), version=version, group=group
        )
        await env.fetch_offsets(a, wanted(topic), group=group)


async def commit_to_pending_only_group(env: Env) -> None:
    """A group in which an id was given out is Empty: simple commits are taken."""
    topic = await env.topic()
    a = await env.newcomer("A")
    await env.commit_offsets(a.peer, commit_topic(topic, 1))
    await a.commit(topic, 2)
    await a.commit(topic, 3, generation_id_or_member_epoch=0)
    await env.fetch_offsets(a.peer, wanted(topic))
    await a.join()
    await env.commit_offsets(a.peer, commit_topic(topic, 4))
    await env.fetch_offsets(a.peer, wanted(topic))


async def commit_by_topic_id_twice(env: Env) -> None:
    """v10: the same id twice, with unknown ids and partitions among them."""
    topic = await env.topic(partitions=2)
    topic_id = await env.topic_id(topic)
    unknown = uuid.UUID("11111111-2222-4333-8444-555555555555")
    env.symbols.name_uuid(unknown, "<unknown-topic-id>")
    a = await env.peer("A")

    def by_id(which: uuid.UUID | None, *partitions: int) -> dict[str, Any]:
        return {
            "topic_id": which,
            "partitions": [
                {
                    "partition_index": p,
                    "committed_offset": 5,
                    "committed_metadata": "",
                }
                for p in partitions
            ],
        }

    for number, topics in enumerate(
        (
            [by_id(topic_id, 0), by_id(topic_id, 1)],
            [by_id(topic_id, 0), by_id(unknown, 0), by_id(topic_id, 1, 9)],
            [by_id(unknown, 0), by_id(unknown, 1)],
            [by_id(None, 0), by_id(None, 1)],
        )
    ):
        group = env.group(f"{number}")
        await env.commit_offsets(a, *topics, version=10, group=group)
        await env.commit_offsets(
            a, *topics, version=10, generation_id_or_member_epoch=3, group=group
        )
        await env.describe(a, group, version=6)


async def commit_simple_consumer_each_version(env: Env) -> None:
    """Generation -1 and no member id, v2 to v9, for a group without members."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in range(2, 10):
        group = env.group(f"v{version}")
        await env.commit_offsets(
            a, commit_topic(topic, version), version=version, group=group
        )
        await env.fetch_offsets(a, wanted(topic), group=group)
    await env.describe(a, group)


async def commit_metadata_too_large(env: Env) -> None:
    """offset.metadata.max.bytes is 4096; other partitions of the request succeed."""
    topic = await env.topic(partitions=2)
    a = await env.peer("A")
    partitions = [
        {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_metadata": "x" * 4097,
        },
        {
            "partition_index": 1,
            "committed_offset": 2,
            "committed_metadata": "x" * 4096,
        },
    ]
    for version in (2, 9):
        await env.commit_offsets(
            a, {"name": topic, "partitions": partitions}, version=version
        )
    await env.fetch_offsets(a, wanted(topic, 0, 1))


async def commit_metadata_size_in_bytes(env: Env) -> None:
    """offset.metadata.max.bytes counts characters, not bytes."""
    topic = await env.topic()
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 1, metadata="ü" * 4096))
    await env.commit_offsets(a, commit_topic(topic, 1, metadata="ü" * 2049))


async def commit_unknown_topic(env: Env) -> None:
    """Unknown topics and partitions give code 3, known ones succeed."""
    topic = await env.topic(partitions=2)
    unknown = env.fresh_topic_name("unknown")
    a = await env.peer("A")
    for version in (2, 5, 9):
        await env.commit_offsets(
            a,
            commit_topic(topic, 5, partition=1),
            commit_topic(topic, 5, partition=2),
            commit_topic(unknown, 5),
            version=version,
        )
    await env.fetch_offsets(a, wanted(topic, 0, 1, 2), wanted(unknown, 0))


async def commit_no_topics(env: Env) -> None:
    """A commit without topics makes no group."""
    a = await env.peer("A")
    await env.commit_offsets(a)
    await env.describe(a, version=6)


async def commit_odd_offsets(env: Env) -> None:
    """Offsets 0, -1 and the largest; the broker stores what it gets."""
    topic = await env.topic()
    a = await env.peer("A")
    for number, offset in enumerate((0, -1, -5, 2**63 - 1)):
        group = env.group(f"{number}")
        await env.commit_offsets(a, commit_topic(topic, offset), group=group)
        await env.fetch_offsets(a, wanted(topic), group=group)


async def commit_overwrites(env: Env) -> None:
    """A lower offset overwrites a higher one."""
    topic = await env.topic()
    a = await env.peer("A")
    await env.commit_offsets(a, commit_topic(topic, 10, metadata="first"))
    await env.commit_offsets(a, commit_topic(topic, 3, metadata="second"))
    await env.fetch_offsets(a, wanted(topic))


async def commit_member_errors(env: Env) -> None:
    """Unknown member, wrong generation, unknown group, empty ids."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    for version in (2, 9):
        await a.commit(topic, 1, version, member_id="made-up")
        await a.commit(topic, 1, version, generation_id_or_member_epoch=0)
        await a.commit(topic, 1, version, generation_id_or_member_epoch=2)
        await a.commit(topic, 1, version, group_id=env.group("nobody"))
        await a.commit(topic, 1, version, group_id="")
    await env.fetch_offsets(a.peer, wanted(topic))


async def commit_stranger_to_group_with_members(env: Env) -> None:
    """A simple consumer may not commit to a group that has members."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    b = await env.peer("B")
    for version in (2, 7, 9):
        await env.commit_offsets(b, commit_topic(topic, 1), version=version)
    await a.commit(topic, 2, generation_id_or_member_epoch=-1)
    await a.commit(topic, 2, member_id="")
    await a.leave()
    await env.commit_offsets(b, commit_topic(topic, 3))


async def commit_generation_of_unknown_group(env: Env) -> None:
    """A generation for a group that does not exist, without and with a member id."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 9):
        for generation, member_id in ((0, ""), (5, "made-up"), (-1, "made-up")):
            await env.commit_offsets(
                a,
                commit_topic(topic, 1),
                version=version,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                group=env.group(f"v{version}-{generation}"),
            )


async def commit_to_empty_group(env: Env) -> None:
    """Former member, simple consumer and others, for a group that is empty now."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    await a.leave()
    await a.commit(topic, 1)
    await a.commit(topic, 2, member_id="")
    await a.commit(topic, 3, member_id="", generation_id_or_member_epoch=-1)
    await a.commit(topic, 4, generation_id_or_member_epoch=-1)
    await env.fetch_offsets(a.peer, wanted(topic))


async def commit_in_preparing(env: Env) -> None:
    """PreparingRebalance: members of the old generation may still commit."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B")
    joining = await env.rebalance(a, 2)
    for version in (2, 9):
        await b.commit(topic, 5, version)
        await b.commit(topic, 6, version, generation_id_or_member_epoch=1)
        await b.commit(topic, 6, version, generation_id_or_member_epoch=3)
    await b.join()
    await joining.result()


async def commit_in_completing(env: Env) -> None:
    """CompletingRebalance: code 27 for the new generation."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B", sync=False)
    for version in (2, 9):
        await b.commit(topic, 5, version)
        await b.commit(topic, 5, version, generation_id_or_member_epoch=1)
    await a.sync(assignments=assignments(a, b))
    await b.commit(topic, 6)


async def commit_instance_ids(env: Env) -> None:
    """Instance ids in commits: right, of someone else, unknown, left out."""
    topic = await env.topic()
    a, b = await env.stable_group("A", "B", A={"instance": "i-A"})
    await a.commit(topic, 1)
    await a.commit(topic, 2, group_instance_id=None)
    await a.commit(topic, 3, group_instance_id="i-unknown")
    await b.commit(topic, 4, group_instance_id="i-A")
    await b.commit(topic, 5, group_instance_id="i-unknown")
    await a.commit(topic, 6, member_id="made-up")


async def commit_by_topic_id(env: Env) -> None:
    """v10 names topics by id; unknown ids give code 100."""
    topic = await env.topic()
    topic_id = await env.topic_id(topic)
    unknown = uuid.UUID("11111111-2222-4333-8444-555555555555")
    env.symbols.name_uuid(unknown, "<unknown-topic-id>")
    (a,) = await env.stable_group("A")

    def by_id(topic_id: uuid.UUID | None, partition: int = 0) -> dict[str, Any]:
        return {
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": 5,
                    "committed_metadata": "",
                }
            ],
        }

    topics = [by_id(topic_id), by_id(topic_id, 9), by_id(unknown), by_id(None)]
    await a.commit(topic, 0, 10, topics=topics)
    await a.commit(topic, 0, 10, topics=[by_id(topic_id)], member_id="made-up")
    await a.commit(topic, 0, 10, topics=[by_id(topic_id)], group_id=env.group("none"))
    asked: list[dict[str, Any]] = [
        {"topic_id": topic_id, "partition_indexes": [0, 1]},
        {"topic_id": unknown, "partition_indexes": [0]},
    ]
    await env.fetch_offsets(a.peer, *asked, version=10)
    await a.peer.call(
        "OffsetFetch", 10, groups=[{"group_id": env.group(), "topics": None}]
    )


async def commit_survives_the_group(env: Env) -> None:
    """Offsets stay when the last member leaves, and are gone after DeleteGroups."""
    topic = await env.topic()
    (a,) = await env.stable_group("A")
    await a.commit(topic, 9)
    await a.leave()
    await env.fetch_offsets(a.peer, wanted(topic))
    await env.delete_groups(a.peer)
    await env.fetch_offsets(a.peer, wanted(topic))
