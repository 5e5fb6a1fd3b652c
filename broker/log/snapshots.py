"""`.snapshot`: the state of idempotent producers at an offset, as Kafka writes it.

Kafka's format (version 1) has the last batch of each producer. The four before
it, which Kafka forgets at a restart, follow behind: its reader stops before them,
and its CRC covers them.
"""

from __future__ import annotations

import struct

from kohort.broker.log.producers import AppendedBatch, Producers, ProducerState
from kohort.protocol.records import advance_sequence, crc_of

_START = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_MARK = b"KHRT\x01"
_EARLIER = struct.Struct(">qb")
_BATCH = struct.Struct(">iiqqq")
VERSION = 1


class SnapshotError(Exception):
    """A snapshot is damaged, or has another version."""


def encode(producers: Producers) -> bytes:
    """The contents of a snapshot file."""
    states = producers.states
    body = bytearray(_COUNT.pack(len(states)))
    earlier = bytearray()
    for producer_id, state in states.items():
        *before, last = state.batches
        body += _ENTRY.pack(
            producer_id,
            state.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.first_offset,
            last.timestamp_ms,
            -1,  # the coordinator's epoch: kohort has no transactions
            -1,  # the first offset of an open one
        )
        if before:
            earlier += _EARLIER.pack(producer_id, len(before))
            for batch in before:
                earlier += _BATCH.pack(
                    batch.first_sequence,
                    batch.last_sequence,
                    batch.first_offset,
                    batch.last_offset,
                    batch.timestamp_ms,
                )
    if earlier:
        body += _MARK + earlier
    return _START.pack(VERSION, crc_of(bytes(body))) + body


def decode(data: bytes) -> Producers:
    """Reads the contents of a snapshot file.

    Raises:
        SnapshotError: another version, or damaged.
    """
    try:
        version, crc = _START.unpack_from(data)
        if version != VERSION:
            raise SnapshotError(f"version {version}")
        if crc_of(data[_START.size :]) != crc:
            raise SnapshotError("the CRC is another")
        return _states(data)
    except (struct.error, KeyError) as error:
        raise SnapshotError(str(error)) from None


def _states(data: bytes) -> Producers:
    producers = Producers()
    (count,) = _COUNT.unpack_from(data, _START.size)
    position = _START.size + _COUNT.size
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, _, _ = (
            _ENTRY.unpack_from(data, position)
        )
        position += _ENTRY.size
        if sequence < 0:
            # Kafka keeps producers that have only ended transactions.
            continue
        first = advance_sequence(sequence, -delta)
        batch = AppendedBatch(first, sequence, offset - delta, offset, timestamp)
        producers.states[producer_id] = ProducerState(epoch, batch)
    if data[position : position + len(_MARK)] == _MARK:
        _add_earlier(producers, data, position + len(_MARK))
    return producers


def _add_earlier(producers: Producers, data: bytes, position: int) -> None:
    while position < len(data):
        producer_id, count = _EARLIER.unpack_from(data, position)
        position += _EARLIER.size
        batches = [
            AppendedBatch(*_BATCH.unpack_from(data, position + index * _BATCH.size))
            for index in range(count)
        ]
        position += count * _BATCH.size
        producers.states[producer_id].batches[:0] = batches
