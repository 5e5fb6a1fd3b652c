"""Record batches, valid and unusual, and a form in which brokers can be compared."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable
from typing import Any

from kohort.protocol import compression
from kohort.protocol.records import (
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    crc_of,
)
from kohort.protocol.varints import varint

OLDER_MS, LATER_MS = 10**7, 10**8
"""Less than `segment.ms`: a fetch ends with a segment, and Kafka begins another one for
a record that is this much later than the segment's first one."""
_ATTRIBUTES = {"control": 0x20, "transactional": 0x10, "append time": 0x08}
_FIELD = {
    "length": 1,
    "magic": 3,
    "count": 12,
    "last delta": 6,
    "base offset": 0,
    "epoch": 2,
}
"""Fields of the header that faults change, by their position in it."""


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
    at = times[step["times"]]
    payload = b"".join(
        _record(number, step, fault) for number in range(step["records"])
    )
    if fault == "no records":
        payload = b""
    # In a compressed batch Kafka does not detect a wrong length.
    named = 0 if fault == "record length" else step["codec"]
    body = compression.compress(0 if fault == "codec lies" else named, payload)
    attributes = (named or (fault == "codec lies")) | _ATTRIBUTES.get(fault, 0)
    if fault == "codec 5":
        attributes = 5
    highest = at + 5 if fault == "max timestamp" else at
    fields: list[int] = [
        0,
        HEADER_SIZE - 12 + len(body),
        -1,
        2,
        0,
        attributes,
        step["records"] - 1,
        at,
        highest,
        *producer,
        step["records"],
    ]
    made = _sealed(fields, body, fault)
    if fault == "trailing":
        return made + b"\0" * 5
    if fault == "cut":
        return made[:-1]
    return made * 2 if fault == "two batches" else made


def _sealed(fields: list[int], body: bytes, fault: str) -> bytes:
    name, _, value = fault.rpartition(" ")
    position = _FIELD.get(name)
    if position is not None:
        number = int(value)
        fields[position] = number + (fields[position] if value[0] in "+-" else 0)
    made = bytearray(HEADER.pack(*fields) + body)
    crc = crc_of(memoryview(made)[21:]) ^ (fault == "crc")
    struct.pack_into(">I", made, 17, crc)
    return bytes(made)


def _record(number: int, step: dict[str, Any], fault: str) -> bytes:
    delta = number
    if fault == "first delta 1":
        delta = number + 1
    if fault == "deltas down":
        delta = step["records"] - 1 - number
    body: bytes
    key = b"k%d" % number if step["keys"] else None
    value = b"v" * step["bytes"]
    body = b"\1" if fault == "record attributes" else b"\0"
    body += varint(0) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value
    if fault == "header key null":
        body += varint(1) + varint(-1) + varint(0)
    else:
        body += varint(0)
    length: bytes = varint(len(body) + (fault == "record length"))
    return (b"\xff" * 6 if fault == "varint long" else length) + body


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
