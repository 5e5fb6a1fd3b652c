"""ConsumerGroupHeartbeat: the first one of a member, epochs, and the last one."""

from __future__ import annotations

from tests.conformance.consumer import (
    consumer,
    describe,
    enter,
    in_balance,
    known_topic,
    owns,
    reconcile,
)
from tests.conformance.env import Env


async def consumer_join(env: Env) -> None:
    """The first member gets all partitions in epoch 2; further heartbeats tell it nothing."""
    a = await consumer(env, "A", await known_topic(env, partitions=3))
    await a.join()
    await a.acknowledge()
    await a.beat()
    for version in (1, 0):
        await describe(a, version)


async def consumer_join_v0(env: Env) -> None:
    """In v0 the broker makes the id of a member that brings none."""
    topic = await known_topic(env, partitions=2)
    a = await consumer(env, "A", topic)
    a.member_id = (await a.join(0, member_id=""))["member_id"]
    await a.acknowledge()
    b = await consumer(env, "B", topic, group=env.group("other"))
    await b.join(0)


async def consumer_join_v1_needs_member_id(env: Env) -> None:
    """In v1 an empty member id is invalid."""
    a = await consumer(env, "A", await known_topic(env))
    await a.join(1, member_id="")


async def consumer_invalid_requests(env: Env) -> None:
    """Fields that the first heartbeat has to have, and those that must not be empty."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    for group_id in ("", " "):
        await a.join(group_id=group_id)
    await a.join(instance_id="")
    await a.join(rack_id="")
    for rebalance_timeout_ms in (-1, 0):
        await a.join(rebalance_timeout_ms=rebalance_timeout_ms)
    await a.join(subscribed_topic_names=None)
    await a.join(topic_partitions=None)
    for epoch in (-3, -2):
        await a.join(member_epoch=epoch)
    await a.join(subscribed_topic_regex="")
    await a.join(topic_partitions=await owns(env, topic, 0))
    await describe(a)


async def consumer_join_again(env: Env) -> None:
    """Epoch 0 of a member that has joined already."""
    a = await consumer(env, "A", await known_topic(env, partitions=2))
    await a.join()
    await a.acknowledge()
    await a.join()
    await a.join()


async def consumer_unknown_member(env: Env) -> None:
    """Heartbeats with an epoch, and leaves, of members and groups that do not exist."""
    topic = await known_topic(env)
    a = await consumer(env, "A", topic)
    await a.beat(member_epoch=1)
    await a.leave()
    await a.join()
    b = await consumer(env, "B", topic)
    await b.beat(member_epoch=1)
    await b.leave()


async def consumer_fenced_epoch(env: Env) -> None:
    """Epochs ahead of the member's, and far behind it."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await a.join()
    await a.beat(member_epoch=5)
    await b.join()
    await reconcile(a, b, rounds=1)
    await a.settle()
    for epoch in (1, 7, -5):
        await a.beat(member_epoch=epoch)


async def consumer_fenced_then_rejoins(env: Env) -> None:
    """A member that was fenced joins again, and gets its partitions back."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await in_balance(env, a, b)
    await a.beat(member_epoch=99)
    await a.join()
    await a.acknowledge()
    await b.beat()
    await describe(a)


async def consumer_previous_epoch(env: Env) -> None:
    """The epoch before the present one is accepted with partitions that the member has."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await a.join()
    await a.acknowledge()
    old = a.epoch
    await b.join()
    await a.beat()
    await a.acknowledge()
    env.note("epochs of A", old=old, new=a.epoch)
    await a.beat(member_epoch=old)
    await a.beat(member_epoch=old, topic_partitions=await owns(env, topic, 0, 1))
    await a.beat(member_epoch=old, topic_partitions=a.owned)
    await a.beat(member_epoch=old, topic_partitions=[])
    await a.beat(member_epoch=old - 1, topic_partitions=a.owned)
    await describe(a)


async def consumer_leave(env: Env) -> None:
    """The other member takes over; when the last one leaves, the group is Empty."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await in_balance(env, a, b)
    await b.leave()
    await b.leave()
    await a.beat()
    await a.acknowledge()
    await a.leave()
    await describe(a)
    await env.describe(a.peer)


async def consumer_group_epoch_goes_on(env: Env) -> None:
    """An empty group keeps its epoch for the next member."""
    a = await consumer(env, "A", await known_topic(env))
    for _ in range(2):
        await a.join()
        await a.leave()
        await describe(a)


async def consumer_static_leave_and_return(env: Env) -> None:
    """A static member leaves for a while, and its successor gets its partitions."""
    topic = await known_topic(env, partitions=2)
    a = await consumer(env, "A", topic, instance_id="i-A")
    await a.join()
    await a.acknowledge()
    await a.leave_for_a_while()
    await describe(a)
    back = await consumer(env, "A2", topic, instance_id="i-A")
    await back.join()
    await back.acknowledge()
    await a.beat(instance_id="i-A")
    await describe(a)


async def consumer_static_instance_in_use(env: Env) -> None:
    """An instance id that another member has; leaves of others under its name."""
    topic = await known_topic(env)
    a, b = [await consumer(env, name, topic, instance_id="i-A") for name in "AB"]
    await a.join()
    await b.join()
    await b.leave_for_a_while()
    await b.leave_for_a_while(instance_id="i-unknown")
    await a.leave()
    await describe(a)


async def consumer_static_away(env: Env) -> None:
    """While a static member is away there is no new epoch, and its partitions wait."""
    topic = await known_topic(env, partitions=2)
    a = await consumer(env, "A", topic, instance_id="i-A")
    b = await consumer(env, "B", topic)
    await in_balance(env, a, b)
    await describe(b)
    await a.leave_for_a_while()
    await b.beat()
    await describe(b)
    await a.beat(instance_id="i-A")
    await a.leave_for_a_while()


async def consumer_static_returns_with_other_topics(env: Env) -> None:
    """A static member that comes back with another subscription begins a new epoch."""
    topics = [await known_topic(env, suffix) for suffix in "xy"]
    a = await consumer(env, "A", topics[0], instance_id="i-A")
    await enter(env, a)
    await a.settle()
    await a.leave_for_a_while()
    again = await consumer(env, "A2", *topics, instance_id="i-A")
    await again.join()
    await again.acknowledge()
    await describe(again)


async def consumer_static_returns_with_same_id(env: Env) -> None:
    """A static member comes back under its old id; then it joins without having left."""
    a = await consumer(
        env, "A", await known_topic(env, partitions=2), instance_id="i-A"
    )
    await a.join()
    await a.acknowledge()
    await a.leave_for_a_while()
    await a.join()
    await a.acknowledge()
    await a.join()
    await describe(a)
