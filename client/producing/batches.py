"""Record batches in the making: records go in one by one, sealed bytes come out.

Pure. A record is encoded once, when it is appended, so that sizes are known and
nothing of the application's is held; a batch is compressed once, when it is sent
first, and gets a header whenever it is sent, as its number may have changed.
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
"""Bytes of a record in front of its tail, at most: its size, attributes, timestamp
and offset."""
OVERHEAD = HEADER_SIZE + HEAD_SIZE
"""Most bytes that a record needs in addition to its tail: a new batch's header, too."""

_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_NO_LEADER_EPOCH = -1
_NO_HEADERS = b"\0"


@functools.lru_cache(maxsize=1 << 16)
def varint(value: int) -> bytes:
    """A number as records have it: zigzag, seven bits a byte."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_NULL = varint(-1)


def encode_tail(key: bytes | None, value: bytes | None, headers: Headers = ()) -> bytes:
    """Encodes a record behind its offset: key, value and headers."""
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
    """The number that `varint` wrote there, and where it ends."""
    value = shift = 0
    while (byte := data[position]) & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    value |= byte << shift
    return value >> 1 ^ -(value & 1), position + 1


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Records of one partition that are sent together."""

    topic: str
    partition: int
    order: int
    """Batches are made in this order; the parts of one have its own."""
    created_at: float
    """In seconds."""
    deadline: float
    """When it is to be delivered, in seconds."""
    count: int = 0
    """How many records it has."""
    size: int = HEADER_SIZE
    """Bytes, before they are compressed, with the header."""
    deliveries: list[Any] = field(default_factory=list)
    """The senders' futures of the records, in order."""
    timestamps: list[int] = field(default_factory=list)
    """Timestamps of the records, in ms."""
    first: int = 0
    """The number of its first record in the batch that it is a part of."""
    is_part: bool = False
    """Whether it is a part of a batch that was too large."""
    is_closed: bool = False
    """Whether it takes no more records."""
    is_done: bool = False
    """Whether its senders have their result."""
    attempts: int = 0
    """How often it was sent."""
    last_error: Exception | None = None
    """Why it was not delivered at the last attempt."""
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
        """Whether it has sequence numbers (KIP-98)."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def place(self) -> tuple[int, int]:
        """Batches of a partition are sent in the order of these."""
        return self.order, self.first

    def append(self, tail: bytes, timestamp_ms: int, delivery: Any) -> None:
        """Takes a record, as `encode_tail` makes it."""
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
        """Gives it its place: the sequence of its first record."""
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = sequence

    def halves(self, codec: int) -> tuple[Batch, Batch]:
        """Its records in two batches of about the same size, and with its numbers.

        Args:
            codec: that it was sealed with; it has two records or more.
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
        # That it was too large does not count as an attempt.
        part.attempts, part.last_error = self.attempts - 1, self.last_error
        part.number(self.producer_id, self.producer_epoch, self.base_sequence)
        return part

    def seal(self, codec: int) -> tuple[bytes, bytes]:
        """The batch as Produce takes it: its header and its records.

        Args:
            codec: 0 to 4; the same one each time.
        """
        packed = self._packed
        if packed is None:
            packed = compression.compress(codec, b"".join(self._parts))
            self._packed = packed
            self._parts = []
        timestamps = self.timestamps
        fields = (
            0,
            _LENGTH + len(packed),
            _NO_LEADER_EPOCH,
            MAGIC,
            0,
            codec,
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
