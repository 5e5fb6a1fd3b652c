"""Consumer groups with Kafka's default settings of assignments: one per second."""

from __future__ import annotations

from tests.conformance.consumer import consumer, enter, known_topic
from tests.conformance.env import Env

PROFILE = "assignment"


async def consumer_default_assignment_settings(env: Env) -> None:
    """Members get their partitions after some heartbeats more."""
    topic = await known_topic(env, partitions=2)
    a, b = [await consumer(env, name, topic) for name in "AB"]
    await enter(env, a)
    await env.settle(1.5)
    await a.settle()
    await a.show()
    await enter(env, b)
    for _ in range(4):
        await env.settle(0.7)
        await a.settle()
        await b.settle()
    env.note("partitions", A=a.count, B=b.count)
