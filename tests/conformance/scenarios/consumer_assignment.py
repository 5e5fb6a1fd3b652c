"""Consumer groups: who gets which partitions, and when."""

from __future__ import annotations

from tests.conformance.consumer import (
    consumer,
    describe,
    enter,
    in_balance,
    known_topic,
    owns,
)
from tests.conformance.env import Env


async def consumer_second_member(env: Env) -> None:
    """The first member gives up a partition, and then the second one gets it."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await a.join()
    await a.acknowledge()
    await b.join()
    await describe(a)
    await b.acknowledge()
    await a.beat()
    await b.acknowledge()
    await a.acknowledge()
    await b.beat()
    await b.acknowledge()
    await a.beat()
    await describe(a)


async def consumer_three_members(env: Env) -> None:
    """Three members join one after the other, with all their heartbeats."""
    topic = await known_topic(env, partitions=3)
    a, b, c = [await consumer(env, name, topic) for name in "ABC"]
    await a.join()
    await a.acknowledge()
    await b.join()
    await a.beat()
    await a.acknowledge()
    await b.beat()
    await b.acknowledge()
    await c.join()
    for _ in range(2):
        for member in (a, b, c):
            await member.beat()
            await member.acknowledge()
    await describe(a)


async def consumer_member_leaves_while_revoking(env: Env) -> None:
    """A newcomer leaves before the first member has given up anything."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await in_balance(env, a)
    await b.join()
    await b.leave()
    await a.beat()
    await a.acknowledge()
    await describe(a)


async def consumer_claims_other_partitions(env: Env) -> None:
    """A member reports fewer, more, or other partitions than it has."""
    topic = await known_topic(env, partitions=2)
    other = await known_topic(env, "other")
    a = await consumer(env, "A", topic)
    await a.join()
    await a.beat(topic_partitions=[])
    for partitions in ((0,), (0, 1, 2)):
        await a.beat(topic_partitions=await owns(env, topic, *partitions))
    await a.beat(topic_partitions=await owns(env, other, 0))
    await a.beat(topic_partitions=await owns(env, topic, 0, 1))
    await describe(a)


async def consumer_unsupported_assignor(env: Env) -> None:
    """There are the assignors uniform and range; names are case-sensitive."""
    topic = await known_topic(env)
    for number, assignor in enumerate(("uniform", "range", "made-up", "", "Uniform")):
        a = await consumer(env, "A", topic, group=env.group(f"{number}"))
        await a.join(server_assignor=assignor)
        await describe(a)


async def consumer_assignor_majority(env: Env) -> None:
    """The assignor that most members ask for."""
    topic = await known_topic(env, partitions=3)
    for name, assignor in (("A", "uniform"), ("B", "range"), ("C", "range")):
        member = await consumer(env, name, topic, server_assignor=assignor)
        await enter(env, member)
        await describe(member)


async def consumer_assignor_changes(env: Env) -> None:
    """Another assignor is described at once, and begins no epoch."""
    a = await consumer(
        env, "A", await known_topic(env, partitions=2), server_assignor="uniform"
    )
    await a.join()
    await a.acknowledge()
    await a.beat(server_assignor="range")
    await a.beat()
    await describe(a)
    await a.beat(server_assignor="made-up")
    await describe(a)


async def consumer_range_assignor(env: Env) -> None:
    """Range gives the first member the first partitions of each topic."""
    topics = [await known_topic(env, suffix, partitions=3) for suffix in "xy"]
    a, b = [await consumer(env, n, *topics, server_assignor="range") for n in "AB"]
    await a.join()
    await a.acknowledge()
    await b.join()
    for _ in range(2):
        await a.settle()
        await b.settle()
    await describe(a)
