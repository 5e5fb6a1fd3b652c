"""A log in files: segments, indexes, what is flushed, and what is found again."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.kept import opened, segments_of, temporary_folder
from tests.log.test_directory import no_file_above

from kohort.broker.log import files
from kohort.broker.log.compaction import clean
from kohort.broker.log.directory import DataDir, DataDirError
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import HIGH_WATERMARK, MAX_TIMESTAMP, LogConfig
from kohort.broker.log.store import StorageError
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
DAY = 86_400_000
EVERYTHING = 10**9
LOG = "00000000000000000000.log"


class Life:
    """A partition in files, through its stops and crashes."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.config = LogConfig(**{"retention_ms": -1, **config})
        self._root = root
        self._number = 0
        self.data: DataDir
        self.partition: Partition
        self.start()

    @property
    def path(self) -> Path:
        """The partition's folder."""
        return self._root / str(self._number) / "t-0"

    def start(self, now_ms: int = NOW) -> None:
        """Opens the directory."""
        opening = opened(self.path.parent, self.config, now_ms=now_ms)
        self.data, self.partition = opening

    def stop(self) -> None:
        """A clean stop."""
        self.data.close()

    def crash(self) -> None:
        """From now on there is only what was in the files."""
        before = self.path.parent
        self._number += 1
        shutil.copytree(before, self.path.parent)
        self.data.close()

    def send(self, time: int = 0, size: int = 10, **fields: Any) -> int:
        """One record at NOW + `time`; says which error there was."""
        batch = build_batch([Record(0, NOW + time, b"k", bytes(size))], **fields)
        return self.partition.append(batch, now_ms=NOW + time).error_code

    def produce(self, sequence: int) -> tuple[int, int, bool]:
        """(Error, offset, is a duplicate) of one record of producer 5."""
        batch = build_batch(
            [Record(0, NOW, b"k", b"v")],
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
        )
        result = self.partition.append(batch, now_ms=NOW)
        return result.error_code, result.base_offset, result.is_duplicate

    def bases(self) -> list[int]:
        """The base offsets of the segments, in memory and on the disk."""
        names = sorted(file.stem for file in self.path.glob("*.log"))
        found = [
            segment.base_offset for segment in segments_of(self.partition).segments
        ]
        assert found == [int(name) for name in names]
        return found

    def offsets(self, start: int = 0) -> list[int]:
        """The base offset of every batch from `start` on."""
        return [
            records.read_header(batch).base_offset
            for batch in self.partition.batches(start)
        ]


@pytest.fixture
def live() -> Iterator[Callable[..., Life]]:
    """Begins lives, which end with the test."""
    lives: list[Life] = []
    with temporary_folder() as root:

        def begin(**config: Any) -> Life:
            lives.append(Life(Path(root) / f"life{len(lives)}", **config))
            return lives[-1]

        yield begin
        for life in lives:
            life.data.close()


def size_of(life: Life) -> int:
    """Bytes of one batch of `send`."""
    assert life.send() == 0
    return life.partition.size_in_bytes


def test_the_file_is_what_goes_over_the_wire(live: Callable[..., Life]) -> None:
    """Batches, one behind the other, and nothing else."""
    life = live()
    for _ in range(3):
        life.send()
    found = life.partition.read(0, EVERYTHING, minimum_one=True)
    assert (life.path / LOG).read_bytes() == b"".join(found.buffers)


def test_a_full_segment(live: Callable[..., Life]) -> None:
    """The next one has the next offset for its name."""
    size = size_of(live())
    life = live(segment_bytes=3 * size)
    for _ in range(7):
        life.send()
    assert life.bases() == [0, 3, 6]
    assert life.offsets() == list(range(7))


def test_a_batch_above_the_segment(live: Callable[..., Life]) -> None:
    """Kafka's answer is the one for lists of records that are too large."""
    life = live(segment_bytes=200)
    assert life.send(size=300) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert life.send(size=100) == 0


def test_an_old_segment(live: Callable[..., Life]) -> None:
    """It goes by the times of records: from its first batch to the next one."""
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
    """Four entries of the one, two of the other are all that there is room for."""
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
    """31 bits, relative to the segment: after that there is a new one."""
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
    """Kafka's rule: for the batch that comes when enough bytes lie behind an entry."""
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
    """Each is found, whatever the index knows, and with any limit."""
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
            assert sum(header.size for header in headers) == len(data)
            assert len(data) <= limit or len(headers) == 1
    assert life.offsets(7) == list(range(7, 60))
    life.send()
    assert life.partition.log_end_offset == 61


def test_little_is_read_after_a_clean_stop(
    live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the last segment, however long the log is."""
    life = live(segment_bytes=200_000)
    for number in range(1_000):
        life.send(number, size=1_000)
    life.stop()
    read = 0

    class Door:
        """The os module, which counts what is read."""

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
    assert life.partition.offset_for(MAX_TIMESTAMP).offset == 999
    assert 0 < read < 30_000


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("data", [None, b"", b"1234567", b"\xff" * 24, bytes(24)])
def test_indexes_that_are_lost(
    live: Callable[..., Life], kind: str, data: bytes | None
) -> None:
    """Missing, cut or nonsense: they are made anew from the log."""
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
        assert life.partition.offset_for(NOW + number).offset == number
    assert life.partition.offset_for(MAX_TIMESTAMP).offset == 59


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_five_batches_of_a_producer(live: Callable[..., Life], how: str) -> None:
    """They are recognised after a restart, too; Kafka would know the last one only."""
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
    """Retention takes the records; the snapshot knows the producer still.

    Kafka does so, too, as long as there is a record behind those. It forgets the
    producer at a restart where none is left, and then takes its last batch twice.
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
    """As in Kafka, they are not taken up again."""
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
def test_snapshots_that_are_lost(live: Callable[..., Life], damage: str) -> None:
    """The log has all that they said, as long as it is there."""
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
    assert life.produce(4) == (0, 4, True)
    assert life.produce(9) == (0, 9, False)


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_epochs_and_the_start_of_the_log(live: Callable[..., Life], how: str) -> None:
    """Both survive, also in a log without records behind them."""
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
    """Every batch says which one it was written in."""
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
    """After so many records, after so long, at a roll, and when it is asked for."""
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
    """Until one has a record that is young enough; the active one goes, too."""
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
    """What is left is not below the limit."""
    size = size_of(live())
    life = live(segment_bytes=3 * size, retention_bytes=4 * size)
    for _ in range(8):
        life.send()
    assert life.partition.expire(NOW) == 3 * size
    assert life.bases() == [3, 6]
    assert life.partition.expire(NOW) == 0


def test_deleting_records_takes_whole_segments(live: Callable[..., Life]) -> None:
    """Others stay, but are not read any more."""
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
    """Who reads batch by batch goes on with the first that is left."""
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


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_a_compacted_log_after_a_restart(live: Callable[..., Life], how: str) -> None:
    """What compaction left, up to where it got, and producers that it took all of."""
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


# -- damage


TAIL = 12


def tail() -> tuple[bytes, list[int]]:
    """The file of a log that was killed, and where its batches begin."""
    with temporary_folder() as root:
        life = Life(Path(root))
        ends = [0]
        for number in range(TAIL):
            life.send(size=number * 5)
            ends.append(life.partition.size_in_bytes)
        data = (life.path / LOG).read_bytes()
        life.data.close()
    return data, ends


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_at_the_end(drawn: st.DataObject) -> None:
    """All batches before it are there, none behind it, and none is invented."""
    data, ends = tail()
    cut = drawn.draw(st.integers(0, len(data)), "cut at")
    changed = bytearray(data[:cut])
    flip = drawn.draw(st.none() | st.integers(0, max(cut - 1, 0)), "flip")
    if flip is not None and changed:
        # No CRC covers the leader epoch, which recovery believes.
        start = max(end for end in ends if end <= flip)
        flip += 4 if 12 <= flip - start < 16 else 0
        flip = min(flip, cut - 1)
        if not 12 <= flip - start < 16:
            changed[flip] ^= 1 << drawn.draw(st.integers(0, 7), "bit")
            cut = min(cut, flip)
    whole = sum(end <= cut for end in ends) - 1
    with temporary_folder() as root:
        life = Life(Path(root))
        life.crash()
        (life.path / LOG).write_bytes(changed)
        life.start()
        assert life.offsets() == list(range(whole))
        assert life.partition.log_end_offset == whole
        assert (life.path / LOG).read_bytes() == data[: ends[whole]]
        assert life.send() == 0
        life.stop()
        life.start()
        assert life.offsets() == list(range(whole + 1))
        life.stop()


@pytest.mark.parametrize("how", ["cut", "batch missing", "flipped", "gone"])
@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_damage_of_what_was_flushed(
    live: Callable[..., Life], how: str, stop: str
) -> None:
    """No crash does that: the start is refused in one line, and nothing is cut."""
    life = live(flush_messages=1)
    for _ in range(5):
        life.send()
    life.data.checkpoint()
    (life.crash if stop == "crash" else life.stop)()
    file = life.path / LOG
    data = bytearray(file.read_bytes())
    size = len(data) // 5
    if how == "cut":
        del data[-5:]
    elif how == "batch missing":
        del data[-size:]
    elif how == "flipped":
        data[size + 70] ^= 1
    file.write_bytes(data)
    if how == "gone":
        file.unlink()
    if how == "flipped" and stop == "clean":
        # Nobody looks after a clean stop, and Kafka's clients check the CRC.
        life.start()
        return
    with pytest.raises(DataDirError, match="flushed") as caught:
        life.start()
    assert str(life.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    if how != "gone":
        assert file.read_bytes() == data


def test_damage_between_segments(live: Callable[..., Life]) -> None:
    """An older segment was flushed before the next one began."""
    life = live(segment_bytes=300)
    for _ in range(9):
        life.send()
    life.crash()
    with (life.path / LOG).open("r+b") as file:
        file.truncate(150)
    with pytest.raises(DataDirError, match="flushed"):
        life.start()


def test_damage_that_is_met_when_reading(live: Callable[..., Life]) -> None:
    """An error for those who read there, and nothing for the others."""
    life = live(segment_bytes=2_000, index_interval_bytes=200)
    for _ in range(60):
        life.send()
    life.stop()
    with (life.path / LOG).open("r+b") as file:
        file.seek(300)
        file.write(bytes(100))
    life.start()
    read = life.partition.read
    codes = {
        offset: read(offset, 150, minimum_one=True).error_code for offset in range(60)
    }
    assert set(codes.values()) == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
    assert codes[0] == codes[1] == codes[59] == ErrorCode.NONE
    assert codes[4] == ErrorCode.KAFKA_STORAGE_ERROR
    assert life.partition.offset_for(NOW).error_code == ErrorCode.NONE
    assert life.send() == 0
    with pytest.raises(StorageError, match="damaged"):
        life.offsets()


@pytest.mark.parametrize(
    ("position", "data"), [(0, b"\xff"), (8, b"\x7f"), (16, b"\1"), (23, b"\xff")]
)
def test_damaged_headers_end_a_reading(
    live: Callable[..., Life], position: int, data: bytes
) -> None:
    """Whoever reads all gets an error, not the same batches for ever."""
    life = live()
    for _ in range(4):
        life.send()
    with (life.path / LOG).open("r+b") as file:
        file.seek(life.partition.size_in_bytes // 4 + position)
        file.write(data)
    with pytest.raises(StorageError, match="damaged"):
        life.offsets()


# -- no room


def test_a_full_disk(live: Callable[..., Life], capsys: Any) -> None:
    """KAFKA_STORAGE_ERROR, a whole log, one line; and it works when there is room."""
    life = live()
    for _ in range(3):
        life.send()
    size = life.partition.size_in_bytes
    with no_file_above(size + 40):
        for _ in range(4):
            assert life.send() == ErrorCode.KAFKA_STORAGE_ERROR
            assert (life.path / LOG).stat().st_size == size
        batch = build_batch([Record(0, NOW, b"k", b"v")])
        with pytest.raises(StorageError, match=LOG):
            life.partition.append_own(batch, now_ms=NOW)
    assert life.partition.log_end_offset == 3
    assert life.partition.size_in_bytes == size
    assert life.offsets() == [0, 1, 2]
    assert capsys.readouterr().err.count("log_write_failed") == 1
    assert life.produce(0) == (0, 3, False)
    life.crash()
    life.start()
    assert life.offsets() == [0, 1, 2, 3]
    assert life.produce(0) == (0, 3, True)


def test_a_full_disk_leaves_producers_as_they_were(live: Callable[..., Life]) -> None:
    """A batch that was not written is new when it comes again."""
    life = live()
    life.produce(0)
    with no_file_above(life.partition.size_in_bytes):
        assert life.produce(1)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert life.produce(1) == (0, 1, False)


def test_no_room_for_a_new_segment(live: Callable[..., Life]) -> None:
    """The old one stays the active one until there is."""
    life = live(segment_bytes=200)
    life.produce(0)
    life.produce(1)
    with no_file_above(1):
        assert life.produce(2)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert life.bases() == [0]
    assert life.produce(2) == (0, 2, False)
    assert life.bases() == [0, 2]
    life.crash()
    life.start()
    assert life.produce(1) == (0, 1, True)


@pytest.mark.parametrize("name", ["fdatasync", "ftruncate", "pwrite"])
def test_an_error_of_the_disk(
    live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What could not be flushed was not appended; nothing else is affected."""
    life = live(flush_messages=1)
    life.produce(0)

    class Door:
        """The os module, with one call that fails."""

        def __getattr__(self, wanted: str) -> Any:
            return fail if wanted in {name, "fdatasync"} else getattr(os, wanted)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Door())
        assert life.produce(1)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert life.partition.log_end_offset == 1
    assert life.offsets() == [0]
    assert life.produce(1) == (0, 1, False)
    life.crash()
    life.start()
    assert life.offsets() == [0, 1]
