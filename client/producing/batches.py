"""Builds record batches: takes records one by one, returns sealed bytes.

Pure. A record is encoded once, when it is appended: so its size is known, and the
application's objects are not kept. A batch is compressed once, when it is first sent.
Its header is written each time, since its sequence number may have changed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.protocol import compression
from kohort.protocol.records import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    advance_sequence,
    crc_of,
)

Headers = Sequence[tuple[str, bytes | None]]

HEAD_SIZE = 21
"""Maximum bytes of a record before its tail: size, attributes, timestamp, offset."""
OVERHEAD = HEADER_SIZE + HEAD_SIZE
"""Maximum bytes of a record in addition to its tail, with a new batch's header."""

_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_NO_LEADER_EPOCH = -1
_NO_HEADERS = b"\0"


@functools.lru_cache(maxsize=1 << 16)
def varint(value: int) -> bytes:
    """A number as a zigzag varint, as in records."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_NULL = varint(-1)


def encode_tail(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Encodes the tail of a record: key, value and headers."""
    return b"".join(
        (
            _NULL if key is None else varint(len(key)) + key,
            _NULL if value is None else varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )


def _encode_headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += varint(len(encoded)), encoded
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def _tails(records: bytes) -> list[bytes]:
    """Records without their offsets, as `encode_tail` makes them."""
    tails = []
    position = 0
    while position < len(records):
        length, position = _read_varint(records, position)
        end = position + length
        _, position = _read_varint(records, position + 1)
        _, position = _read_varint(records, position)
        tails.append(records[position:end])
        position = end
    return tails


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at a position, and its end."""
    value = shift = 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    value |= byte << shift
    return value >> 1 ^ -(value & 1), position + 1


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """A batch of records for one partition."""

    topic: str
    partition: int
    order: int
    """The order of creation; parts of a split batch share it."""
    created_at: float
    """In seconds."""
    deadline: float
    """The deadline of its delivery, in seconds."""
    count: int = 0
    """Number of records."""
    size: int = HEADER_SIZE
    """Uncompressed bytes, with the header."""
    deliveries: list[Any] = field(default_factory=list)
    """The futures of the records, in order."""
    timestamps: list[int] = field(default_factory=list)
    """Timestamps of the records, in ms."""
    first: int = 0
    """For a part: the index of its first record in the split batch."""
    is_part: bool = False
    """True if it is a part of a split batch."""
    is_closed: bool = False
    """True if it is full or closed for new records."""
    is_done: bool = False
    """True if its futures have their results."""
    attempts: int = 0
    """How often it was sent."""
    last_error: Exception | None = None
    """The error of the last attempt."""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    _parts: list[bytes] = field(default_factory=list)
    _packed: bytes | None = None

    def __repr__(self) -> str:
        number = "" if not self.is_numbered else f" #{self.base_sequence}"
        return f"<Batch of {self.count} for {self.topic}-{self.partition}{number}>"

    @property
    def is_numbered(self) -> bool:
        """True if it has sequence numbers (KIP-98)."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def place(self) -> tuple[int, int]:
        """Sort key: the order in which a partition's batches are sent."""
        return self.order, self.first

    def append(self, tail: bytes, timestamp_ms: int, delivery: Any) -> None:
        """Adds a record from `encode_tail`."""
        timestamps, count = self.timestamps, self.count
        delta = timestamp_ms - timestamps[0] if count else 0
        head = b"\0" + varint(delta) + varint(count)
        length = len(head) + len(tail)
        size = varint(length)
        self._parts += size, head, tail
        self.size += len(size) + length
        self.count = count + 1
        timestamps.append(timestamp_ms)
        self.deliveries.append(delivery)

    def number(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Sets the sequence number of its first record."""
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = sequence

    def halves(self, codec: int) -> tuple[Batch, Batch]:
        """Splits it into two batches of about the same size, with its sequence numbers.

        Args:
            codec: the codec that it was sealed with.
        """
        assert self._packed is not None
        tails = _tails(compression.decompress(codec, self._packed, limit=self.size))
        left, right = halves = self._part(self.first), self._part(self.first)
        half, seen = sum(map(len, tails)) / 2, 0
        for number, tail in enumerate(tails):
            seen += len(tail)
            is_last = number == self.count - 1
            part = left if not number or (seen <= half and not is_last) else right
            part.append(tail, self.timestamps[number], self.deliveries[number])
        right.first += left.count
        if self.is_numbered:
            right.base_sequence = advance_sequence(self.base_sequence, left.count)
        return halves

    def _part(self, first: int) -> Batch:
        part = Batch(
            self.topic, self.partition, self.order, self.created_at, self.deadline
        )
        part.first, part.is_part, part.is_closed = first, True, True
        # Being too large does not count as an attempt.
        part.attempts, part.last_error = self.attempts - 1, self.last_error
        part.number(self.producer_id, self.producer_epoch, self.base_sequence)
        return part

    def seal(
        self, codec: int, flags: int = 0, level: int | None = None
    ) -> tuple[bytes, bytes]:
        """The bytes for Produce: header and records.

        Args:
            codec: 0 to 4; the same one each time.
            flags: further attributes of the batch.
            level: of the codec; None for its default.
        """
        packed = self._packed
        if packed is None:
            packed = compression.compress(codec, b"".join(self._parts), level)
            self._packed = packed
            self._parts = []
        timestamps = self.timestamps
        fields = (
            0,
            _LENGTH + len(packed),
            _NO_LEADER_EPOCH,
            MAGIC,
            0,
            codec | flags,
            self.count - 1,
            timestamps[0],
            max(timestamps),
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        crc = crc_of(packed, crc_of(HEADER.pack(*fields)[CRC_START:]))
        return HEADER.pack(*fields[:4], crc, *fields[5:]), packed
