"""group.consumer.migration.policy=disabled: groups with members stay what they are."""

from __future__ import annotations

from tests.conformance.consumer import consumer, describe, enter, known_topic
from tests.conformance.env import Env
from tests.conformance.mixed import classic_group, join_twice, offer

PROFILE = "nomigration"


async def migration_disabled_upgrade(env: Env) -> None:
    """A consumer cannot join a classic group with members."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await c.join()
    await a.heartbeat()
    await a.leave()
    await c.join()
    await describe(c)


async def migration_disabled_downgrade(env: Env) -> None:
    """A classic member can join a consumer group, which stays one without others."""
    topic = await known_topic(env, partitions=2)
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await c.settle()
    a = await env.member("A", protocols=offer(topic))
    await join_twice(env, a)
    await a.sync()
    await c.leave()
    await a.heartbeat()
    await describe(c)
    await a.join()
    await a.sync()
    await a.heartbeat()
    await describe(c)
