"""What Fetch brings, read record by record: transactions, checksums, gaps."""

from __future__ import annotations

import struct

import pytest

from kohort.client.consumed import Chunk, corrupt, deserialized
from kohort.client.errors import SerializationError
from kohort.client.offsets import TopicPartition
from kohort.client.partition import Partition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.records import (
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Record,
    build_batch,
)

PLACE = TopicPartition("t", 0)


def batch(offset: int, *values: str, producer: int = -1, flags: int = 0) -> bytes:
    """A batch of a producer; of a transaction where it has one."""
    if producer >= 0:
        flags |= TRANSACTIONAL
    records = [Record(0, 5, None, value.encode()) for value in values]
    return build_batch(
        records,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        attributes=flags,
        partition_leader_epoch=3,
    )


def marker(offset: int, producer: int, *, commits: bool) -> bytes:
    """The control batch that ends a transaction."""
    return build_batch(
        [Record(0, 5, struct.pack(">hh", 0, int(commits)), b"")],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read(chunk: Chunk) -> list[tuple[int, str]]:
    """Offsets and values, to the end."""
    found = []
    while some := chunk.some():
        found += [(record.offset, record.value.decode()) for record in some]
    return found


def chunk_of(
    data: bytes, start: int = 0, *aborted: tuple[int, int], is_checked: bool = True
) -> Chunk:
    """What a fetch of these batches brings."""
    return Chunk(PLACE, data, start, aborted, is_checked=is_checked)


def test_aborted_transactions_are_left_out() -> None:
    """Those of one producer, up to its marker; its next transaction counts."""
    data = b"".join(
        [
            batch(0, "plain"),
            batch(1, "lost", "too", producer=7),
            batch(3, "kept", producer=8),
            marker(4, 7, commits=False),
            batch(5, "again", producer=7),
            marker(6, 7, commits=True),
            marker(7, 8, commits=True),
        ]
    )
    chunk = chunk_of(data, 0, (1, 7))
    assert read(chunk) == [(0, "plain"), (3, "kept"), (5, "again")]
    assert chunk.end == 8
    # Who reads uncommitted is not told of any, and gets all but the markers.
    assert [n for n, _ in read(chunk_of(data))] == [0, 1, 2, 3, 5]


def test_records_before_the_position_and_cut_off_batches_are_left_out() -> None:
    """Brokers send whole batches, and sometimes part of a last one."""
    data = batch(10, "a", "b", "c") + batch(13, "d")
    chunk = chunk_of(data[:-1], 11)
    assert read(chunk) == [(11, "b"), (12, "c")]
    assert chunk.end == 13


def test_a_position_goes_past_what_is_no_record() -> None:
    """Markers, and nothing behind them: the next fetch asks for what follows."""
    partition = Partition(PLACE, is_held=False)
    partition.seek(4)
    partition.add(chunk_of(marker(4, 7, commits=True), 4))
    assert not partition.ahead()
    assert (partition.position, partition.fetch_offset) == (5, 5)


@pytest.mark.parametrize("is_checked", [True, False])
def test_checksums(is_checked: bool) -> None:
    """A damaged batch is an error that names the partition, if they are checked."""
    data = bytearray(batch(0, "good") + batch(1, "bad?"))
    data[-2] ^= 1
    partition = Partition(PLACE, is_held=False)
    partition.seek(0)
    partition.add(chunk_of(bytes(data), is_checked=is_checked))
    assert partition.ahead()
    (first,) = partition.rows
    partition.at = 1
    partition.given(first)
    assert (partition.position, partition.epoch) == (1, 3)
    if is_checked:
        error = corrupt(PLACE, WireError("x"), retriable=False)
        for _ in range(2):
            with pytest.raises(type(error), match="partition 0") as caught:
                partition.ahead()
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
            assert not caught.value.retriable
        assert partition.position == 1, "nothing is skipped"
    else:
        assert partition.ahead()


def test_bytes_that_are_no_batches() -> None:
    """They are refused before anything of them is given out."""
    with pytest.raises(WireError):
        chunk_of(b"\xff" * 70)


def test_a_record_for_the_application() -> None:
    """Deserialized, with its timestamp's type and its leader's epoch."""
    data = batch(2, "12", flags=LOG_APPEND_TIME)
    (plain,) = chunk_of(data).some()
    assert plain.value == b"12"
    record = deserialized(plain, None, int)
    assert (record.offset, record.key, record.value) == (2, None, 12)
    assert (record.timestamp_type, record.leader_epoch) == (1, 3)
    with pytest.raises(SerializationError, match="offset 2") as caught:
        deserialized(plain, None, {b"": 0}.__getitem__)
    assert isinstance(caught.value.__cause__, KeyError)
