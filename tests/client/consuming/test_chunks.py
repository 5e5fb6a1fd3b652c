"""The batches of a Fetch response, decoded record by record."""

from __future__ import annotations

import pytest
from tests.client.stage import text

from kohort.client.consuming.chunks import Chunk, deserialized
from kohort.client.errors import SerializationError
from kohort.client.offsets import TopicPartition
from kohort.protocol.records import (
    LOG_APPEND_TIME,
    Record,
    build_batch,
)

PLACE = TopicPartition("t", 0)


def batch(offset: int, *values: str, flags: int = 0) -> bytes:
    """A batch of leader epoch 3."""
    return build_batch(
        [Record(0, 5, None, value.encode()) for value in values],
        base_offset=offset,
        attributes=flags,
        partition_leader_epoch=3,
    )


def read(chunk: Chunk) -> list[tuple[int, str]]:
    """Offsets and values, to the end."""
    found = []
    while some := chunk.next_records():
        found += [(record.offset, text(record)) for record in some]
    return found


def chunk_of(data: bytes, start: int = 0) -> Chunk:
    """The records of a fetch of these batches."""
    return Chunk(PLACE, data, start, (), is_checked=True)


def test_records_before_the_position_and_cut_off_batches_are_left_out() -> None:
    """Brokers fill a response up to its limit with part of a last batch."""
    data = batch(10, "a", "b", "c") + batch(13, "d")
    chunk = chunk_of(data[:-1], 11)
    assert read(chunk) == [(11, "b"), (12, "c")]
    assert chunk.end == 13


def test_a_record_for_the_application() -> None:
    """Deserialized, with its timestamp type and leader epoch."""
    data = batch(2, "12", flags=LOG_APPEND_TIME)
    (plain,) = chunk_of(data).next_records()
    assert plain.value == b"12"
    record = deserialized(plain, None, int)
    assert (record.offset, record.key, record.value) == (2, None, 12)
    assert (record.timestamp_type, record.leader_epoch) == (1, 3)
    with pytest.raises(SerializationError, match="offset 2") as caught:
        deserialized(plain, None, {b"": 0}.__getitem__)
    assert isinstance(caught.value.__cause__, KeyError)
