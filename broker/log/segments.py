"""Batches kept in files, in Apache Kafka's own format: segments of one partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kohort.broker.log import checkpoints, files, snapshots
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.files import Files
from kohort.broker.log.replacement import SegmentReplacement
from kohort.broker.log.segment import (
    CHUNK,
    MOST_RELATIVE,
    SNAPSHOT,
    TXN_INDEX,
    Segment,
    file_name,
)
from kohort.broker.log.settings import DEFAULTS, LogConfig
from kohort.broker.log.state import LogState
from kohort.broker.log.store import NO_END, PIECE, StorageError, Stored
from kohort.broker.telemetry import Logger
from kohort.protocol import records
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchHeader

log = Logger("kohort.log")

_NEVER = NO_END


class Keeper(NamedTuple):
    """Saves facts about a partition that its files do not contain.

    Attributes:
        keep_log_start: saves the start offset of the log.
        keep_compacted: saves that the log is about to be compacted, after which
            segments may end in gaps.

    Raises:
        StorageError: from both: the save failed.
    """

    keep_log_start: Callable[[int], None]
    keep_compacted: Callable[[], None]


class SegmentStore:
    """The batches of one partition, in a folder.

    The last segment is the active one, the only one that is written. Batches are read
    on request only, and not cached.

    Args:
        folder: the partition's folder.
        state: its offsets, epochs and producers.
        segments: at least one, oldest first.
        recovery_point: all before this offset was flushed.
        open_files: the open files of the data directory.
        keeper: saves the offsets that the files do not contain.
        aborted_crcs: the contents of `checkpoints.ABORTED_INDEXES`.

    Attributes:
        recovery_point: see Args.
        state: shared with the partition; the store updates `log_end_offset`, too.
    """

    __slots__ = (
        "_aborted_crcs",
        "_are_epochs_flushed",
        "_bases",
        "_changes",
        "_files",
        "_first_unflushed_ms",
        "_has_remains",
        "_keeper",
        "_segments",
        "_size",
        "config",
        "first_dirty_offset",
        "folder",
        "recovery_point",
        "replacements",
        "state",
    )

    def __init__(
        self,
        folder: Path,
        state: LogState,
        segments: list[Segment],
        recovery_point: int,
        open_files: Files,
        keeper: Keeper,
        aborted_crcs: Sequence[tuple[int, int]],
    ) -> None:
        self.config: LogConfig = DEFAULTS
        self.first_dirty_offset = 0
        self.replacements = 0
        self.folder = folder
        self.state = state
        self.recovery_point = recovery_point
        # Number of times that segments were deleted or replaced.
        self._changes = 0
        self._files = open_files
        self._keeper = keeper
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._size = sum(segment.size for segment in segments)
        self._first_unflushed_ms = _NEVER
        self._aborted_crcs = aborted_crcs
        self._are_epochs_flushed = False
        self._has_remains = False

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches."""
        return self._size

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first."""
        return self._segments

    def __len__(self) -> int:
        """The number of batches; reads all of their headers."""
        return sum(1 for segment in self._segments for _ in segment.places(0))

    def start(self) -> LogState:
        """See `Store.start`."""
        return self.state

    def keep_epochs(self) -> None:
        """See `Store.keep_epochs`."""
        self._write_epochs(is_durable=False)

    def _write_epochs(self, *, is_durable: bool) -> None:
        entries = self.state.epochs.entries
        checkpoints.write_epochs(self.folder, entries, is_durable=is_durable)
        # Recovery gets them from the batches that it reads, so they need not be on the
        # disk before the batches.
        self._are_epochs_flushed = is_durable

    # -- appending

    def append(
        self,
        batch: Stored,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """See `Store.append`: into the active segment, or a new one."""
        size = len(batch)
        if not isinstance(batch, bytes):
            size = len(batch[0]) + len(batch[1])
        active = self._segments[-1]
        config = self.config
        if self._must_roll(active, size, last_offset, max_timestamp, config):
            active = self.roll(first_offset)
        if now_ms < self._first_unflushed_ms:  # noqa: PLR1730 - a call costs more
            self._first_unflushed_ms = now_ms
        must_flush = (
            last_offset + 1 - self.recovery_point >= config.flush_messages
            or now_ms - self._first_unflushed_ms >= config.flush_ms
        )
        mark = active.mark() if must_flush else None
        active.append(
            batch,
            size,
            first_offset,
            last_offset,
            max_timestamp,
            config.index_interval_bytes,
        )
        active.written_ms = now_ms
        self._size += size
        self.state.log_end_offset = last_offset + 1
        if mark is not None:
            try:
                self.flush()
            except StorageError:
                # It is unknown whether the batch is on the disk, so it is not in the
                # log.
                self._size -= size
                self.state.log_end_offset = first_offset
                active.restore(mark)
                raise

    def _must_roll(
        self,
        active: Segment,
        size: int,
        last_offset: int,
        max_timestamp: int,
        config: LogConfig,
    ) -> bool:
        """Returns whether Kafka's rules put a batch into a new segment."""
        if last_offset - active.base_offset > MOST_RELATIVE:
            return True
        if not active.size:
            return False
        if active.size > config.segment_bytes - size:
            return True
        longest = config.segment_ms
        if config.max_compaction_lag_ms < longest and "compact" in (
            config.cleanup_policy
        ):
            longest = config.max_compaction_lag_ms
        return max_timestamp - active.first_timestamp > longest or (
            active.index.is_full(config.segment_index_bytes)
        )

    def roll(self, next_offset: int) -> Segment:
        """Begins a new active segment, and flushes the previous one.

        Args:
            next_offset: the offset behind the last batch.

        Raises:
            StorageError: it failed; nothing has changed.
        """
        active = self._segments[-1]
        active.write_index(is_last=True, is_durable=True)
        self.write_aborted_crcs()
        self._sync(active)
        self.write_snapshot(next_offset)
        new = Segment(self.folder, next_offset, self._files)
        try:
            new.create()
            files.sync_folder(self.folder)
        except StorageError:
            if active.base_offset != next_offset:
                new.remove_quietly()
            raise
        self.recovery_point = next_offset
        self._first_unflushed_ms = _NEVER
        if active.base_offset == next_offset:
            # It was empty: the new one has its files.
            active.close()
            self._segments.pop()
            self._bases.pop()
        else:
            active.is_done()
        self._segments.append(new)
        self._bases.append(next_offset)
        return new

    def write_snapshot(self, offset: int) -> None:
        """Saves the producers' state at `offset`, the end of the log.

        Raises:
            StorageError: the write failed.
        """
        path = self.folder / file_name(offset, SNAPSHOT)
        files.write_at(path, snapshots.encode(self.state.producers), 0, is_durable=True)

    def write_aborted_crcs(self) -> None:
        """Saves the CRCs of the indexes of aborted transactions that were written.

        Raises:
            StorageError: the save failed; the next start rebuilds these indexes.
        """
        crcs = [(each.base_offset, each.aborted.crc) for each in self._segments]
        crcs = [(base, crc) for base, crc in crcs if crc]
        if crcs != self._aborted_crcs:
            path = self.folder / checkpoints.ABORTED_INDEXES
            checkpoints.write_pairs(path, crcs, is_durable=True)
            self._aborted_crcs = crcs

    # -- reading

    def _index_of(self, offset: int) -> int:
        """The index of the segment with an offset."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[Sequence[Buffer], int]:
        """See `Store.read`."""
        spans = self._locate(offset, max_bytes, minimum_one=minimum_one)
        buffers = [segment.read_at(start, stop) for segment, start, stop in spans]
        return buffers, sum(map(len, buffers))

    def read_in_pieces(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> Generator[None, None, tuple[Sequence[Buffer], int]]:
        """See `Store.read_in_pieces`."""
        while True:
            spans = self._locate(offset, max_bytes, minimum_one=minimum_one)
            changes = self._changes
            buffers: list[Buffer] = []
            for segment, start, stop in spans:
                for position in range(start, stop, PIECE):
                    if buffers:
                        yield
                    if self._changes != changes:
                        break
                    end = min(position + PIECE, stop)
                    buffers.append(segment.read_at(position, end))
            if self._changes == changes:
                return buffers, sum(map(len, buffers))
            # Segments were deleted or replaced meanwhile.

    def readable(self, offset: int) -> int:
        """See `Store.readable`."""
        index = self._index_of(offset)
        found = self._segments[index]
        behind = sum(segment.size for segment in self._segments[index + 1 :])
        return found.size - found.find(offset) + behind

    def _locate(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> list[tuple[Segment, int, int]]:
        """Segments, and the positions in them of the bytes that `read` returns."""
        spans: list[tuple[Segment, int, int]] = []
        left = max_bytes
        segments = self._segments
        for index in range(self._index_of(offset), len(segments)):
            segment = segments[index]
            if not spans:
                start, stop = segment.locate(offset, left, minimum_one=minimum_one)
            else:
                start, stop = 0, min(left, segment.size)
            if stop > start:
                spans.append((segment, start, stop))
                left -= stop - start
            if stop < segment.size:
                break
        return spans

    def batches(self, start: int, end: int) -> Iterator[bytes]:
        """See `Store.batches`."""
        while start < end:
            # Segments may have been deleted or replaced meanwhile.
            buffers, _ = self.read(start, CHUNK, minimum_one=True)
            if not buffers:
                return
            begin = start
            for buffer in buffers:
                for header, position in self._headers(buffer):
                    if header.base_offset >= end:
                        return
                    if header.last_offset < start:
                        raise self._damage(start, "offsets go back")
                    yield bytes(buffer[position : position + header.size])
                    start = header.last_offset + 1
            if start == begin:
                raise self._damage(start, "half a batch")

    def _headers(self, buffer: Buffer) -> Iterator[tuple[BatchHeader, int]]:
        try:
            yield from records.read_headers(buffer)
        except WireError as error:
            raise self._damage(-1, str(error)) from None

    def _damage(self, offset: int, what: str) -> StorageError:
        where = f"at offset {offset}" if offset >= 0 else "somewhere"
        return StorageError(f"{self.folder} is damaged {where}: {what}")

    def since(self, timestamp: int, offset: int) -> Iterator[bytes]:
        """See `Store.since`."""
        while True:
            index = self._index_of(offset)
            segment = self._segments[index]
            is_last = index + 1 == len(self._segments)
            end = _NEVER if is_last else self._bases[index + 1]
            if segment.max_timestamp >= timestamp:
                start = max(offset, segment.index.offset_before_time(timestamp))
                for batch in self.batches(start, end):
                    if records.read_header(batch).max_timestamp >= timestamp:
                        yield batch
            if is_last:
                return
            offset = end

    def ends_at(self, time_ms: int) -> tuple[int, int] | None:
        """See `Store.ends_at`: files have no time of writing."""

    def latest(self) -> tuple[int, Sequence[bytes]]:
        """See `Store.latest`."""
        if not self._size:
            return -1, ()
        segment = max(self._segments, key=lambda each: each.max_timestamp)
        timestamp = segment.max_timestamp
        offset = segment.max_timestamp_at if timestamp >= 0 else 0
        buffers, _ = self.read(offset, 0, minimum_one=True)
        return timestamp, tuple(bytes(buffer) for buffer in buffers)

    # -- aborted transactions

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `Store.add_aborted`: in the segment of the marker."""
        self._segments[-1].aborted.add(aborted)

    def aborted(self, offset: int, end: int) -> Sequence[AbortedTransaction]:
        """See `Store.aborted`."""
        found: list[AbortedTransaction] = []
        for index in range(self._index_of(offset), len(self._segments)):
            some, is_complete = self._segments[index].aborted.find(offset, end)
            found += some
            if is_complete:
                break
        return found

    def end_of_read(self, offset: int, size: int) -> int:
        """See `Store.end_of_read`."""
        index = self._index_of(offset)
        position = self._segments[index].find(offset) + size
        while position > self._segments[index].size and index + 1 < len(self._bases):
            position -= self._segments[index].size
            index += 1
        entries = self._segments[index].index
        entry = bisect_left(entries.positions, position)
        if entry < len(entries.positions):
            return entries.offsets[entry]
        if index + 1 < len(self._bases):
            return self._bases[index + 1]
        return self.state.log_end_offset

    # -- deleting

    def first_offset_younger(self, than_ms: int, end: int) -> int:
        """See `Store`: drops whole segments."""
        for segment in self._segments:
            if segment.size and segment.latest_ms >= than_ms:
                return segment.base_offset
        return end

    def first_offset_within(self, size: int, end: int) -> int:
        """See `Store`: drops whole segments."""
        surplus = self._size - size
        for segment in self._segments:
            surplus -= segment.size
            if surplus < 0:
                return segment.base_offset
        return end

    def drop_before(self, offset: int, end: int) -> None:
        """See `Store.drop_before`: deletes the segments that end before it."""
        if offset >= end and self._segments[-1].size:
            self.roll(end)
        elif offset > self.recovery_point:
            # A log that ends before its start would count as damaged.
            self.flush()
        count = self._index_of(offset)
        if self._bases[count] < offset or count > 1 or self._has_remains:
            # Files alone would bring records back; and if several segments are being
            # deleted, a power loss may delete any of them, which leaves a gap.
            self._keeper.keep_log_start(offset)
        self.state.log_start_offset = offset
        gone = self._segments[:count]
        self._changes += bool(gone)
        del self._segments[:count], self._bases[:count]
        self._size -= sum(segment.size for segment in gone)
        try:
            for segment in gone:
                segment.remove()
            if gone:
                # Before others are deleted, for the same reason.
                files.sync_folder(self.folder)
        except StorageError as error:
            # Nothing reads them any more, and a restart tries again.
            self._has_remains = True
            log.warning("segment_not_deleted", reason=str(error))

    # -- compaction

    def size_before(self, offset: int) -> int:
        """See `Store.size_before`: whole segments."""
        count = self._index_of(offset)
        return sum(segment.size for segment in self._segments[:count])

    def cleanable_end(
        self,
        first_dirty_offset: int,
        now_ms: int,
        min_compaction_lag_ms: int,
        *,
        last_stable_offset: int = NO_END,
    ) -> int:
        """See `Store.cleanable_end`: the start of a segment."""
        last = self._index_of(last_stable_offset)
        if min_compaction_lag_ms > 0:
            first = self._index_of(first_dirty_offset)
            for segment in self._segments[first:last]:
                if segment.latest_ms > now_ms - min_compaction_lag_ms:
                    return segment.base_offset
        return self._bases[last]

    def replacement(self, end: int) -> SegmentReplacement:
        """See `Store.replacement`; `end` is the start of a segment."""
        return SegmentReplacement(self, end, self._files, self._keeper.keep_compacted)

    def swap(self, old: Sequence[Segment], new: Segment) -> None:
        """Replaces consecutive segments by one."""
        self._changes += 1
        self.replacements += 1
        first = self._segments.index(old[0])
        last = first + len(old)
        self._segments[first:last] = [new]
        self._bases[first:last] = [new.base_offset]
        self._size += new.size - sum(segment.size for segment in old)

    # -- flushing

    def must_flush(self, now_ms: int) -> bool:
        """Returns whether the oldest unflushed batch has waited for ``flush.ms``."""
        return now_ms - self._first_unflushed_ms >= self.config.flush_ms

    def flush(self) -> None:
        """See `Store.flush`."""
        end = self.state.log_end_offset
        if self.recovery_point < end:
            self._sync(self._segments[-1])
            self.recovery_point = end
        self._first_unflushed_ms = _NEVER

    def _sync(self, active: Segment) -> None:
        active.log.sync()
        if not self._are_epochs_flushed:
            # This flushes the names of all files of the partition; the first time, also
            # that of its folder.
            self._write_epochs(is_durable=True)
            files.sync_folder(self.folder.parent)

    def close(self) -> None:
        """See `Store.close`; writes indexes and a snapshot, for a quick next start."""
        active = self._segments[-1]
        end = self.state.log_end_offset
        try:
            is_flushed = self.recovery_point == end
            active.write_index(is_last=True, is_durable=not is_flushed)
            # A flush does not include the index, and nothing else shows what it lacks.
            active.aborted.write(active.path(TXN_INDEX), is_durable=is_flushed)
            self.write_aborted_crcs()
            self.flush()
            if end > 0:
                self.write_snapshot(end)
        finally:
            self.release()

    def release(self) -> None:
        """Closes all files, without flushing."""
        for segment in self._segments:
            segment.close()
