"""`.snapshot`: the state of producers at an offset, in Kafka's format.

Kafka's format (version 1) has the last batch of each producer, and the first offset of
its open transaction. The four batches before the last one,
which Kafka forgets at a restart, are appended: its reader stops before them, and its
CRC covers them.
"""

from __future__ import annotations

import struct

from kohort.broker.log.producers import AppendedBatch, Producers, ProducerState
from kohort.protocol.records import NO_SEQUENCE, advance_sequence, crc_of

_START = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
"""Producer id, epoch, last sequence, last offset, last offset delta, timestamp,
coordinator epoch, first offset of an open transaction.
"""
_MARK = b"KHRT\x01"
_EARLIER = struct.Struct(">qb")
_BATCH = struct.Struct(">iiqqq")
_NO_BATCH = AppendedBatch(NO_SEQUENCE, NO_SEQUENCE, -1, -1, -1)
VERSION = 1


class SnapshotError(Exception):
    """A snapshot is damaged, or has another version."""


def encode(producers: Producers) -> bytes:
    """The contents of a snapshot file."""
    states = producers.states
    body = bytearray(_COUNT.pack(len(states)))
    earlier = bytearray()
    for producer_id, state in states.items():
        *before, last = state.batches or (_NO_BATCH,)
        body += _ENTRY.pack(
            producer_id,
            state.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.first_offset,
            state.timestamp_ms,
            state.coordinator_epoch,
            state.first_offset,
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
        fields = _ENTRY.unpack_from(data, position)
        producers.states[fields[0]] = _state(*fields[1:])
        position += _ENTRY.size
    producers.find_open()
    if data[position : position + len(_MARK)] == _MARK:
        _add_earlier(producers, data, position + len(_MARK))
    return producers


def _state(
    epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerState:
    state = ProducerState(epoch)
    state.timestamp_ms = state.began_ms = timestamp_ms
    state.coordinator_epoch = coordinator_epoch
    state.first_offset = first_offset
    if offset >= 0:
        # Batches of a coordinator have no sequence.
        first = sequence if sequence < 0 else advance_sequence(sequence, -delta)
        batch = AppendedBatch(first, sequence, offset - delta, offset, timestamp_ms)
        state.batches.append(batch)
    return state


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
