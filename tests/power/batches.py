"""Record batches, written and read without kohort's code: Kafka's format, version 2."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import crc32c

_HEAD = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")
_LENGTH_FROM = 12
_CRC_FROM = 21


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it is in the log.

    Attributes:
        first: its first offset.
        last: its last offset, which compaction may have left without a record.
        producer_id: -1 for none.
        sequence: of its first record; -1 for none.
        records: offset, key and value of each.
    """

    first: int
    last: int
    producer_id: int
    sequence: int
    records: Sequence[tuple[int, bytes, bytes | None]]


class BatchError(Exception):
    """Bytes that are not a batch."""


def written(
    records: Sequence[tuple[bytes, bytes | None]],
    time_ms: int,
    producer_id: int = -1,
    sequence: int = -1,
) -> bytes:
    """A batch of keys and values, as a producer sends it."""
    body = bytearray()
    for delta, (key, value) in enumerate(records):
        record = b"\0" + _varint(0) + _varint(delta) + _varint(len(key)) + key
        record += _varint(-1) if value is None else _varint(len(value)) + value
        record += _varint(0)
        body += _varint(len(record)) + record
    epoch = 0 if producer_id >= 0 else -1
    count = len(records)
    rest = _REST.pack(
        0, count - 1, time_ms, time_ms, producer_id, epoch, sequence, count
    )
    rest += body
    head = _HEAD.pack(
        0, _CRC_FROM - _LENGTH_FROM + len(rest), -1, 2, crc32c.crc32c(rest)
    )
    return head + rest


def read(data: bytes) -> Iterator[Batch]:
    """All batches in the data of a Fetch, which may end within one.

    Raises:
        BatchError: some bytes are not a batch.
    """
    at = 0
    while len(data) - at >= _LENGTH_FROM:
        first, length, _, magic, crc = _HEAD.unpack_from(data, at)
        end = at + _LENGTH_FROM + length
        if end > len(data):
            return
        rest = data[at + _CRC_FROM : end]
        if magic != 2 or crc32c.crc32c(rest) != crc:
            raise BatchError(f"offset {first}: magic {magic}, or another CRC")
        attributes, delta, _, _, producer_id, _, sequence, count = _REST.unpack_from(
            rest
        )
        if attributes & 7:
            raise BatchError(f"offset {first}: compressed")
        records = list(_records(rest, first, count))
        yield Batch(first, first + delta, producer_id, sequence, records)
        at = end


def _records(
    rest: bytes, first: int, count: int
) -> Iterator[tuple[int, bytes, bytes | None]]:
    at = _REST.size
    for _ in range(count):
        size, at = _read_varint(rest, at)
        end = at + size
        _, at = _read_varint(rest, at + 1)
        delta, at = _read_varint(rest, at)
        size, at = _read_varint(rest, at)
        key = rest[at : at + size]
        size, at = _read_varint(rest, at + size)
        yield first + delta, key, None if size < 0 else rest[at : at + size]
        at = end


def _varint(value: int) -> bytes:
    left = value << 1 ^ value >> 63
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at
