"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete in every state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from env import Env, Peer, assignments, commit_topic, meta, protocols, scenario


def _own(env: Env) -> Callable[[dict[str, Any]], None]:
    """Drops groups of other scenarios from ListGroups responses."""

    def edit(body: dict[str, Any]) -> None:
        body["groups"] = [
            g for g in body["groups"] if g["group_id"].startswith(env.group_prefix)
        ]

    return edit


async def _list(env: Env, peer: Peer, version: int, **filters: Any) -> None:
    await peer.call("ListGroups", version, edit=_own(env), **filters)


async def _commit(peer: Peer, group: str, *topics: dict[str, Any]) -> None:
    await peer.call(
        "OffsetCommit",
        9,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=list(topics),
    )


def _topic(topic: str, *partitions: int) -> dict[str, Any]:
    return {
        "name": topic,
        "partitions": [{"partition_index": p} for p in partitions or (0,)],
    }


async def _fetch_all(peer: Peer, group: str) -> None:
    await peer.call("OffsetFetch", 9, groups=[{"group_id": group, "topics": None}])


@scenario()
async def list_types_filter(env: Env) -> None:
    """v5 type filter: classic, consumer, wrong case, unknown, blanks, with states."""
    watcher = await env.peer("watcher")
    await env.stable_group(env.group("stable"), "A")
    for types in (
        ["classic"],
        ["Classic"],
        ["CLASSIC"],
        ["consumer"],
        ["share"],
        ["streams"],
        ["classic", "consumer"],
        ["unknown"],
        ["nonsense"],
        ["nonsense", "classic"],
        [""],
        [" classic "],
    ):
        await _list(env, watcher, 5, types_filter=types)
    await _list(env, watcher, 5, types_filter=["classic"], states_filter=["Stable"])
    await _list(env, watcher, 5, types_filter=["classic"], states_filter=["Empty"])
    await _list(env, watcher, 5, types_filter=["consumer"], states_filter=["Stable"])


@scenario()
async def list_states_filter_spelling(env: Env) -> None:
    """State filters with blanks, in other cases, empty, repeated."""
    watcher = await env.peer("watcher")
    await env.stable_group(env.group("stable"), "A")
    await env.stable_group(env.group("completing"), "B", sync=False)
    for states in (
        [" Stable "],
        ["sTABLE"],
        [""],
        ["Stable", "Stable"],
        ["CompletingRebalance"],
        ["Completing Rebalance"],
        ["completing_rebalance"],
        ["Dead"],
        ["Unknown"],
        ["Assigning", "Reconciling", "NotReady"],
    ):
        for version in (4, 5):
            await _list(env, watcher, version, states_filter=states)


@scenario()
async def list_each_version_each_state(env: Env) -> None:
    """ListGroups v0 to v5 of groups in all states."""
    watcher = await env.peer("watcher")
    await env.stable_group(env.group("stable"), "A")
    await env.stable_group(env.group("completing"), "B", sync=False)
    c, _ = await env.stable_group(env.group("preparing"), "C", "D")
    await c.send_join()
    await env.until_state(c.group, "PreparingRebalance", 2)
    (e,) = await env.stable_group(env.group("empty"), "E")
    await e.leave()
    topic = await env.topic()
    await _commit(watcher, env.group("simple"), commit_topic(topic, 1))
    f = await env.member("F", env.group("connect"), protocol_type="connect")
    await env.form([f])
    for version in range(6):
        await _list(env, watcher, version)


@scenario()
async def delete_groups_each_state(env: Env) -> None:
    """DeleteGroups v0 to v2 in every state; offsets stay where it is refused."""
    watcher = await env.peer("watcher")
    topic = await env.topic()
    for version in range(3):
        names = []
        for state in ("simple", "completing", "stable", "preparing", "empty"):
            group = env.group(f"{state}-{version}")
            names.append(group)
            with env.transcript.muted():
                await _commit(watcher, group, commit_topic(topic, 7))
            if state == "simple":
                continue
            a, b = await env.stable_group(group, "A", "B", sync=state != "completing")
            if state == "preparing":
                await a.send_join()
                await env.until_state(group, "PreparingRebalance", 2)
            if state == "empty":
                await a.leave()
                await b.leave()
        await watcher.call(
            "DeleteGroups", version, groups_names=[*names, env.group("none")]
        )
        for group in names:
            await _fetch_all(watcher, group)
        await env.describe(watcher, *names, version=6)


@scenario()
async def delete_groups_none(env: Env) -> None:
    """No groups at all, and one that is unknown."""
    watcher = await env.peer("watcher")
    for version in range(3):
        await watcher.call("DeleteGroups", version, groups_names=[])
        await watcher.call("DeleteGroups", version, groups_names=[env.group("none")])


@scenario()
async def delete_group_that_comes_back(env: Env) -> None:
    """A deleted group starts at generation 1, without offsets and protocol type."""
    topic = await env.topic()
    group = env.group()
    (a,) = await env.stable_group(group, "A")
    await a.commit(topic, 3)
    await a.leave()
    await a.peer.call("DeleteGroups", 1, groups_names=[group])
    await a.heartbeat()
    await a.join()
    await a.commit(topic, 4)
    await a.sync()
    await _fetch_all(a.peer, group)
    b = await env.member("B", group, protocol_type="connect")
    await b.join()
    await b.join()


@scenario()
async def offset_delete_each_state_of_connect(env: Env) -> None:
    """Groups of another protocol type: refused as a whole unless Empty."""
    topic = await env.topic()
    group = env.group()
    watcher = await env.peer("watcher")
    await _commit(watcher, group, commit_topic(topic, 1))
    a = await env.member("A", group, protocol_type="connect")
    b = await env.member("B", group, protocol_type="connect")
    await env.form([a, b], sync=False)

    async def delete() -> None:
        await watcher.call("OffsetDelete", 0, group_id=group, topics=[_topic(topic)])

    await delete()
    await a.sync(assignments=assignments(a, b))
    await b.sync()
    await delete()
    joining = await a.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await delete()
    await b.leave()
    await joining.result()
    await a.leave()
    await delete()
    await _fetch_all(watcher, group)


@scenario()
async def offset_delete_repeated_names(env: Env) -> None:
    """The same topic and the same partition twice, known and unknown."""
    topic = await env.topic("x", partitions=2)
    other = await env.topic("y")
    group = env.group()
    watcher = await env.peer("watcher")
    for topics in (
        [_topic(topic, 0, 0)],
        [_topic(topic, 0), _topic(topic, 1)],
        [_topic(topic, 0), _topic(topic, 0)],
        [_topic(topic, 0), _topic(other, 0), _topic(topic, 9)],
        [_topic(topic, 9), _topic(topic, 9, 0)],
        [{"name": topic, "partitions": []}],
        [{"name": topic, "partitions": []}, _topic(other)],
        [{"name": env.fresh_topic_name("none"), "partitions": []}],
        [_topic(topic, -1)],
    ):
        with env.transcript.muted():
            await _commit(
                watcher,
                group,
                commit_topic(topic, 1),
                commit_topic(topic, 1, 1),
                commit_topic(other, 1),
            )
        await watcher.call("OffsetDelete", 0, group_id=group, topics=topics)
        await _fetch_all(watcher, group)


@scenario()
async def offset_delete_unknown_topics_of_bad_group(env: Env) -> None:
    """Only unknown topics: is the group looked at all the same?"""
    unknown = env.fresh_topic_name("unknown")
    topic = await env.topic()
    watcher = await env.peer("watcher")
    for group in (env.group("nobody"), ""):
        await watcher.call("OffsetDelete", 0, group_id=group, topics=[_topic(unknown)])
        await watcher.call("OffsetDelete", 0, group_id=group, topics=[])
        await watcher.call(
            "OffsetDelete",
            0,
            group_id=group,
            topics=[_topic(unknown), _topic(topic, 0, 5)],
        )


@scenario()
async def offset_delete_subscription_changes(env: Env) -> None:
    """What counts is the subscription of the last generation, not of a waiting join."""
    topic, other = await env.topic("x"), await env.topic("y")
    group = env.group()
    a = await env.member("A", group, protocols=protocols("r", metadata=meta("", topic)))
    b = await env.member("B", group, protocols=protocols("r", metadata=meta("", topic)))
    await env.form([a, b])
    watcher = await env.peer("watcher")
    both = [_topic(topic), _topic(other)]
    await a.commit(topic, 1)
    await b.commit(other, 2)
    joining = await b.send_join(protocols=protocols("r", metadata=meta("", other)))
    await env.until_state(group, "PreparingRebalance", 2)
    await watcher.call("OffsetDelete", 0, group_id=group, topics=both)
    await a.leave()
    await joining.result()
    await watcher.call("OffsetDelete", 0, group_id=group, topics=both)
    await b.sync(assignments=assignments(b))
    await b.leave()
    await watcher.call("OffsetDelete", 0, group_id=group, topics=both)


@scenario()
async def offset_delete_static_replacement_subscription(env: Env) -> None:
    """A successor's other subscription counts only in the next generation."""
    topic, other = await env.topic("x"), await env.topic("y")
    group = env.group()
    first = protocols("r", metadata=meta("", topic))
    second = protocols("r", metadata=meta("", other))
    a = await env.member("A", group, instance="i-A", protocols=first)
    await env.form([a])
    back = await env.member("A2", group, instance="i-A", protocols=second)
    await back.join()
    both = [_topic(topic), _topic(other)]
    await back.peer.call("OffsetDelete", 0, group_id=group, topics=both)
    await back.join()
    await back.peer.call("OffsetDelete", 0, group_id=group, topics=both)


@scenario()
async def offset_delete_chosen_protocol_counts(env: Env) -> None:
    """Subscriptions are those of the chosen protocol."""
    topic, other = await env.topic("x"), await env.topic("y")
    group = env.group()
    both = [
        {"name": "p", "metadata": meta("", topic)},
        {"name": "q", "metadata": meta("", other)},
    ]
    a = await env.member("A", group, protocols=both)
    await env.form([a])
    topics = [_topic(topic), _topic(other)]
    await a.peer.call("OffsetDelete", 0, group_id=group, topics=topics)
    b = await env.member("B", group, protocols=both[1:], join_version=3)
    joining = await b.send_join()
    await env.until_state(group, "PreparingRebalance", 2)
    await a.join()
    await joining.result()
    await a.peer.call("OffsetDelete", 0, group_id=group, topics=topics)


@scenario()
async def offset_delete_type_changes(env: Env) -> None:
    """A group that becomes Empty and is a connect group next, then a consumer again."""
    topic = await env.topic()
    group = env.group()
    watcher = await env.peer("watcher")
    topics = [_topic(topic)]
    await _commit(watcher, group, commit_topic(topic, 1))
    for protocol_type in ("connect", "consumer", "connect"):
        a = await env.member(
            "A",
            group,
            protocol_type=protocol_type,
            protocols=protocols("r", metadata=meta("", topic)),
        )
        await env.form([a])
        await watcher.call("OffsetDelete", 0, group_id=group, topics=topics)
        await a.leave()
        await env.describe(watcher, group)
    await watcher.call("OffsetDelete", 0, group_id=group, topics=topics)


@scenario()
async def describe_same_group_twice_each_version(env: Env) -> None:
    """A known and an unknown group, both twice, in all versions."""
    group = env.group()
    a = await env.member("A", group, instance="i-A")
    await env.form([a])
    none = env.group("none")
    for version in range(7):
        await env.describe(a.peer, group, none, group, none, version=version)
