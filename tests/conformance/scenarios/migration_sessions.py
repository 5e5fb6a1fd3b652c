"""Groups with members of both protocols: timeouts."""

from __future__ import annotations

import asyncio

from tests.conformance.consumer import consumer, describe, enter, known_topic
from tests.conformance.env import Env
from tests.conformance.mixed import classic_group

PROFILE = "sessions"


async def migration_classic_member_expires(env: Env) -> None:
    """A silent classic member expires after its own session timeout."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]}, session_ms=1000)
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await a.heartbeat()
    with env.transcript.muted():
        for _ in range(5):
            await c.acknowledge()
            await asyncio.sleep(0.5)
    await c.settle()
    await c.show()
    await describe(c)
    await a.heartbeat()


async def migration_classic_member_does_not_join(env: Env) -> None:
    """It knows by a heartbeat that it should: it has its rebalance timeout."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(
        env, topic, {"A": [0, 1]}, session_ms=10_000, rebalance_ms=1000
    )
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await a.heartbeat()
    with env.transcript.muted():
        for _ in range(3):
            await asyncio.sleep(0.5)
            await c.acknowledge()
    await a.heartbeat()
    await c.settle()
    await c.show()


async def migration_classic_member_does_not_sync(env: Env) -> None:
    """After its join it has its rebalance timeout to sync."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(
        env, topic, {"A": [0, 1]}, session_ms=10_000, rebalance_ms=1000
    )
    c = await consumer(env, "C", topic)
    await enter(env, c)
    await a.join()
    await a.heartbeat()
    with env.transcript.muted():
        for _ in range(3):
            await asyncio.sleep(0.5)
            await c.acknowledge()
    await a.heartbeat()
    await c.settle()
    await c.show()


async def migration_last_consumer_expires(env: Env) -> None:
    """The group becomes a classic one, and rebalances."""
    topic = await known_topic(env, partitions=2)
    (a,) = await classic_group(env, topic, {"A": [0, 1]})
    c = await consumer(env, "C", topic)
    await enter(env, c)
    with env.transcript.muted():
        await a.join()
        await a.sync()
    await env.sleep(3.0)
    await env.describe(a.peer)
    await a.heartbeat()
    await a.join()
