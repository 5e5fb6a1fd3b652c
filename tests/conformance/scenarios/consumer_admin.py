"""Consumer groups: described, listed, deleted, and asked about as classic groups."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer import (
    consumer,
    describe,
    enter,
    in_balance,
    known_topic,
    reconcile,
)
from tests.conformance.env import Env
from tests.conformance.steps import identity, list_groups, partitions_of, wanted


async def consumer_describe_errors(env: Env) -> None:
    """Groups that do not exist, of the classic protocol, without a name; none at all."""
    classic = env.group("classic")
    (a,) = await env.stable_group("A", group=classic)
    for version in (0, 1):
        for groups in ([env.group("nobody"), classic, ""], []):
            await a.peer.call("ConsumerGroupDescribe", version, group_ids=groups)


async def consumer_describe_authorized_operations(env: Env) -> None:
    """The operations that are allowed, if they are asked for and the group exists."""
    a = await consumer(env, "A", await known_topic(env))
    await enter(env, a)
    await a.peer.call(
        "ConsumerGroupDescribe",
        1,
        group_ids=[a.group, env.group("nobody")],
        include_authorized_operations=True,
    )


async def consumer_describe_states(env: Env) -> None:
    """Each state of a group."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]

    async def look() -> None:
        for version in (0, 1):
            await describe(a, version)

    await enter(env, a)
    await look()
    await enter(env, b)
    await look()
    await reconcile(a, b)
    await look()
    for member in (a, b):
        with env.transcript.muted():
            await member.leave()
        await look()


async def consumer_list_groups(env: Env) -> None:
    """ListGroups with filters for states and types."""
    topic = await known_topic(env, partitions=2)
    stable, empty, moving = [
        env.group(suffix) for suffix in ("stable", "empty", "reconciling")
    ]
    a = await consumer(env, "A", topic, group=stable)
    b = await consumer(env, "B", topic, group=empty)
    c, d = [await consumer(env, name, topic, group=moving) for name in "CD"]
    await enter(env, a, b, c)
    await c.settle()
    await enter(env, d)
    with env.transcript.muted():
        await b.leave()
    await env.stable_group("E", group=env.group("classic"))
    for version in (3, 4, 5):
        await list_groups(env, a.peer, version)
    for states in (
        ["Stable"],
        ["reconciling"],
        ["Empty", "Reconciling"],
        ["Assigning"],
    ):
        await list_groups(env, a.peer, 4, states_filter=states)
        await list_groups(
            env, a.peer, 5, states_filter=states, types_filter=["consumer"]
        )
    await list_groups(
        env, a.peer, 5, states_filter=["Stable"], types_filter=["classic"]
    )
    await list_groups(env, a.peer, 5, types_filter=["Consumer", "share"])


async def consumer_delete_group(env: Env) -> None:
    """With members it cannot be deleted; after that it begins anew."""
    a = await consumer(env, "A", await known_topic(env))
    await a.join()
    await env.delete_groups(a.peer)
    await a.leave()
    await env.delete_groups(a.peer)
    await describe(a)
    await a.beat(member_epoch=1)
    await a.join()


async def consumer_group_seen_by_classic_apis(env: Env) -> None:
    """Requests of the classic protocol for a consumer group, and OffsetDelete."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    await enter(env, a)
    for version in (5, 6):
        await env.describe(a.peer, version=version)
    await env.delete_groups(a.peer)
    member: dict[str, Any] = {
        "group_id": a.group,
        "generation_id": 1,
        "member_id": a.member_id,
    }
    await a.peer.call("Heartbeat", 4, **member)
    await a.peer.call("SyncGroup", 5, **member)
    await env.delete_offsets(a.peer, partitions_of(topic))
    await env.remove_members(a.peer, identity(a.member_id), version=5)
    await describe(a)


async def consumer_joins_empty_classic_group(env: Env) -> None:
    """A classic group without members becomes a consumer group, with its offsets."""
    topic = await known_topic(env)
    (a,) = await env.stable_group("A")
    await a.commit(topic, 7)
    await a.leave()
    b = await consumer(env, "B", topic)
    await b.join()
    await describe(b)
    await env.fetch_offsets(b.peer, wanted(topic))
    await in_balance(env, b)
