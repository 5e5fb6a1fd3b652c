"""Produce: what real Kafka does, and no broker should imitate."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.producing import produce_fields

QUIRK = True


async def produce_null_records(env: Env) -> None:
    """Null records are never answered."""
    topic = await env.topic()
    a = await env.peer("A")
    produce = await a.send("Produce", 9, **produce_fields(topic, (0, None)))
    await produce.unanswered(1.0)
