"""Produce: Kafka's quirks, which no broker should imitate."""

from __future__ import annotations

import time

from tests.conformance.env import Env
from tests.conformance.producing import SIZES_UNREAD, produce, produce_fields
from tests.wire import malformed_batches as made

QUIRK = True


async def produce_null_records(env: Env) -> None:
    """Null records are never answered."""
    topic = await env.topic()
    a = await env.peer("A")
    produce = await a.send("Produce", 9, **produce_fields(topic, (0, None)))
    await produce.unanswered(1.0)


async def produce_wrong_record_sizes(env: Env) -> None:
    """Sizes of records do not matter in compressed batches, nor their bits beyond 32."""
    now_ms = int(time.time() * 1000)
    for codec, names in SIZES_UNREAD.items():
        every = made.records(now_ms, codec)
        env.note(f"codec {codec}")
        await produce(env, {name: every[name] for name in sorted(names)}, now_ms)
