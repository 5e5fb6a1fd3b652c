"""A log in files: segments, indexes, flushes, and recovery."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any

import pytest
from tests.log.life import DAY, EVERYTHING, LOG, NOW, Life
from tests.log.storage import segments_of

from kohort.broker.log import files
from kohort.broker.log.compaction import clean
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import HIGH_WATERMARK, MAX_TIMESTAMP
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch


def size_of(life: Life) -> int:
    """Bytes of one batch of `send`."""
    assert life.send() == 0
    return life.partition.size_in_bytes


def test_the_file_is_what_goes_over_the_wire(live: Callable[..., Life]) -> None:
    """Consecutive batches, and nothing else."""
    life = live()
    for _ in range(3):
        life.send()
    found = life.partition.read(0, EVERYTHING, minimum_one=True)
    assert (life.path / LOG).read_bytes() == b"".join(found.buffers)


def test_a_full_segment(live: Callable[..., Life]) -> None:
    """The next segment is named after the next offset."""
    size = size_of(live())
    life = live(segment_bytes=3 * size)
    for _ in range(7):
        life.send()
    assert life.bases() == [0, 3, 6]
    assert life.offsets() == list(range(7))


def test_a_batch_above_the_segment(live: Callable[..., Life]) -> None:
    """Kafka's error is RECORD_LIST_TOO_LARGE."""
    life = live(segment_bytes=200)
    assert life.send(size=300) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert life.send(size=100) == 0


def test_an_old_segment(live: Callable[..., Life]) -> None:
    """Times of records decide: from its first batch to the next one."""
    life = live(segment_ms=1_000)
    for time in (0, 500, 1_000, 1_001, 1_500, 200, 2_002):
        life.send(time)
    assert life.bases() == [0, 3, 6]
    life.stop()
    life.start()
    life.send(3_002)
    assert life.bases() == [0, 3, 6]
    life.send(3_003)
    assert life.bases() == [0, 3, 6, 8]


def test_segments_of_compacted_topics(live: Callable[..., Life]) -> None:
    """They are rolled in time for max.compaction.lag.ms."""
    life = live(cleanup_policy="compact", max_compaction_lag_ms=100)
    for time in (0, 100, 101):
        life.send(time)
    assert life.bases() == [0, 2]


def test_a_full_index(live: Callable[..., Life]) -> None:
    """There is room for four entries of one index, two of the other."""
    life = live(segment_index_bytes=39, index_interval_bytes=0)
    for _ in range(9):
        life.send()
    assert life.bases() == [0, 5]
    assert (life.path / "00000000000000000000.index").stat().st_size == 32
    for time in range(1, 6):
        life.send(time)
    assert life.bases() == [0, 5, 10, 13]
    assert (life.path / "00000000000000000010.timeindex").stat().st_size == 24


def test_offsets_that_an_index_cannot_hold(live: Callable[..., Life]) -> None:
    """31 bits, relative to the segment: beyond that a new one begins."""
    life = live()
    life.send()
    store = segments_of(life.partition)
    batch = bytearray(build_batch([Record(0, NOW, b"k", b"v")]))
    for offset in (2**31 - 1, 2**31):
        struct.pack_into(">q", batch, 0, offset)
        store.append(bytes(batch), offset, offset, NOW, NOW)
    assert life.bases() == [0, 2**31]
    buffers, _ = store.read(2**31 - 1, 0, minimum_one=True)
    assert records.read_header(buffers[0]).base_offset == 2**31 - 1


def test_entries_of_the_indexes(live: Callable[..., Life]) -> None:
    """Kafka's rule: for the batch that comes when enough bytes follow an entry."""
    size = size_of(live())
    life = live(index_interval_bytes=2 * size)
    for time in (0, 50, 20, 40, 10, 60, 30, 20):
        life.send(time)
    life.stop()
    index = (life.path / "00000000000000000000.index").read_bytes()
    assert list(struct.iter_unpack(">ii", index)) == [(3, 3 * size), (6, 6 * size)]
    times = (life.path / "00000000000000000000.timeindex").read_bytes()
    assert [
        (time - NOW, offset) for time, offset in struct.iter_unpack(">qi", times)
    ] == [
        (50, 1),
        (60, 5),
    ]


@pytest.mark.parametrize("how", ["clean", "crash"])
@pytest.mark.parametrize("interval", [0, 300, 4_096])
def test_every_offset_after_a_restart(
    live: Callable[..., Life], how: str, interval: int
) -> None:
    """Each is found, whatever the index has, and with any limit."""
    life = live(segment_bytes=2_000, index_interval_bytes=interval)
    for _ in range(60):
        life.send()
    (life.crash if how == "crash" else life.stop)()
    life.start()
    assert len(life.bases()) > 2
    for offset in range(60):
        for limit in (0, 100, 500, 3_000):
            found = life.partition.read(offset, limit, minimum_one=True)
            data = b"".join(found.buffers)
            headers = [header for header, _ in records.read_headers(data)]
            assert headers[0].base_offset == offset
            end = life.partition.readable(offset)
            assert len(data) == min(end, max(limit, headers[0].size))
    assert life.offsets(7) == list(range(7, 60))
    life.send()
    assert life.partition.log_end_offset == 61


def test_little_is_read_after_a_clean_stop(
    live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the end of the last segment, however long the log is."""
    life = live(segment_bytes=200_000)
    for number in range(1_000):
        life.send(number, size=1_000)
    life.stop()
    read = 0

    class Door:
        """The os module, which counts the bytes read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def pread(self, fd: int, size: int, position: int) -> bytes:
            """Counts."""
            nonlocal read
            data = os.pread(fd, size, position)
            read += len(data)
            return data

    monkeypatch.setattr(files, "os", Door())
    life.start()
    assert life.partition.log_end_offset == 1_000
    assert finish(find_offset(life.partition, MAX_TIMESTAMP)).offset == 999
    assert 0 < read < 30_000


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("data", [None, b"", b"1234567", b"\xff" * 24, bytes(24)])
def test_indexes_that_are_lost(
    live: Callable[..., Life], kind: str, data: bytes | None
) -> None:
    """Missing, cut or invalid ones are rebuilt from the log."""
    life = live(segment_bytes=2_000, index_interval_bytes=200)
    for number in range(60):
        life.send(number)
    life.stop()
    for index in life.path.glob(f"*.{kind}"):
        index.unlink()
        if data is not None:
            index.write_bytes(data)
    life.start()
    assert life.offsets() == list(range(60))
    for number in range(60):
        assert finish(find_offset(life.partition, NOW + number)).offset == number
    assert finish(find_offset(life.partition, MAX_TIMESTAMP)).offset == 59


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_five_batches_of_a_producer(live: Callable[..., Life], how: str) -> None:
    """They are recognised after a restart, too; Kafka would know only the last one."""
    life = live(segment_bytes=300)
    for sequence in range(7):
        assert life.produce(sequence) == (0, sequence, False)
    (life.crash if how == "crash" else life.stop)()
    life.start()
    for sequence in range(2, 7):
        assert life.produce(sequence) == (0, sequence, True)
    refused = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert life.produce(1)[0] == life.produce(8)[0] == refused
    assert life.produce(7) == (0, 7, False)


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("how", ["clean", "crash"])
def test_a_producer_whose_records_are_gone(
    live: Callable[..., Life], how: str, behind: int
) -> None:
    """Retention deletes the records; the snapshot still has the producer.

    So does Kafka, as long as a later record exists. Otherwise it forgets the producer
    at a restart, and then accepts its last batch twice.
    """
    life = live(segment_bytes=300)
    for sequence in range(7):
        life.produce(sequence)
    life.partition.delete_records(HIGH_WATERMARK)
    for _ in range(behind):
        life.send()
    (life.crash if how == "crash" else life.stop)()
    life.start()
    assert life.produce(6) == (0, 6, True)
    assert life.produce(7) == (0, 7 + behind, False)


def test_producers_that_expire_while_it_is_down(live: Callable[..., Life]) -> None:
    """As in Kafka, they are not restored."""
    life = live(producer_id_expiration_ms=1_000)
    life.produce(0)
    life.stop()
    life.start(NOW + 999)
    assert len(life.partition.producers) == 1
    life.stop()
    life.start(NOW + 1_000)
    assert len(life.partition.producers) == 0
    assert life.produce(9) == (0, 1, False)


@pytest.mark.parametrize("damage", ["missing", "empty", "another byte", "version"])
def test_snapshots_that_are_lost(
    live: Callable[..., Life], damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has the same information, as long as it exists; a log line tells."""
    life = live(segment_bytes=300)
    for sequence in range(9):
        life.produce(sequence)
    life.stop()
    for snapshot in life.path.glob("*.snapshot"):
        data = bytearray(snapshot.read_bytes())
        if damage == "another byte":
            data[-1] ^= 1
        elif damage == "version":
            data[1] = 9
        snapshot.unlink()
        if damage != "missing":
            snapshot.write_bytes(b"" if damage == "empty" else data)
    life.start()
    assert ("snapshot_not_used" in capsys.readouterr().err) == (damage != "missing")
    assert life.produce(4) == (0, 4, True)
    assert life.produce(9) == (0, 9, False)


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_epochs_and_the_start_of_the_log(live: Callable[..., Life], how: str) -> None:
    """Both survive, also in a log without later records."""
    life = live()
    for _ in range(4):
        life.send()
    life.partition.begin_epoch(3)
    life.send()
    life.partition.begin_epoch(4)
    life.partition.delete_records(2)
    (life.crash if how == "crash" else life.stop)()
    life.start()
    assert life.partition.log_start_offset == 2
    assert life.partition.epochs.entries == ((0, 2), (3, 4), (4, 5))
    assert life.partition.leader_epoch == 4


def test_epochs_that_are_lost(live: Callable[..., Life]) -> None:
    """Every batch has its epoch."""
    life = live(segment_bytes=300)
    for epoch in (0, 2, 5):
        life.partition.begin_epoch(epoch)
        for _ in range(4):
            life.send()
    life.stop()
    (life.path / "leader-epoch-checkpoint").write_text("0\n7\n")
    life.start()
    assert life.partition.epochs.entries == ((0, 0), (2, 4), (5, 8))


def test_when_it_is_flushed(live: Callable[..., Life]) -> None:
    """After some records, after some time, at a roll, and on request."""
    size = size_of(live())
    life = live(flush_messages=3, segment_bytes=8 * size)
    store = segments_of(life.partition)
    points = []
    for _ in range(9):
        life.send()
        points.append(store.recovery_point)
    assert points == [0, 0, 3, 3, 3, 6, 6, 6, 8]
    life = live(flush_ms=100)
    store = segments_of(life.partition)
    for time in (0, 99, 100, 101, 199):
        life.send(time)
    assert store.recovery_point == 3
    life.data.flush(NOW + 200)
    assert store.recovery_point == 3
    life.data.flush(NOW + 201)
    assert store.recovery_point == 5
    life = live(segment_bytes=2 * size)
    store = segments_of(life.partition)
    for _ in range(3):
        life.send()
    assert store.recovery_point == 2
    life.partition.flush()
    assert store.recovery_point == 3


# -- retention


def test_retention_takes_whole_segments(live: Callable[..., Life]) -> None:
    """Until one has a record that is young enough; even the active one."""
    size = size_of(live())
    life = live(segment_bytes=2 * size, retention_ms=1_000)
    for time in (0, 10, 5, 500, 30, 20, 40):
        life.send(time)
    assert life.partition.expire(NOW + 1_010) == 0
    assert life.partition.expire(NOW + 1_011) == 2 * size
    assert life.bases() == [2, 4, 6]
    assert life.partition.log_start_offset == 2
    assert life.partition.expire(NOW + 1_500) == 0
    assert life.partition.expire(NOW + 1_501) == 5 * size
    assert life.bases() == [7]
    assert life.partition.log_start_offset == life.partition.log_end_offset == 7
    life.crash()
    life.start()
    assert life.partition.log_start_offset == life.partition.log_end_offset == 7


def test_retention_by_size_takes_whole_segments(live: Callable[..., Life]) -> None:
    """The rest is not below the limit."""
    size = size_of(live())
    life = live(segment_bytes=3 * size, retention_bytes=4 * size)
    for _ in range(8):
        life.send()
    assert life.partition.expire(NOW) == 3 * size
    assert life.bases() == [3, 6]
    assert life.partition.expire(NOW) == 0


def test_deleting_records_takes_whole_segments(live: Callable[..., Life]) -> None:
    """The others stay, but are not read any more."""
    size = size_of(live())
    life = live(segment_bytes=3 * size)
    for _ in range(8):
        life.send()
    assert life.partition.delete_records(5) == (0, 5)
    assert life.bases() == [3, 6]
    assert life.offsets(5) == [5, 6, 7]
    read = life.partition.read(4, EVERYTHING, minimum_one=True)
    assert read.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_goes_on_while_segments_are_deleted(live: Callable[..., Life]) -> None:
    """A reader batch by batch continues with the first remaining one."""
    life = live(segment_bytes=100_000)
    for _ in range(40):
        life.send(size=10_000)
    batches = life.partition.batches(0)
    first = [records.read_header(next(batches)).base_offset for _ in range(3)]
    assert first == [0, 1, 2]
    life.partition.delete_records(38)
    left = [records.read_header(batch).base_offset for batch in batches]
    assert left[-2:] == [38, 39]
    assert left == sorted(left)


def test_young_segments_are_not_cleaned(live: Callable[..., Life]) -> None:
    """min.compaction.lag.ms: the first segment with a younger record ends the part."""
    size = size_of(live())
    life = live(
        segment_bytes=2 * size,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.0,
        min_compaction_lag_ms=1_000,
    )
    for time in (0, 0, 0, 1, 0, 0, 0):
        life.send(time)
    for late, left in ((1_000, [1, 2, 3, 4, 5, 6]), (1_001, [5, 6])):
        for _ in clean(life.partition, NOW + late):
            pass
        assert life.offsets() == left


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_a_compacted_log_after_a_restart(live: Callable[..., Life], how: str) -> None:
    """The compacted log, its clean end, and producers without remaining records."""
    life = live(
        segment_bytes=1_000, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0
    )
    for sequence in range(3):
        life.produce(sequence)
    for _ in range(40):
        life.send()
    for _ in clean(life.partition, NOW + DAY):
        pass
    left = life.offsets()
    dirty = segments_of(life.partition).first_dirty_offset
    assert len(left) < 20
    assert dirty > 20
    life.data.checkpoint()
    (life.crash if how == "crash" else life.stop)()
    life.start()
    assert life.offsets() == left
    assert segments_of(life.partition).first_dirty_offset == dirty
    for offset in range(43):
        buffers, _ = life.partition.store.read(offset, 0, minimum_one=True)
        found = records.read_header(b"".join(buffers)).base_offset
        assert found == min(each for each in left if each >= offset)
    assert life.partition.log_start_offset == 0
    assert life.produce(2) == (0, 2, True)
    assert life.produce(3) == (0, 43, False)
