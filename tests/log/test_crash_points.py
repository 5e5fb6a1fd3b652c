"""Starts from every state of the disk, between and during any two system calls.

A replacement of the os module copies the directory before and after each call that
changes it, and after half of each write.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.log.storage import opened, segments_of, temporary_folder

from kohort.broker.log import files
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import HIGH_WATERMARK
from kohort.broker.log.settings import LogConfig
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
NEVER = 2**63 - 1


class Door:
    """The os module, with a look at the disk around every change."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in {"replace", "unlink", "ftruncate", "makedirs", "rmdir", "open"}:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._look()
            result = found(*args, **kwargs)
            self._look()
            return result

        return call

    def pwrite(self, fd: int, data: bytes, position: int) -> int:
        """The system may have written half of it when the power fails."""
        self._look()
        os.pwrite(fd, data[: len(data) // 2], position)
        self._look()
        written = os.pwrite(fd, data, position)
        self._look()
        return written

    def pwritev(self, fd: int, parts: tuple[bytes, ...], position: int) -> int:
        """The same as `pwrite`."""
        return self.pwrite(fd, b"".join(parts), position)


class Story:
    """A partition, its acknowledged records, and every state of its directory.

    Attributes:
        acknowledged: values by offset.
        sent: the value of a pending append, if any.
        start: the latest possible start of the log.
    """

    def __init__(self, root: Path, config: LogConfig) -> None:
        self.config = config
        self.path = root / "live"
        self._copy = root / "copy"
        self.folder, self.partition = opened(self.path, config)
        self.acknowledged: dict[int, tuple[bytes, bytes]] = {}
        self.sent: tuple[bytes, bytes] | None = None
        self.start = 0
        self.looks = 0

    @contextmanager
    def watched(self, check: Callable[[Partition], None]) -> Iterator[None]:
        """Within it, each state of the disk is copied, opened and checked."""

        def look() -> None:
            self.looks += 1
            # Calls on the copy are not watched.
            with pytest.MonkeyPatch.context() as unwatched:
                unwatched.setattr(files, "os", os)
                shutil.copytree(self.path, self._copy)
                folder, partition = opened(self._copy, self.config)
                check(partition)
                folder.close()
                shutil.rmtree(self._copy)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "os", Door(look))
            yield

    def append(self, key: bytes, value: bytes, **fields: Any) -> None:
        """Appends one record, which is acknowledged when this returns."""
        self.sent = (key, value)
        batch = build_batch([Record(0, NOW, key, value)], **fields)
        result = self.partition.append(batch, now_ms=NOW)
        assert not result.error_code
        self.acknowledged[result.base_offset] = self.sent
        self.sent = None

    def found(self, partition: Partition) -> dict[int, tuple[bytes, bytes]]:
        """All records of a partition by offset."""
        return {
            record.offset: (record.key or b"", record.value or b"")
            for batch in partition.batches(partition.log_start_offset)
            for record in records.read_records(batch)
        }

    def nothing_is_lost(self, partition: Partition) -> None:
        """Acknowledged records exist, and no record that was never sent."""
        found = self.found(partition)
        must = {o: v for o, v in self.acknowledged.items() if o >= self.start}
        assert must.items() <= found.items()
        end = len(self.acknowledged)
        may = dict(self.acknowledged)
        if self.sent is not None:
            may[end] = self.sent
        assert found.items() <= may.items()
        assert partition.log_end_offset in {end, end + (self.sent is not None)}
        assert partition.log_start_offset <= self.start


@pytest.fixture
def story() -> Iterator[Callable[..., Story]]:
    """Begins a story; its directory is removed at the end of the test."""
    begun: list[Story] = []
    with temporary_folder() as root:

        def begin(**config: Any) -> Story:
            made = Story(Path(root), LogConfig(**config))
            begun.append(made)
            return made

        yield begin
        for each in begun:
            each.folder.close()


@pytest.mark.parametrize("flush_messages", [1, NEVER])
def test_appends_and_rolls(story: Callable[..., Story], flush_messages: int) -> None:
    """Each batch exists from its acknowledgement on, also when segments roll."""
    told = story(
        segment_bytes=200, index_interval_bytes=50, flush_messages=flush_messages
    )
    with told.watched(told.nothing_is_lost):
        for number in range(8):
            told.append(b"k", b"%d" % number)
    assert len(segments_of(told.partition).segments) > 2
    assert told.looks > 50


def test_producers_and_rolls(story: Callable[..., Story]) -> None:
    """A batch that is sent again after a crash never exists twice."""
    told = story(segment_bytes=200)
    sequence = 0

    def send_again(partition: Partition) -> None:
        told.nothing_is_lost(partition)
        for number in range(max(sequence - 4, 0), sequence + 1):
            batch = build_batch(
                [Record(0, NOW, b"k", b"%d" % number)],
                producer_id=9,
                producer_epoch=0,
                base_sequence=number,
            )
            result = partition.append(batch, now_ms=NOW)
            assert (result.error_code, result.base_offset) == (0, number)
        assert partition.log_end_offset == sequence + 1

    with told.watched(send_again):
        for sequence in range(8):
            told.append(
                b"k",
                b"%d" % sequence,
                producer_id=9,
                producer_epoch=0,
                base_sequence=sequence,
            )


def test_deleting(story: Callable[..., Story]) -> None:
    """DeleteRecords and retention delete only their part of the log."""
    told = story(segment_bytes=200, retention_bytes=300)
    for number in range(12):
        told.append(b"k", b"%d" % number)
    with told.watched(told.nothing_is_lost):
        told.start = 4
        assert told.partition.delete_records(4)[0] == 0
        told.start = 8
        assert told.partition.expire(NOW) > 0
        told.start = told.partition.log_start_offset
        assert told.start <= 8
        told.start = 12
        assert told.partition.delete_records(HIGH_WATERMARK) == (0, 12)


def test_a_clean_stop(story: Callable[..., Story]) -> None:
    """A clean stop may be interrupted, too."""
    told = story(segment_bytes=300)
    for number in range(7):
        told.append(b"k", b"x", producer_id=3, producer_epoch=0, base_sequence=number)
    with told.watched(told.nothing_is_lost):
        told.folder.close()


def values(found: dict[int, tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The last value of each key; an empty one is a tombstone."""
    last = dict(pair for _, pair in sorted(found.items()))
    return {key: value for key, value in last.items() if value}


def test_compaction(story: Callable[..., Story]) -> None:
    """At any moment every key has its last value, and no deleted key comes back."""
    told = story(segment_bytes=500, index_interval_bytes=50)
    for number in range(24):
        # One key is written early, deleted later, and its tombstone expires.
        key = b"gone" if number in {1, 15} else b"%d" % (number % 3)
        told.append(key, b"" if number == 15 else b"%d" % number)
    store = segments_of(told.partition)
    end = store.cleanable_end(0, NOW, 0)
    latest = values(told.acknowledged)
    kept = {key: offset for offset, (key, _) in told.acknowledged.items()}
    del kept[b"gone"]

    def last_values_are_there(partition: Partition) -> None:
        found = told.found(partition)
        assert values(found) == latest
        assert partition.log_end_offset == 24
        assert partition.log_start_offset == 0

    def compact() -> None:
        replacement = store.replacement(end)
        for batch in list(store.batches(0, end)):
            record = next(records.read_records(batch))
            if record.offset in kept.values() or record.offset == end - 1:
                replacement.add(batch)
        replacement.commit()

    with told.watched(last_values_are_there):
        compact()
        before = len(store.segments)
        # The rest of several segments now fits into one.
        compact()
    assert len(store.segments) < before
    names = {segment.log.path.name for segment in store.segments}
    assert {path.name for path in told.path.glob("t-0/*.log")} == names
    last_values_are_there(told.partition)
    assert len(told.found(told.partition)) < 8
    assert not [p for p in told.path.glob("t-0/*") if p.suffix in {".swap", ".cleaned"}]


def test_compaction_is_given_up(story: Callable[..., Story]) -> None:
    """Its output so far changes nothing."""
    told = story(segment_bytes=300)
    for number in range(12):
        told.append(b"k", b"%d" % number)
    store = segments_of(told.partition)
    end = store.cleanable_end(0, NOW, 0)
    with told.watched(told.nothing_is_lost):
        replacement = store.replacement(end)
        replacement.add(next(store.batches(end - 1, end)))
        replacement.abort()
    assert told.found(told.partition) == told.acknowledged
