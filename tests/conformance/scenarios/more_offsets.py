"""OffsetCommit and OffsetFetch: states, versions, shapes."""

from __future__ import annotations

import uuid
from typing import Any

from env import Env, Outcome, Peer, commit_topic, scenario


def _wanted(topic: str, *partitions: int) -> dict[str, Any]:
    return {"name": topic, "partition_indexes": list(partitions or (0,))}


async def _fetch(
    peer: Peer, group: str, *topics: dict[str, Any], version: int = 9
) -> Outcome:
    if version < 8:
        return await peer.call(
            "OffsetFetch", version, group_id=group, topics=list(topics)
        )
    return await peer.call(
        "OffsetFetch", version, groups=[{"group_id": group, "topics": list(topics)}]
    )


async def _simple(
    peer: Peer, group: str, *topics: dict[str, Any], version: int = 9, **over: Any
) -> Outcome:
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": list(topics),
    }
    return await peer.call("OffsetCommit", version, **(fields | over))


@scenario()
async def commit_retention_time(env: Env) -> None:
    """v2 to v4 bring a retention time; it changes nothing at first."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 3, 4):
        for retention in (-1, 600_000, 10**12):
            group = env.group(f"v{version}-{retention}")
            await _simple(
                a,
                group,
                commit_topic(topic, 1),
                version=version,
                retention_time_ms=retention,
            )
            await _fetch(a, group, _wanted(topic))


@scenario()
async def commit_refused_entirely_makes_group(env: Env) -> None:
    """A first commit of which nothing is stored: is there a group afterwards?"""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 9):
        group = env.group(f"metadata-{version}")
        await _simple(
            a, group, commit_topic(topic, 1, metadata="x" * 5000), version=version
        )
        await env.describe(a, group, version=6)
        group = env.group(f"partition-{version}")
        await _simple(a, group, commit_topic(topic, 1, 9), version=version)
        await env.describe(a, group, version=6)
        group = env.group(f"topic-{version}")
        unknown = env.fresh_topic_name(f"unknown-{version}")
        await _simple(a, group, commit_topic(unknown, 1), version=version)
        await env.describe(a, group, version=6)
        group = env.group(f"empty-{version}")
        await _simple(a, group, {"name": topic, "partitions": []}, version=version)
        await env.describe(a, group, version=6)


@scenario()
async def commit_of_stranger_with_unknown_partitions(env: Env) -> None:
    """A wrong generation and unknown partitions: which error for which."""
    topic = await env.topic()
    unknown = env.fresh_topic_name("unknown")
    group = env.group()
    (a,) = await env.stable_group(group, "A")
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


@scenario()
async def commit_same_partition_twice(env: Env) -> None:
    """A topic and a partition repeated in one request: the last one counts."""
    topic = await env.topic(partitions=2)
    unknown = env.fresh_topic_name("unknown")
    group = env.group()
    a = await env.peer("A")
    twice = [commit_topic(topic, 1), commit_topic(topic, 2), commit_topic(topic, 3, 1)]
    await _simple(a, group, *twice)
    await _fetch(a, group, _wanted(topic, 0, 1))
    await _simple(a, group, *twice, commit_topic(unknown, 1), commit_topic(unknown, 2))
    await _fetch(a, group, _wanted(topic, 0, 0, 1), _wanted(topic, 0))


@scenario()
async def commit_ids_of_nobody(env: Env) -> None:
    """Generation and member id in all combinations, in every state, v2 and v9."""
    topic = await env.topic()
    group = env.group()
    watcher = await env.peer("watcher")
    a, b = await env.stable_group(group, "A", "B", sync=False)

    async def ask() -> None:
        for version in (2, 8, 9):
            for generation in (-2, -1, 0, a.generation):
                for member_id in ("", "made-up", b.member_id):
                    await _simple(
                        watcher,
                        group,
                        commit_topic(topic, 1),
                        version=version,
                        generation_id_or_member_epoch=generation,
                        member_id=member_id,
                    )

    await ask()
    await env.sync_all([a, b])
    await ask()
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await ask()
    await b.leave()
    await joining.result()
    await a.leave()
    await ask()


@scenario()
async def commit_leader_epoch(env: Env) -> None:
    """Leader epochs are stored from v6 on and returned from OffsetFetch v5 on."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (5, 6, 9):
        group = env.group(f"v{version}")
        committed = commit_topic(topic, 1)
        if version >= 6:
            committed["partitions"][0]["committed_leader_epoch"] = 17
        await _simple(a, group, committed, version=version)
        for fetched in (4, 5, 9):
            await _fetch(a, group, _wanted(topic), version=fetched)


@scenario()
async def commit_null_metadata(env: Env) -> None:
    """Null metadata comes back as the empty string."""
    topic = await env.topic()
    a = await env.peer("A")
    for version in (2, 8, 9):
        group = env.group(f"v{version}")
        await _simple(a, group, commit_topic(topic, 1, metadata=None), version=version)
        await _fetch(a, group, _wanted(topic))


@scenario()
async def commit_to_pending_only_group(env: Env) -> None:
    """A group in which an id was given out is Empty: simple commits are taken."""
    topic = await env.topic()
    group = env.group()
    a = await env.member("A", group)
    await a.join()
    await _simple(a.peer, group, commit_topic(topic, 1))
    await a.commit(topic, 2)
    await a.commit(topic, 3, generation_id_or_member_epoch=0)
    await _fetch(a.peer, group, _wanted(topic))
    await a.join()
    await _simple(a.peer, group, commit_topic(topic, 4))
    await _fetch(a.peer, group, _wanted(topic))


@scenario()
async def fetch_offsets_of_deleted_topic(env: Env) -> None:
    """Offsets go with their topic, of simple groups and of those with members."""
    topic, other = await env.topic("x"), await env.topic("y")
    a = await env.peer("A")
    simple, stable = env.group("simple"), env.group("stable")
    await _simple(a, simple, commit_topic(topic, 1))
    (m,) = await env.stable_group(stable, "M")
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
        await _fetch(a, group, _wanted(topic), _wanted(other))
    await env.describe(a, simple, stable, version=6)
    await m.heartbeat()
    await m.commit(topic, 3)


@scenario()
async def fetch_same_group_twice(env: Env) -> None:
    """A group, a topic and a partition repeated in one request."""
    topic = await env.topic()
    group = env.group()
    a = await env.peer("A")
    await _simple(a, group, commit_topic(topic, 1))
    for version in (8, 9):
        await a.call(
            "OffsetFetch",
            version,
            groups=[
                {"group_id": group, "topics": [_wanted(topic, 0, 0), _wanted(topic)]},
                {"group_id": group, "topics": None},
                {"group_id": group, "topics": []},
            ],
        )
    for version in (1, 5, 7):
        await _fetch(a, group, _wanted(topic, 0, 0), _wanted(topic, 0), version=version)


@scenario()
async def fetch_unknown_group_with_member_fields(env: Env) -> None:
    """v9 member id and epoch for a group that does not exist, and for a simple one."""
    topic = await env.topic()
    a = await env.peer("A")
    simple = env.group("simple")
    await _simple(a, simple, commit_topic(topic, 1))
    for group in (env.group("nobody"), simple):
        for member_id, epoch in (
            (None, -1),
            (None, 3),
            ("made-up", -1),
            ("made-up", 3),
        ):
            for topics in ([_wanted(topic)], None):
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


@scenario()
async def fetch_by_topic_id(env: Env) -> None:
    """v10: known, unknown and zero ids, repeated, with unknown partitions."""
    topic = await env.topic(partitions=2)
    topic_id = await env.topic_id(topic)
    unknown = uuid.UUID("11111111-2222-4333-8444-555555555555")
    env.symbols.name_uuid(unknown, "<unknown-topic-id>")
    group = env.group()
    a = await env.peer("A")
    await _simple(a, group, commit_topic(topic, 1))

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


@scenario()
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
        await _simple(a, group, *topics, version=10)
        await _simple(a, group, *topics, version=10, generation_id_or_member_epoch=3)
        await env.describe(a, group, version=6)
