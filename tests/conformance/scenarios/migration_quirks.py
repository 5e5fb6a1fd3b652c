"""Groups that change their protocol: behaviour of Kafka that looks like a defect."""

from __future__ import annotations

from tests.conformance.consumer import consumer, describe, enter, known_topic
from tests.conformance.env import Env
from tests.conformance.mixed import offer

QUIRK = True


async def migration_classic_join_with_made_up_id(env: Env) -> None:
    """A classic member with an id that nobody gave it gets into the group."""
    topic = await known_topic(env)
    c = await consumer(env, "C", topic)
    await enter(env, c)
    a = await env.member("A", protocols=offer(topic))
    await a.join(member_id="made-up")
    await describe(c)
