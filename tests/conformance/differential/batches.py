"""Record batches, valid and unusual, and a form in which brokers can be compared."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from tests.wire import malformed_batches
from tests.wire.malformed_batches import CONTROL, NULL, TRANSACTIONAL, sized, varint

from kohort.protocol import compression
from kohort.protocol.records import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    crc_of,
)

OLDER_MS, LATER_MS = 10**7, 10**8
"""Less than `segment.ms`: a fetch ends with a segment, and Kafka begins another one for
a record that is this much later than the segment's first one."""
_ATTRIBUTES = {"control": CONTROL, "transactional": TRANSACTIONAL, "append time": 8}
_HEADERS = {
    "length 0": {"length": 0},
    "magic 0": {"magic": 0},
    "magic 1": {"magic": 1},
    "magic 3": {"magic": 3},
    "base offset 7": {"base_offset": 7},
    "epoch 7": {"epoch": 7},
    "crc": {"crc": 5},
    "codec 5": {"attributes": 5},
}
"""The fields of the header that a fault sets."""


def batch(now_ms: int, step: dict[str, Any], producer: tuple[int, int, int]) -> bytes:
    """The batch of a step that produces.

    Args:
        now_ms: the time for both brokers.
        step: see `log_steps`.
        producer: id, epoch and base sequence; -1 each for none.
    """
    fault = step.get("fault", "")
    if fault == "nothing":
        return b""
    times = {
        "now": now_ms,
        "old": now_ms - OLDER_MS,
        "later": now_ms + LATER_MS,
        "none": -1,
    }
    at, count = times[step["times"]], step["records"]
    payload = b"".join(_record(number, step, fault) for number in range(count))
    if fault == "no records":
        payload = b""
    # In a compressed batch Kafka does not detect a wrong length.
    codec = 0 if fault == "record length" else step["codec"]
    named = codec or int(fault == "codec lies")
    body = compression.compress(0 if fault == "codec lies" else codec, payload)
    fields: dict[str, Any] = {
        "attributes": named | _ATTRIBUTES.get(fault, 0),
        "max_time": at + 5 if fault == "max timestamp" else at,
        "producer": producer,
    } | _HEADERS.get(fault, {})
    if fault in ("length +1", "length -1"):
        fields["length"] = HEADER_SIZE - 12 + len(body) + int(fault[-2:])
    name, _, more = fault.rpartition(" ")
    if name in ("count", "last delta"):
        wrong = 0 if more == "0" else int(more) + (count - (name != "count"))
        fields |= {"last_delta": count - 1, name.replace(" ", "_"): wrong}
    made = malformed_batches.batch(at, body, fields.pop("count", count), **fields)
    if fault == "trailing":
        return made + bytes(5)
    if fault == "cut":
        return made[:-1]
    return made * 2 if fault == "two batches" else made


def _record(number: int, step: dict[str, Any], fault: str) -> bytes:
    delta = number + (fault == "first delta 1")
    if fault == "deltas down":
        delta = step["records"] - 1 - number
    record = malformed_batches.body(
        varint(delta),
        key=sized(b"k%d" % number) if step["keys"] else NULL,
        value=sized(b"v" * step["bytes"]),
        headers=varint(1) + NULL + varint(0) if fault == "header key null" else b"\0",
        attributes=b"\1" if fault == "record attributes" else b"\0",
    )
    size = varint(len(record) + (fault == "record length"))
    return (b"\xff" * 6 if fault == "varint long" else size) + record


def _has_producer(producer_id: int) -> bool:
    return producer_id >= 0


def shown(
    data: bytes | None,
    masks_size: bool,
    producer: Callable[[int], Any] = _has_producer,
) -> list[Any]:
    """The batches of a Fetch response; the last one may be cut off.

    Args:
        data: the records.
        masks_size: whether the broker compressed them itself, so that sizes differ.
        producer: the form of a producer id.
    """
    out: list[Any] = []
    position = 0
    data = data or b""
    while len(data) - position >= HEADER_SIZE:
        fields = HEADER.unpack_from(data, position)
        end = position + 12 + fields[1]
        if end > len(data):
            break
        out.append(_shown_batch(data[position:end], fields, masks_size, producer))
        position = end
    if position < len(data):
        out.append("a part" if masks_size else f"{len(data) - position} bytes of one")
    return out


def _shown_batch(
    data: bytes,
    fields: tuple[int, ...],
    masks_size: bool,
    producer: Callable[[int], Any],
) -> Any:
    base, length, epoch, _, crc, attributes, last, first_ms, max_ms = fields[:9]
    is_own_time = bool(attributes & LOG_APPEND_TIME)
    try:
        body = compression.decompress(attributes & CODEC_MASK, data[HEADER_SIZE:])
    except Exception as error:
        body = repr(error).encode()
    return {
        "offsets": [base, base + last],
        "bytes": "own" if masks_size else length + 12,
        "epoch": epoch,
        "attributes": attributes,
        "times": "own" if is_own_time else [shown_time(first_ms), shown_time(max_ms)],
        "producer": [producer(fields[9]), *fields[10:12]],
        "records": fields[12],
        "crc": "right" if crc == crc_of(data[21:]) else "wrong",
        "data": hashlib.sha1(body).hexdigest()[:8],
    }


def shown_time(at_ms: int) -> Any:
    """A time; one close to a time of a step is shown by name."""
    distance = at_ms - time.time() * 1000
    meant = {"now": 0, "old": -OLDER_MS, "later": LATER_MS}
    near = [name for name, apart in meant.items() if abs(distance - apart) < 10**6]
    return near[0] if near else at_ms
