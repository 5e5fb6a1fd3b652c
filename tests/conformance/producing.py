"""Steps that produce ready-made batches, and fetch the stored ones."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from crc32c import crc32c
from tests.conformance.connection import Outcome, ScenarioError
from tests.conformance.env import Env
from tests.conformance.peer import Peer
from tests.wire.malformed_batches import CODECS, NONE

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
_LENGTH_FROM, _COVERED_FROM = 12, 21
_APPEND_TIME = 8

_BEYOND_32_BITS = frozenset({"size beyond 32 bits", "delta beyond 32 bits"})
_WRONG_SIZES = _BEYOND_32_BITS | {
    "size too small",
    "size too large",
    "size 0",
    "size -1",
    "size beyond the batch",
    "size 2^31 - 1",
}
SIZES_UNREAD = {NONE: _BEYOND_32_BITS} | dict.fromkeys(CODECS.values(), _WRONG_SIZES)
"""Batches by codec that Kafka accepts because it does not check a record's size. Not
every client can read them."""


def produce_fields(
    topic: str, *partitions: tuple[int, bytes | None], acks: int = -1
) -> dict[str, Any]:
    """Fields of a Produce request for one topic, up to v12."""
    data = [{"index": index, "records": records} for index, records in partitions]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 5_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def fetch_fields(topic: str, *partitions: int, offset: int = 0) -> dict[str, Any]:
    """Fields of a Fetch request for one topic, without a session, up to v12."""
    wanted = [
        {"partition": each, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        for each in partitions
    ]
    topics = [{"topic": topic, "partitions": wanted}]
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": topics}


async def produce(
    env: Env, batches: dict[str, bytes], now_ms: int, **configs: str
) -> None:
    """Produces each batch to a separate partition, and fetches it.

    Records Produce's answer for the partition, and the fetched batch.

    Args:
        env: of the scenario.
        batches: by the name in the recording.
        now_ms: their timestamp.
        configs: of the topic.
    """
    topic = await env.topic(partitions=len(batches), **configs)
    peer = await env.peer("A")
    for partition, (name, batch) in enumerate(batches.items()):
        with env.transcript.muted():
            answer = await peer.call(
                "Produce", 9, **produce_fields(topic, (partition, batch))
            )
            if not answer.ok:
                peer = await env.peer("A")
            stored = await _stored(peer, topic, partition, batch, now_ms)
        env.note(name, produced=_of_partition(answer), **stored)


async def new_producer_id(env: Env, peer: Peer) -> int:
    """Unrecorded InitProducerId; a broker may have to fetch a block of ids first."""
    with env.transcript.muted():
        for _ in range(100):
            answer = await peer.call("InitProducerId", 4, transactional_id=None)
            if not int(answer["error_code"]):
                return int(answer["producer_id"])
            await asyncio.sleep(0.1)
    raise ScenarioError(f"no producer id: {answer.body}")


def _of_partition(answer: Outcome) -> Any:
    if not answer.ok:
        return answer.status
    (topic,) = answer["responses"]
    (partition,) = topic["partition_responses"]
    return {key: value for key, value in partition.items() if key != "index"}


async def _stored(
    peer: Peer, topic: str, partition: int, sent: bytes, now_ms: int
) -> dict[str, Any]:
    """The end of a partition, and its batches beside the sent one."""
    answer = await peer.call("Fetch", 12, **fetch_fields(topic, partition))
    (found,) = answer["responses"][0]["partitions"]
    batches = [
        _as_sent(batch, sent) or described(batch, now_ms)
        for batch in split(found["records"] or b"")
    ]
    return {
        "fetched": found["error_code"],
        "high_watermark": found["high_watermark"],
        "batches": batches,
    }


def split(records: bytes) -> list[bytes]:
    """Batches of a record set; the last one may be cut off."""
    found = []
    while records:
        size = len(records)
        if size >= _LENGTH_FROM:
            size = _LENGTH_FROM + int.from_bytes(records[8:_LENGTH_FROM])
        found.append(records[:size])
        records = records[size:]
    return found


def _as_sent(batch: bytes, sent: bytes) -> str:
    """Empty if more than the base offset and the leader epoch has changed."""
    offset, _, epoch = struct.unpack_from(">qii", batch)
    same = sent[8:_LENGTH_FROM] + batch[12:16] + sent[16 : len(batch)]
    return f"as sent, at offset {offset}, epoch {epoch}" if batch[8:] == same else ""


def described(batch: bytes, now_ms: int) -> dict[str, Any]:
    """Header of a batch without the codec's own fields; timestamps relative to now."""
    if len(batch) < _HEADER.size:
        return {"bytes": len(batch)}
    header = dict(zip(_FIELDS, _HEADER.unpack_from(batch), strict=True))
    length, crc = header.pop("length"), header.pop("crc")
    header["whole"] = len(batch) == length + _LENGTH_FROM
    header["crc"] = crc == crc32c(batch[_COVERED_FROM:])
    for key in ("base_timestamp", "max_timestamp"):
        if header[key] >= 0:
            header[key] -= now_ms
    if header["attributes"] & _APPEND_TIME:
        header["max_timestamp"] = "<time>"
    return header
