"""One segment: a file of batches, its two indexes, and that of aborted transactions.

Batches in the file have the wire format. Their offsets ascend, with gaps where
compaction has removed records.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from kohort.broker.log import files
from kohort.broker.log.aborted import AbortedIndex
from kohort.broker.log.files import Files, LogFile
from kohort.broker.log.index import (
    OFFSET,
    OFFSET_ENTRY,
    TIME,
    TIME_ENTRY,
    SegmentIndex,
)
from kohort.broker.log.store import StorageError, Stored
from kohort.protocol import records
from kohort.protocol.records import BatchHeader

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)
"""Files beside the log; the last one need not exist."""

MOST_RELATIVE: Final = 2**31 - 1
"""Indexes have 31 bits for an offset within the segment."""

CHUNK: Final = 256 * 1024
"""Bytes per read when the whole segment is read."""

_NEAR = 8 * 1024  # more than the default distance between two index entries
_INTERVAL = 4096  # of a rebuilt index

_OUTLINE = records.OUTLINE.unpack_from
_NEEDED = records.OUTLINE.size
_MARKED = (
    "size",
    "next_offset",
    "max_timestamp",
    "max_timestamp_at",
    "first_timestamp",
    "_since_entry",
    "_tail",
    "_wanted",
)
_SMALLEST = records.HEADER_SIZE - records.LOG_OVERHEAD


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file, as in Kafka."""
    return f"{base_offset:020d}{suffix}"


def is_segment(name: str) -> bool:
    """Returns whether a file is a segment of batches, by its name."""
    stem = name.removesuffix(LOG)
    return stem != name and stem.isdigit() and len(stem) == 20


class Place(NamedTuple):
    """The place of a batch in the file."""

    position: int
    size: int
    first_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """A segment of a partition's log.

    Attributes:
        base_offset: its name; at most its first offset.
        folder: the folder of its files.
        log: the file of batches.
        size: bytes of its batches.
        next_offset: the offset behind its last batch; base_offset if it has none; -1
            before it is first read.
        max_timestamp: the largest; -1 without any.
        max_timestamp_at: the last offset of the first batch that has it.
        first_timestamp: the largest of the first batch, which decides when the segment
            is rolled; -1 before it is first read.
        written_ms: time of the last write.
        aborted: the transactions whose abort markers it has.
    """

    __slots__ = (
        "_files",
        "_index",
        "_since_entry",
        "_tail",
        "_wanted",
        "aborted",
        "base_offset",
        "first_timestamp",
        "folder",
        "log",
        "max_timestamp",
        "max_timestamp_at",
        "next_offset",
        "size",
        "written_ms",
    )

    def __init__(
        self, folder: Path, base_offset: int, open_files: Files, suffix: str = ""
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        path = folder / (file_name(base_offset, LOG) + suffix)
        self.log = LogFile(path, open_files)
        self.size = 0
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.max_timestamp_at = base_offset
        self.first_timestamp = -1
        self.written_ms = -1
        self.aborted = AbortedIndex()
        self._files = open_files
        self._index: SegmentIndex | None = SegmentIndex(base_offset)
        self._since_entry = 0
        # (offset, position) of the last batch, and of the batch after the latest read,
        # which is probably read next: most reads need no search.
        self._tail = (-1, 0)
        self._wanted = (-1, 0)

    def path(self, suffix: str) -> Path:
        """The path of one of its files, with a second suffix if the log has one."""
        name = file_name(self.base_offset, suffix)
        if suffix != SNAPSHOT:
            log_name = self.log.path.name
            name += log_name[log_name.index(LOG) + len(LOG) :]
        return self.folder / name

    def create(self) -> None:
        """Creates its files, empty.

        Raises:
            StorageError: it failed; some of them may exist.
        """
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            files.create(self.path(suffix))

    # -- writing

    def append(
        self,
        batch: Stored,
        size: int,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        interval: int,
    ) -> None:
        """Adds a batch; `interval` is ``index.interval.bytes``.

        Raises:
            StorageError: it is not in the segment.
        """
        position = self.size
        self.log.write(batch, size, position)
        self.note(position, size, first_offset, last_offset, max_timestamp, interval)

    def note(
        self,
        position: int,
        size: int,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        interval: int,
    ) -> None:
        """Adds a batch that is already in the file, after the previous ones."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_at = last_offset
        if self._since_entry > interval:
            index = self.index
            index.add_batch(last_offset, position)
            index.add_time(self.max_timestamp, self.max_timestamp_at)
            self._since_entry = 0
        if not position:
            self.first_timestamp = max_timestamp
        self._since_entry += size
        self._tail = (first_offset, position)
        self.size = position + size
        self.next_offset = last_offset + 1

    @property
    def latest_ms(self) -> int:
        """Its largest timestamp, or the time of writing if it has none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.written_ms

    @property
    def index(self) -> SegmentIndex:
        """Its indexes, loaded if they are not in memory.

        Raises:
            StorageError: they, or the log if they are missing, cannot be read.
        """
        found = self._index
        if found is None:
            found = SegmentIndex.load(
                self.base_offset,
                self.size,
                self.path(OFFSET_INDEX),
                self.path(TIME_INDEX),
            )
            self._index = found = found or self._rebuilt_index()
            self._files.index_loaded(self, found.size_in_memory)
        return found

    def _rebuilt_index(self) -> SegmentIndex:
        """Rebuilds the indexes by reading the whole segment."""
        built = Segment(self.folder, self.base_offset, Files(8))
        for place in self.places(0):
            built.note(*place, _INTERVAL)
        index = built.index
        index.add_time(built.max_timestamp, built.max_timestamp_at)
        index.write(self.path(OFFSET_INDEX), self.path(TIME_INDEX), is_durable=False)
        return index

    def forget_index(self) -> None:
        """Frees the memory of the indexes; their files are complete."""
        self._index = None

    def mark_end(self) -> None:
        """Adds the last batch to the index, so that a shorter file is noticed."""
        if self.size:
            self.index.mark_end(self.next_offset - 1, self._tail[1])

    def is_done(self) -> None:
        """Ends writing: another segment is active from now on."""
        self._files.index_loaded(self, self.index.size_in_memory)

    def write_index(self, *, is_last: bool = False, is_durable: bool = False) -> None:
        """Appends new entries to the index files.

        Args:
            is_last: the segment gets no more batches for now, so its largest timestamp
                gets an entry.
            is_durable: flush to the disk.
        """
        index = self.index
        if is_last:
            index.add_time(self.max_timestamp, self.max_timestamp_at)
        index.write(
            self.path(OFFSET_INDEX), self.path(TIME_INDEX), is_durable=is_durable
        )
        self.aborted.write(self.path(TXN_INDEX), is_durable=is_durable)

    # -- opening

    def load_aborted(self, end: int, crc: int) -> bool:
        """Reads its index of aborted transactions; returns whether it is the right one.

        Args:
            end: the offset behind its last batch.
            crc: the CRC-32 of the file; 0 if there is none.

        Raises:
            StorageError: the file cannot be read.
        """
        path = self.path(TXN_INDEX)
        found = AbortedIndex.load(self.base_offset, end, path)
        if found is None or found.crc != crc:
            return False
        self.aborted = found
        return True

    def load_times(self) -> None:
        """Reads the largest timestamp of an inactive segment from its indexes.

        Raises:
            StorageError: they, or the log if they are missing, cannot be read.
        """
        self._index = None
        data = files.read_tail(self.path(TIME_INDEX), TIME_ENTRY)
        time, relative = TIME.unpack(data) if data else (-1, -1)
        if time > 0 <= relative < self.next_offset - self.base_offset:
            self.max_timestamp = time
            self.max_timestamp_at = self.base_offset + relative
            return
        self._index = index = self._rebuilt_index()
        self._files.index_loaded(self, index.size_in_memory)
        if index.times:
            self.max_timestamp = index.times[-1]
            self.max_timestamp_at = index.times_at[-1]

    def _last_entry(self) -> tuple[int, int] | None:
        data = files.read_tail(self.path(OFFSET_INDEX), OFFSET_ENTRY)
        if not data:
            return None
        relative, position = OFFSET.unpack(data)
        return self.base_offset + relative, position

    def index_knows_more(self) -> bool:
        """Returns whether the index files have entries for batches behind its end.

        Raises:
            StorageError: they cannot be read.
        """
        entry = self._last_entry()
        if entry is not None:
            return entry[1] >= self.size
        return not self.size and files.size_and_time(self.path(TIME_INDEX))[0] > 0

    def last_batch(self) -> tuple[int, int] | None:
        """(Last offset, position) of the last batch; None without any.

        Raises:
            StorageError: the file ends with half a batch, or cannot be read.
        """
        entry = self._last_entry()
        if entry is not None:
            try:
                last = self._last_batch(entry[1])
            except StorageError:
                # The entry or the file is wrong: read the whole segment.
                last = None
            if last is not None and last >= entry:
                return last
        return self._last_batch(0)

    def _last_batch(self, position: int) -> tuple[int, int] | None:
        last = None
        for place in self.places(position, _NEAR):
            last = place.last_offset, place.position
        return last

    def load_active(self, interval: int) -> bool:
        """Loads the state from the indexes and the batches after their last entry.

        False if they do not match: then the whole segment has to be read.

        Raises:
            StorageError: a file cannot be read.
        """
        index = SegmentIndex.load(
            self.base_offset, self.size, self.path(OFFSET_INDEX), self.path(TIME_INDEX)
        )
        if index is None:
            return False
        known = index.positions[-1] if index.positions else 0
        try:
            first = next(self.places(0, _NEAR), None)
            behind = list(self.places(known))
        except StorageError:
            return False
        self._index = index
        if index.times:
            self.max_timestamp = index.times[-1]
            self.max_timestamp_at = index.times_at[-1]
        for place in behind:
            self.note(*place, interval)
        if first is not None:
            self.first_timestamp = first.max_timestamp
        return True

    def forget_batches(self) -> None:
        """Forgets all batches; call `note` for each batch in the file."""
        self.size = 0
        self.next_offset = self.base_offset
        self.max_timestamp = self.first_timestamp = -1
        self._since_entry = 0
        self._index = SegmentIndex(self.base_offset)
        self.aborted = AbortedIndex()

    def write_whole_index(self, *, is_done: bool) -> None:
        """Replaces the index files.

        Args:
            is_done: another segment is active, and this one has all its batches.

        Raises:
            StorageError: the write failed.
        """
        if is_done:
            self.mark_end()
        index = self.index
        index.add_time(self.max_timestamp, self.max_timestamp_at)
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            if files.size_and_time(self.path(suffix))[0]:
                files.create(self.path(suffix))
        if files.size_and_time(self.path(TXN_INDEX))[0] > 0:
            files.create(self.path(TXN_INDEX))
        self.write_index()

    # -- undoing, deleting

    def mark(self) -> tuple[tuple[Any, ...], int, int]:
        """The current state, to which `restore` can go back."""
        fields = tuple(getattr(self, name) for name in _MARKED)
        return fields, len(self.index.offsets), len(self.index.times)

    def restore(self, mark: tuple[tuple[Any, ...], int, int]) -> None:
        """Undoes the appends since `mark`.

        Raises:
            StorageError: the file cannot be truncated; the next batch overwrites them.
        """
        fields, offsets, times = mark
        for name, value in zip(_MARKED, fields, strict=True):
            setattr(self, name, value)
        self.index.cut(offsets, times)
        self.log.truncate(self.size)

    def remove(self) -> None:
        """Deletes its files, including a snapshot of producers at its start.

        Raises:
            StorageError: the batches still exist.
        """
        self.close()
        for suffix in (*INDEXES, SNAPSHOT, LOG):
            files.remove(self.path(suffix))

    def remove_quietly(self) -> None:
        """Deletes as many of its files as it can, except the snapshot."""
        self.close()
        for suffix in (*INDEXES, LOG):
            files.remove_quietly(self.path(suffix))

    def close(self) -> None:
        """Closes the file; it is reopened if needed."""
        self.log.close()
        self._files.index_forgotten(self)

    # -- reading

    def places(self, position: int, finish: int = CHUNK) -> Iterator[Place]:
        """Yields all batches from a position on, which must be the start of one.

        Args:
            position: in bytes.
            finish: bytes per read.

        Raises:
            StorageError: the bytes are not a batch.
        """
        while position < self.size:
            chunk = self.log.read(position, min(finish, self.size - position))
            at, whole = 0, len(chunk)
            while whole - at >= _NEEDED:
                place = self._place(chunk, at, position + at)
                yield place
                at += place.size
            if not at:
                raise self.damage(position, "half a batch")
            position += at

    def _place(self, chunk: bytes, at: int, position: int) -> Place:
        base, length, magic, delta, timestamp = _OUTLINE(chunk, at)
        size = length + records.LOG_OVERHEAD
        if magic != records.MAGIC or length < _SMALLEST or delta < 0:
            raise self.damage(position, f"magic {magic}, length {length}")
        if position + size > self.size:
            raise self.damage(position, f"{size} bytes, and the file ends before")
        return Place(position, size, base, base + delta, timestamp)

    def damage(self, position: int, what: str) -> StorageError:
        """The error for bytes that are not a batch."""
        return StorageError(f"{self.log.path} is damaged at byte {position}: {what}")

    def headers(self, position: int) -> Iterator[BatchHeader]:
        """Yields the headers of all batches from a position on.

        Raises:
            StorageError: the bytes are not a batch.
        """
        for place in self.places(position):
            data = self._exactly(place.position, records.HEADER_SIZE)
            yield records.read_header(data)

    def find(self, offset: int) -> int:
        """The position of the batch with an offset, or of the one after it."""
        for known, position in (self._tail, self._wanted):
            if known == offset:
                return position
        if offset <= self.base_offset:
            return 0
        for place in self.places(self.index.floor(offset), _NEAR):
            if place.last_offset >= offset:
                return place.position
        return self.size

    def locate(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[int, int]:
        """Start and end of the bytes to read from an offset on; may be equal.

        Only headers are read.

        Raises:
            StorageError: the segment is damaged there, or cannot be read.
        """
        start = self.find(offset)
        if self.size - start <= max_bytes or start == self.size:
            self._wanted = (self.next_offset, self.size)
            return start, self.size
        first = self._place(self._exactly(start, _NEEDED), 0, start)
        if first.size <= max_bytes:
            return start, start + max_bytes
        if not minimum_one:
            return start, start
        self._wanted = (first.last_offset + 1, start + first.size)
        return start, start + first.size

    def read_at(self, start: int, stop: int) -> bytes:
        """The bytes between two positions.

        Raises:
            StorageError: they cannot be read.
        """
        return self._exactly(start, stop - start)

    def _exactly(self, position: int, size: int) -> bytes:
        data = self.log.read(position, size)
        if len(data) != size:
            raise self.damage(position + len(data), "the file is shorter than it was")
        return data
