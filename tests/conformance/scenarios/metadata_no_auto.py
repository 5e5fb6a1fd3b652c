"""Metadata without automatic creation of topics."""

from __future__ import annotations

import asyncio

from tests.conformance.env import Env
from tests.conformance.steps import topics_named

PROFILE = "noauto"


async def metadata_auto_create_disabled(env: Env) -> None:
    """auto.create.topics.enable=false wins over the request."""
    a = await env.peer("A")
    topic = env.fresh_topic_name()
    for version in (0, 4, 12):
        await a.call("Metadata", version, **topics_named(version, topic))
    await asyncio.sleep(0.5)
    await a.call("Metadata", 12, **topics_named(12, topic))
