"""Consumer groups: session timeouts of 2 s, and rebalance timeouts."""

from __future__ import annotations

import asyncio

from tests.conformance.consumer import (
    consumer,
    describe,
    enter,
    in_balance,
    known_topic,
)
from tests.conformance.env import Env
from tests.conformance.member import commit_topic

PROFILE = "sessions"


async def consumer_session_expires(env: Env) -> None:
    """A silent member is removed."""
    a = await consumer(env, "A", await known_topic(env, partitions=2))
    await a.join()
    await a.acknowledge()
    await env.sleep(4.0)
    await describe(a)
    await a.beat()


async def consumer_expired_member_frees_partitions(env: Env) -> None:
    """The partitions of a silent member go to the other one."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await in_balance(env, a, b)
    with env.transcript.muted():
        for _ in range(8):
            await b.beat()
            await asyncio.sleep(0.5)
    await b.acknowledge()
    await describe(b)
    await a.beat()


async def consumer_session_kept_by_heartbeats(env: Env) -> None:
    """Heartbeats keep a member in its group, commits do not."""
    topic = await known_topic(env)
    a, b = [await consumer(env, n, topic, group=env.group(n.lower())) for n in "AB"]
    await enter(env, a, b)
    with env.transcript.muted():
        for _ in range(10):
            await a.beat()
            await env.commit_offsets(
                b.peer,
                commit_topic(topic, 5),
                group=b.group,
                member_id=b.member_id,
                generation_id_or_member_epoch=b.epoch,
            )
            await asyncio.sleep(0.4)
    await describe(a)
    await describe(b)


async def consumer_rebalance_timeout(env: Env) -> None:
    """A member that keeps partitions it has to give up is removed by its timeout."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await a.join(rebalance_timeout_ms=1500)
    await a.acknowledge()
    await b.join()
    await a.beat()
    is_fenced = False
    with env.transcript.muted():
        for _ in range(30):
            await b.acknowledge()
            is_fenced = is_fenced or int((await a.beat())["error_code"]) != 0
            await asyncio.sleep(0.2)
    env.note("A and B heartbeat for 6 s", fenced=is_fenced)
    await a.beat()
    await b.beat()
    await b.show()


async def consumer_revokes_in_time(env: Env) -> None:
    """A member that gives up its partitions in time stays."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    with env.transcript.muted():
        await a.join(rebalance_timeout_ms=1500)
        await a.acknowledge()
        await b.join()
        await a.beat()
    await env.sleep(0.7)
    await a.acknowledge()
    with env.transcript.muted():
        for _ in range(6):
            await a.beat()
            await b.acknowledge()
            await asyncio.sleep(0.4)
    await describe(a)
