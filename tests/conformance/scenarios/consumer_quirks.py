"""Consumer groups: behaviour of Kafka that looks like a defect."""

from __future__ import annotations

from tests.conformance.consumer import consumer, enter
from tests.conformance.env import Env

QUIRK = True


async def consumer_regex_matches_internal_topics(env: Env) -> None:
    """A pattern matches internal topics, too."""
    a = await consumer(env, "A")
    await enter(
        env, a, subscribed_topic_names=None, subscribed_topic_regex="__consumer_offsets"
    )
    await env.settle(1.0)
    await a.settle()
    env.note("assigned", topics=len(a.owned))
