"""Produce: invalid batches, and unusual ones."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.conformance.env import Env
from tests.conformance.producing import SIZES_UNREAD, produce, produce_fields
from tests.wire import malformed_batches as made

ORDERED = True

_TIME = 1_700_000_000_000
_MAX_TIMESTAMP = -3


async def _produce_all(env: Env, make: Callable[[int], dict[str, bytes]]) -> None:
    # Brokers read the bytes behind a short batch as another batch, and then the low
    # byte of this time is part of its length.
    now_ms = int(time.time() * 1000) | 0xFF
    await produce(env, make(now_ms), now_ms)


async def _produce_records(env: Env, codec: int) -> None:
    unread = SIZES_UNREAD[codec]

    def readable(now: int) -> dict[str, bytes]:
        every = made.records(now, codec)
        return {name: data for name, data in every.items() if name not in unread}

    await _produce_all(env, readable)


async def batches_framing(env: Env) -> None:
    """Bytes that are no batch, or more than one."""
    await _produce_all(env, made.framing)


async def batches_headers(env: Env) -> None:
    """Fields of the batch that contradict one another, or are not for clients."""
    await _produce_all(env, made.headers)


async def batches_timestamps(env: Env) -> None:
    """Timestamps of records and of the batch, and types of timestamps."""
    await _produce_all(env, made.times)


async def batches_records(env: Env) -> None:
    """Damaged and unusual records."""
    await _produce_records(env, made.NONE)


async def batches_records_gzip(env: Env) -> None:
    """Damaged and unusual records, compressed with gzip."""
    await _produce_records(env, made.GZIP)


async def batches_records_snappy(env: Env) -> None:
    """Damaged and unusual records, compressed with snappy."""
    await _produce_records(env, made.SNAPPY)


async def batches_records_lz4(env: Env) -> None:
    """Damaged and unusual records, compressed with lz4."""
    await _produce_records(env, made.LZ4)


async def batches_records_zstd(env: Env) -> None:
    """Damaged and unusual records, compressed with zstd."""
    await _produce_records(env, made.ZSTD)


async def batches_compression(env: Env) -> None:
    """Compressed bytes that are damaged, or packed in an unusual way."""
    await _produce_all(env, made.compression)


async def batches_with_a_record_behind_their_end(env: Env) -> None:
    """No timestamp finds a record whose offset is not below the end of the log."""
    topic = await env.topic()
    a = await env.peer("A")
    behind = made.batch(_TIME, made.record(delta=1), count=1)
    for _ in range(2):
        await a.call("Produce", 9, **produce_fields(topic, (0, behind)))
        for timestamp in (_MAX_TIMESTAMP, _TIME, _TIME + 1):
            wanted = {"partition_index": 0, "timestamp": timestamp}
            topics = [{"name": topic, "partitions": [wanted]}]
            await a.call("ListOffsets", 7, replica_id=-1, topics=topics)
