"""Produce: topic configuration that refuses or changes batches, versions, sequences."""

from __future__ import annotations

import time
import uuid

from tests.conformance.env import Env
from tests.conformance.peer import Peer
from tests.conformance.producing import (
    fetch_fields,
    new_producer_id,
    produce,
    produce_fields,
)
from tests.wire.malformed_batches import (
    CODECS,
    GZIP,
    HOUR_MS,
    LOG_APPEND_TIME,
    NULL,
    ZSTD,
    batch,
    body,
    good,
    packed,
    record,
    sized,
)

ORDERED = True


def _now_ms() -> int:
    return int(time.time() * 1000)


def _of_each_codec(now: int) -> dict[str, bytes]:
    made = {name: packed(now, codec, good()) for name, codec in CODECS.items()}
    return {"none": batch(now, good())} | made


def _without_keys(now: int) -> dict[str, bytes]:
    keyless = sized(body(key=NULL))
    second = record(0) + sized(body(delta=b"\x02", key=NULL)) + record(2)
    return {
        "keys": batch(now, good()),
        "first without key": batch(now, keyless + record(1) + record(2)),
        "second without key": batch(now, second),
        "second without key, gzip": packed(now, GZIP, second),
        "empty key": batch(now, sized(body(key=b"\x00")), 1),
        "no value": batch(now, sized(body(value=NULL)), 1),
    }


async def produce_to_compacted_topic(env: Env) -> None:
    """Records of a compacted topic need keys."""
    now = _now_ms()
    await produce(env, _without_keys(now), now, cleanup_policy="compact")


async def produce_to_compacted_and_deleted_topic(env: Env) -> None:
    """Records need keys under compact,delete, too, and none under delete."""
    now = _now_ms()
    await produce(env, _without_keys(now), now, cleanup_policy="compact,delete")
    await produce(env, _without_keys(now), now, cleanup_policy="delete")


async def produce_to_topic_of_each_codec(env: Env) -> None:
    """compression.type: batches of another codec are compressed anew."""
    for codec in ("producer", "uncompressed", *CODECS):
        env.note(codec)
        now = _now_ms()
        await produce(env, _of_each_codec(now), now, compression_type=codec)


async def produce_with_append_time(env: Env) -> None:
    """LogAppendTime: the response and the batches bear the broker's time."""
    now = _now_ms()
    batches = _of_each_codec(now) | {
        "2 hours ahead": batch(now, record(0, 2 * HOUR_MS), 1),
        "already append time": batch(now, good(), attributes=LOG_APPEND_TIME),
    }
    configs = {"message_timestamp_type": "LogAppendTime"}
    await produce(env, batches, now, **configs)
    await produce(env, batches, now, compression_type="gzip", **configs)


async def produce_timestamp_bounds(env: Env) -> None:
    """message.timestamp.before.max.ms and after.max.ms, errors of single records."""
    now = _now_ms()
    ahead = record(0) + record(1, 2 * HOUR_MS) + record(2, 3 * HOUR_MS)
    behind = record(0, -2 * HOUR_MS) + record(1) + record(2, -3 * HOUR_MS)
    batches = {
        "now": batch(now, good()),
        "ahead": batch(now, ahead, max_time=now + 3 * HOUR_MS),
        "behind": batch(now, behind),
        "ahead, gzip": packed(now, GZIP, ahead),
        "behind, zstd": packed(now, ZSTD, behind),
        "all of 20 ahead": batch(now + 2 * HOUR_MS, good(20), 20),
    }
    for configs in (
        {"message_timestamp_after_max_ms": "3600000"},
        {"message_timestamp_before_max_ms": "3600000"},
        {"message_timestamp_after_max_ms": str(10 * HOUR_MS)},
    ):
        env.note("topic", **configs)
        await produce(env, batches, now, **configs)


async def produce_too_large(env: Env) -> None:
    """max.message.bytes counts the batch as it is sent."""
    now = _now_ms()
    batches = {
        "just fits": batch(now, sized(body(value=b"\xec\x01" + b"v" * 118)), 1),
        "small": batch(now, good()),
        "large": batch(now, good(40), 40),
        "large, gzip": packed(now, GZIP, good(40), 40),
        "large, wrong crc": batch(now, good(40), 40, crc=5),
        "large, wrong count": batch(now, good(40), 41),
    }
    await produce(env, batches, now, max_message_bytes="200")
    await produce(env, batches, now, max_message_bytes="200", min_insync_replicas="2")


async def produce_min_insync_replicas(env: Env) -> None:
    """min.insync.replicas above the replication factor."""
    topic = await env.topic(min_insync_replicas="2")
    a = await env.peer("A")
    one = batch(_now_ms(), good())
    for acks in (-1, 1):
        await a.call("Produce", 9, **produce_fields(topic, (0, one), acks=acks))


async def produce_each_version(env: Env) -> None:
    """A good and a damaged batch in v3 to v12; zstd needs v7."""
    topic = await env.topic()
    a = await env.peer("A")
    now = _now_ms()
    for version in range(3, 13):
        for made in (
            batch(now, good()),
            batch(now, good(), crc=5),
            batch(now + 2 * HOUR_MS, good()),
            packed(now, ZSTD, good()),
        ):
            await a.call("Produce", version, **produce_fields(topic, (0, made)))


async def produce_by_topic_id(env: Env) -> None:
    """v13 names topics by id; unknown and zero ids have code 100."""
    topic = await env.topic()
    topic_id = await env.topic_id(topic)
    unknown = uuid.UUID("11111111-2222-4333-8444-555555555555")
    env.symbols.name_uuid(unknown, "<unknown-topic-id>")
    a = await env.peer("A")
    data = [{"index": 0, "records": batch(_now_ms(), good())}]
    for each in (topic_id, unknown, None):
        topics = [{"topic_id": each, "partition_data": data}]
        await a.call("Produce", 13, acks=-1, timeout_ms=5_000, topic_data=topics)


async def produce_acks(env: Env) -> None:
    """Acks 1 and -1 are answered, 0 is not, all others are invalid."""
    topic = await env.topic()
    a = await env.peer("A")
    one = batch(_now_ms(), good())
    for acks in (1, -1, 2, -2):
        await a.call("Produce", 9, **produce_fields(topic, (0, one), acks=acks))
    silent = await a.send("Produce", 9, **produce_fields(topic, (0, one), acks=0))
    await silent.unanswered()
    await _end_of(env, a, topic)


async def produce_acks_0_with_error(env: Env) -> None:
    """Acks 0 and a partition that cannot be written: the connection is closed."""
    topic = await env.topic()
    one = batch(_now_ms(), good())
    for partition, made in ((7, one), (0, batch(_now_ms(), good(), crc=5)), (0, one)):
        a = await env.peer("A")
        fields = produce_fields(topic, (partition, made), acks=0)
        await a.send("Produce", 9, **fields)
        await a.is_closed(1.0)


async def produce_without_records(env: Env) -> None:
    """Empty records, no partitions, no topics."""
    topic = await env.topic()
    a = await env.peer("A")
    for fields in (
        produce_fields(topic, (0, b"")),
        produce_fields(topic),
        produce_fields(topic) | {"topic_data": []},
    ):
        await a.call("Produce", 9, **fields)


async def produce_to_internal_topic(env: Env) -> None:
    """Clients may not write the offsets topic, nor topics with invalid names."""
    a = await env.peer("A")
    one = batch(_now_ms(), good())
    for topic in ("__consumer_offsets", "", "a/b", "..", "x" * 250):
        await a.call("Produce", 9, **produce_fields(topic, (0, one)))


async def produce_sequences(env: Env) -> None:
    """Sequences of an idempotent producer: in order, repeated, with a gap, too old."""
    topic = await env.topic()
    a = await env.peer("A")
    producer = await new_producer_id(env, a)
    now = _now_ms()
    for epoch, sequence in (
        (0, 0),
        (0, 3),
        (0, 3),
        (0, 0),
        (0, 7),
        (0, 6),
        (0, 9),
        (0, 12),
        (0, 15),
        (0, 18),
        (0, 0),
        (0, 3),
        (0, 9),
        (1, 5),
        (1, 0),
        (0, 21),
        (1, 3),
    ):
        made = batch(now, good(), producer=(producer, epoch, sequence))
        env.note(f"epoch {epoch}, sequence {sequence}")
        await a.call("Produce", 9, **produce_fields(topic, (0, made)))


async def produce_sequence_of_unknown_producer(env: Env) -> None:
    """A producer that the partition does not know may start at any sequence."""
    topic = await env.topic(partitions=2)
    a = await env.peer("A")
    producer = await new_producer_id(env, a)
    for partition, sequence in ((0, 5), (0, 8), (0, 5), (1, 2**31 - 2), (1, 1)):
        made = batch(_now_ms(), good(), producer=(producer, 0, sequence))
        env.note(f"partition {partition}, sequence {sequence}")
        await a.call("Produce", 9, **produce_fields(topic, (partition, made)))


async def produce_repeated_with_another_length(env: Env) -> None:
    """A batch is a repetition if its first and last sequence are those of one before."""
    topic = await env.topic()
    a = await env.peer("A")
    producer = await new_producer_id(env, a)
    for count in (3, 2, 4, 3):
        made = batch(_now_ms(), good(count), count, producer=(producer, 0, 0))
        env.note(f"{count} records")
        await a.call("Produce", 9, **produce_fields(topic, (0, made)))


async def _end_of(env: Env, peer: Peer, topic: str) -> None:
    with env.transcript.muted():
        answer = await peer.call("Fetch", 12, **fetch_fields(topic, 0))
    (partition,) = answer["responses"][0]["partitions"]
    env.note("log", high_watermark=partition["high_watermark"])
