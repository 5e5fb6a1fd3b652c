"""Batches that lose records, as Kafka's cleaner leaves them.

A batch has at most a million records and 100 MB: it is read and built a few records at
a time, and other requests are served in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from kohort.protocol import compression
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import (
    CONTROL,
    DELETE_HORIZON,
    KEPT_ATTRIBUTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    sealed,
)
from kohort.protocol.varints import bytes_at, delta_at, put_varint, varint_at, wrapped

_BYTES: Final = 1024 * 1024
"""Bytes written at a time: a millisecond."""
_RECORD: Final = 1024
"""Bytes that cost as much as a record, in addition to its own."""

RecordSpan = tuple[int, bytes | None, bool, int, int]
"""A record as compaction needs it: its offset, its key, whether it has a value, its
start (after its size) and its end."""


def scan_records(
    data: Buffer, position: int, count: int, base_offset: int
) -> Iterator[RecordSpan]:
    """Finds keys in the records of a batch, and leaves the rest unread.

    Args:
        data: the records, not compressed.
        position: start of the first one.
        count: number of records.
        base_offset: of the batch.

    Raises:
        WireError: the data is damaged, as far as it was read.
    """
    end = len(data)
    try:
        for _ in range(count):
            size, start = varint_at(data, position)
            stop = start + size
            if size < 0 or stop > end:
                raise WireError(f"a record of {size} bytes")
            position = start + 2
            if data[start + 1] & 0x80:  # its timestamp, usually of one byte
                _, position = varint_at(data, start + 1)
            delta, position = delta_at(data, position)
            key, position = bytes_at(data, position, stop)
            if position >= stop:
                raise WireError(f"a record ends at {position}, not {stop}")
            # The lowest bit of a zigzag varint is its sign: -1 is null.
            yield base_offset + delta, key, not data[position] & 1, start, stop
            position = stop
    except IndexError as error:
        raise WireError(str(error)) from None


def key_end(data: Buffer, start: int) -> int:
    """The end of a record's key.

    Args:
        data: the records, not compressed.
        start: the record's start, after its size.

    Raises:
        WireError: the record is damaged.
        IndexError: the data ends in it.
    """
    _, position = varint_at(data, start + 1)
    _, position = delta_at(data, position)
    return bytes_at(data, position, len(data))[1]


def rebuild_in_pieces(
    header: BatchHeader,
    data: Buffer,
    spans: Sequence[tuple[int, int]],
    delete_horizon_ms: int | None = None,
) -> Generator[None, None, bytes]:
    """Rebuilds a batch with fewer records, or a delete horizon, as Kafka's cleaner.

    Offsets (including the last one), sequences, producer and epochs stay. The base
    timestamp becomes that of the first remaining record, or the delete horizon
    (KIP-534), which a batch keeps once it has one. Other tasks may run in between.

    Args:
        header: the batch's header.
        data: its records, not compressed.
        spans: (start, end) of each record to keep, from `scan_records`; at least one.
        delete_horizon_ms: when its tombstones may be dropped, if that is new.
    """
    attributes = header.attributes & (KEPT_ATTRIBUTES | LOG_APPEND_TIME)
    if header.has_delete_horizon:
        base_timestamp = header.base_timestamp
    elif delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON
    else:
        base_timestamp = time_at(header, data, spans[0][0])[0]
    body = bytearray()
    latest = -(2**63)
    work = 0
    for start, stop in spans:
        work += _RECORD + stop - start
        if work > _BYTES:
            work = 0
            yield
        time, position = time_at(header, data, start)
        latest = max(latest, time)
        head = bytearray(1)
        put_varint(head, wrapped(time - base_timestamp))
        put_record(body, head, data, position, stop)
    parts: list[bytes] = []
    for part in compression.compress_in_pieces(header.codec, body):
        parts.append(part)
        if len(parts) % 8 == 0:
            yield
    packed = b"".join(parts)
    return _with_records(header, attributes, base_timestamp, latest, len(spans), packed)


def time_at(header: BatchHeader, data: Buffer, start: int) -> tuple[int, int]:
    """A record's time, and the position behind its field.

    Args:
        header: the batch's header.
        data: its records, not compressed.
        start: the record's start, after its size.
    """
    delta, position = varint_at(data, start + 1)
    time = header.base_timestamp + delta
    if header.is_log_append_time:
        time = header.max_timestamp
    return wrapped(time), position


def put_record(
    body: bytearray, head: bytearray, data: Buffer, position: int, stop: int
) -> None:
    """Appends a record with another head; the rest of it is in `data`."""
    put_varint(body, len(head) + stop - position)
    body += head
    body += data[position:stop]


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without records, as Kafka's cleaner keeps the last one of a producer.

    So the producer's epoch and sequence, and the last offset, survive.
    """
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _with_records(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _with_records(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    packed: bytes,
) -> bytes:
    fields = (
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return sealed(header.base_offset, header.partition_leader_epoch, fields, packed)
