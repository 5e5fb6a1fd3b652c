"""Consumer groups: group.consumer.max.size=2."""

from __future__ import annotations

from tests.conformance.consumer import consumer, describe, enter, known_topic
from tests.conformance.env import Env

PROFILE = "max2"


async def consumer_max_size(env: Env) -> None:
    """A third member is refused."""
    topic = await known_topic(env, partitions=2)
    for name in "ABC":
        member = await consumer(env, name, topic)
        await member.join()
    await describe(member)


async def consumer_max_size_rejoin(env: Env) -> None:
    """A member of a full group may join again; one that leaves makes room."""
    topic = await known_topic(env, partitions=2)
    a, b, c = [await consumer(env, name, topic) for name in "ABC"]
    await enter(env, a, b)
    await b.join()
    await c.join()
    await b.leave()
    await c.join()
