"""Damaged log files and full disks: what is detected, and what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.life import LOG, NOW, Life
from tests.log.storage import temporary_folder
from tests.log.test_directory import no_file_above

from kohort.broker.log import files
from kohort.broker.log.checkpoints import CLEAN_SHUTDOWN
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import HIGH_WATERMARK, FoundOffset
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.long_work import finish
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

# -- damage


TAIL = 12


def tail() -> tuple[bytes, list[int]]:
    """The file of a killed log, and the start positions of its batches."""
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
    """All batches before it exist, none after it, and none is invented."""
    data, ends = tail()
    cut = drawn.draw(st.integers(0, len(data)), "cut at")
    changed = bytearray(data[:cut])
    flip = drawn.draw(st.none() | st.integers(0, max(cut - 1, 0)), "flip")
    if flip is not None and changed:
        # No CRC covers the leader epoch, which recovery trusts.
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
        # After a clean stop nothing is checked, and Kafka's clients check the CRC.
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
    """Reads of the damaged part fail, others do not."""
    life = live(segment_bytes=2_000, index_interval_bytes=200)
    for number in range(60):
        life.send(number)
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
    assert finish(find_offset(life.partition, NOW)).error_code == ErrorCode.NONE
    unreadable = FoundOffset(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert finish(find_offset(life.partition, NOW + 4)) == unreadable
    assert life.send() == 0
    with pytest.raises(StorageError, match="damaged"):
        life.offsets()


@pytest.mark.parametrize(
    ("position", "data"), [(0, b"\xff"), (8, b"\x7f"), (16, b"\1"), (23, b"\xff")]
)
def test_damaged_headers_end_a_reading(
    live: Callable[..., Life], position: int, data: bytes
) -> None:
    """A reader of all batches gets an error, not the same batches forever."""
    life = live()
    for _ in range(4):
        life.send()
    with (life.path / LOG).open("r+b") as file:
        file.seek(life.partition.size_in_bytes // 4 + position)
        file.write(data)
    with pytest.raises(StorageError, match="damaged"):
        life.offsets()


# -- full disks


def test_a_full_disk(live: Callable[..., Life], capsys: Any) -> None:
    """KAFKA_STORAGE_ERROR, an intact log, one log line; with room it works again."""
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
    """A batch that was not written is new when it is sent again."""
    life = live()
    life.produce(0)
    with no_file_above(life.partition.size_in_bytes):
        assert life.produce(1)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert life.produce(1) == (0, 1, False)


def test_no_room_for_a_new_segment(live: Callable[..., Life]) -> None:
    """The old one stays active until there is room."""
    life = live(segment_bytes=200)
    life.produce(0)
    life.produce(1)
    with no_file_above(1):
        assert life.produce(2)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        refused = life.partition.delete_records(HIGH_WATERMARK)
        assert refused == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert (life.bases(), life.partition.log_start_offset) == ([0], 0)
    assert life.produce(2) == (0, 2, False)
    assert life.bases() == [0, 2]
    life.crash()
    life.start()
    assert life.produce(1) == (0, 1, True)


@pytest.mark.parametrize(
    "failing",
    [
        ("fdatasync",),
        ("fdatasync", "ftruncate"),
        ("fdatasync", "pwrite"),
        ("pwrite", "ftruncate"),
    ],
    ids=" ".join,
)
def test_an_error_of_the_disk(
    live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    """A batch that failed to be written or flushed was not appended; others are."""
    life = live(flush_messages=1)
    life.produce(0)

    class Door:
        """The os module, with failing calls."""

        def __getattr__(self, name: str) -> Any:
            return fail if name in failing else getattr(os, name)

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


def test_a_partition_that_cannot_be_closed(
    live: Callable[..., Life],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One log line names it; the stop is not clean, so the next start recovers."""
    life = live()
    life.send()
    failures = iter([OSError(5, "Input/output error")])

    class Door:
        """The os module, whose first flush fails."""

        def __getattr__(self, name: str) -> Any:
            return flush if name == "fdatasync" else getattr(os, name)

    def flush(descriptor: int) -> None:
        for error in failures:
            raise error
        os.fdatasync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Door())
        life.stop()
    said = capsys.readouterr().err
    assert said.count("log_close_failed") == 1
    assert '"partition": "t-0"' in said
    assert not (life.path.parent / CLEAN_SHUTDOWN).exists()
    life.start()
    assert life.offsets() == [0]
