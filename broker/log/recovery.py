"""Opens the folder of a partition after a clean stop or a crash.

After a clean stop only the end of the last segment is read. Otherwise all batches that
may not have been flushed are read and checked. A batch half-written by a crash can only
be at the very end, and is cut off. Damage before the recovery point does not come from
a crash, and may hide acknowledged records: nothing is cut then, and the broker does not
start.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Final

from kohort.broker.log import checkpoints, files, leftovers, snapshots
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.epochs import LeaderEpochs
from kohort.broker.log.files import Files
from kohort.broker.log.judgement import Batches, next_whole, why_not_all
from kohort.broker.log.producers import Producers
from kohort.broker.log.segment import (
    CHUNK,
    LOG,
    SNAPSHOT,
    TXN_INDEX,
    Segment,
    file_name,
)
from kohort.broker.log.segments import Keeper, SegmentStore
from kohort.broker.log.state import LogState
from kohort.broker.log.store import StorageError
from kohort.broker.telemetry import Logger
from kohort.protocol import records
from kohort.protocol.messages import WireError
from kohort.protocol.records import HEADER_SIZE, BatchHeader

CUT: Final = ".cut"
"""Suffix of a segment with the batches cut off after damage."""

log = Logger("kohort.log")


class DamagedLogError(Exception):
    """Flushed records cannot be read any more."""


class Recovery:
    """Opens one partition, and recovers it if necessary.

    Args:
        folder: the partition's folder, which exists.
        open_files: the open files of the data directory.
        recovery_point: all before this offset was flushed.
        log_start: the start of the log after DeleteRecords, or less.
        interval: ``index.interval.bytes``, for rebuilding indexes.
        may_have_gaps: whether the log may have been compacted.
        is_clean: whether the broker stopped cleanly.
    """

    def __init__(
        self,
        folder: Path,
        open_files: Files,
        recovery_point: int,
        log_start: int,
        interval: int,
        *,
        may_have_gaps: bool,
        is_clean: bool,
    ) -> None:
        self._folder = folder
        self._files = open_files
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._interval = interval
        self._may_have_gaps = may_have_gaps
        self._segments: list[Segment] = []
        self._snapshots: dict[int, Path] = {}
        # Base offsets of segments with an index of aborted transactions.
        self._with_aborted: set[int] = set()
        self._aborted_crcs = (
            checkpoints.read_pairs(folder / checkpoints.ABORTED_INDEXES) or []
        )
        self._producers = Producers()
        self._kept_epochs = checkpoints.read_epochs(folder)
        self._epochs = LeaderEpochs(self._kept_epochs or ())
        self._is_trusted = is_clean and self._kept_epochs is not None

    def open(self, keeper: Keeper) -> SegmentStore:
        """Opens the store of the partition.

        Raises:
            DamagedLogError: acknowledged records may be lost; nothing was cut.
            StorageError: the folder cannot be read or written.
        """
        leftovers.clear(self._folder, self._files)
        self._find_files()
        if not self._segments:
            self._begin()
        last = len(self._segments) - 1
        first = last if self._is_trusted else self._first_to_check()
        first = self._load_aborted(first)
        self._load_before(first)
        if not self._is_trusted or not self._read_end(self._segments[-1]):
            self._check_from(first)
        self._check_log_start()
        return self._store(keeper)

    def _find_files(self) -> None:
        for name in files.names_in(self._folder):
            number, dot, kind = name.partition(".")
            if dot + kind == LOG:
                segment = Segment(self._folder, int(number), self._files)
                segment.size, segment.written_ms = files.size_and_time(segment.log.path)
                self._segments.append(segment)
            elif dot + kind == TXN_INDEX:
                self._with_aborted.add(int(number))
            elif dot + kind == SNAPSHOT:
                self._snapshots[int(number)] = self._folder / name

    def _load_aborted(self, first: int) -> int:
        """Loads the aborted transactions of trusted segments.

        Returns:
            The first segment to check: one whose index is missing or damaged, or
            `first`.
        """
        crcs = dict(self._aborted_crcs)
        trusted = first + self._is_trusted
        ends = [segment.base_offset for segment in self._segments[1:]]
        for number, end in enumerate([*ends, self._recovery_point][:trusted]):
            segment = self._segments[number]
            base = segment.base_offset
            if (base in self._with_aborted or base in crcs) and (
                not segment.load_aborted(end, crcs.get(base, 0))
            ):
                log.warning("index_not_used", path=str(segment.path(TXN_INDEX)))
                self._is_trusted = False
                return number
        return first

    def _begin(self) -> None:
        flushed = max(self._recovery_point, self._log_start)
        if flushed:
            raise DamagedLogError(
                f"{self._folder} has no segment, and had been flushed up to offset "
                f"{flushed}: records are missing"
            )
        segment = Segment(self._folder, 0, self._files)
        segment.create()
        self._segments.append(segment)

    def _check_log_start(self) -> None:
        """Checks that the log does not end before its start: no crash does that."""
        end = self._segments[-1].next_offset
        if end < self._log_start:
            raise DamagedLogError(
                f"{self._segments[-1].log.path} ends at offset {end}, and by "
                f"{checkpoints.LOG_STARTS} the log starts at {self._log_start}: "
                "records are missing"
            )

    def _first_to_check(self) -> int:
        """The segment with the recovery point; all, if leader epochs are unknown."""
        if self._kept_epochs is None:
            return 0
        bases = [segment.base_offset for segment in self._segments]
        return max(sum(base <= self._recovery_point for base in bases) - 1, 0)

    # -- trusted segments: before the recovery point

    def _load_before(self, first: int) -> None:
        """Trusts the indexes of the segments before `first`."""
        for segment, following in zip(
            self._segments[:first], self._segments[1:], strict=False
        ):
            self._check_end(
                segment, following, _end_of(segment), segment.index_knows_more()
            )
            segment.next_offset = following.base_offset
            if segment.size:
                segment.load_times()

    def _check_end(
        self,
        segment: Segment,
        following: Segment,
        end: int,
        index_knows_more: bool,
    ) -> None:
        if following.base_offset <= self._log_start:
            # It was deleted, or others between these two were.
            return
        why = why_not_all(
            end,
            following.base_offset,
            may_have_gaps=self._may_have_gaps,
            index_knows_more=index_knows_more,
        )
        if why:
            raise DamagedLogError(f"{segment.log.path} is damaged: {why}")

    def _read_end(self, active: Segment) -> bool:
        """Finds the end of the last segment, and the state of producers there.

        False if the files are not as a clean stop leaves them.
        """
        end = self._recovery_point
        producers = self._snapshot(end) if end else Producers()
        if producers is None or not active.load_active(self._interval):
            return False
        self._producers = producers
        return active.next_offset == end

    def _snapshot(self, offset: int) -> Producers | None:
        """The state of producers at an offset, if it was saved."""
        path = self._snapshots.get(offset)
        data = None if path is None else files.read_file(path)
        if data is None:
            return None
        try:
            return snapshots.decode(data)
        except snapshots.SnapshotError as error:
            log.warning("snapshot_not_used", path=str(path), reason=str(error))
            return None

    # -- segments to check

    def _check_from(self, first: int) -> None:
        """Reads segments from `first` on, and cuts off a half-written end."""
        self._load_producers(first)
        for segment, following in zip_longest(
            self._segments[first:], self._segments[first + 1 :]
        ):
            index_knows_more = segment.index_knows_more()
            self._check(segment, is_last=following is None)
            if following is not None:
                end = segment.next_offset
                self._check_end(segment, following, end, index_knows_more)
                segment.next_offset = following.base_offset
            segment.write_whole_index(is_done=following is not None)
            if following is not None:
                segment.is_done()
        end = self._segments[-1].next_offset
        if end < self._recovery_point:
            raise DamagedLogError(
                f"{self._segments[-1].log.path} ends at offset {end}, but had been "
                f"flushed up to {self._recovery_point}: records are missing"
            )

    def _load_producers(self, first: int) -> None:
        """Restores producers at the start of a segment, from the last good snapshot."""
        base = self._segments[first].base_offset
        self._producers, start = Producers(), -1
        for offset in sorted(self._snapshots, reverse=True):
            found = self._snapshot(offset) if offset <= base else None
            if found is not None:
                self._producers, start = found, offset
                break
        if start == base:
            return
        for segment in self._segments[:first]:
            if segment.next_offset > start:
                for place in segment.places(segment.find(start)):
                    data = segment.read_at(place.position, place.position + HEADER_SIZE)
                    header = records.read_header(data)
                    self._learn_producer(segment, place.position, header)

    def _check(self, segment: Segment, *, is_last: bool) -> None:
        """Reads the segment's whole batches, and cuts off the bytes after them.

        Builds the indexes, and updates producers and epochs with each batch.
        """
        size = segment.size
        segment.forget_batches()
        # The last segment was never compacted.
        is_dense = is_last or not self._may_have_gaps
        batches = Batches(
            segment.log.read, size, segment.base_offset, is_dense=is_dense
        )
        for position, header in batches:
            segment.note(
                position,
                header.size,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                self._interval,
            )
            self._learn_epoch(header)
            aborted = self._learn_producer(segment, position, header)
            if aborted is not None:
                segment.aborted.add(aborted)
        if batches.why:
            self._cut(segment, size - segment.size, batches.why, is_last=is_last)

    def _learn_epoch(self, header: BatchHeader) -> None:
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.begin(header.partition_leader_epoch, header.base_offset)

    def _learn_producer(
        self, segment: Segment, position: int, header: BatchHeader
    ) -> AbortedTransaction | None:
        """Updates the producer of a batch; returns the transaction that it aborts."""
        end = position + header.size
        try:
            aborted = self._producers.replayed(
                header, lambda: segment.read_at(position, end)
            )
        except WireError as error:
            raise DamagedLogError(
                f"{segment.log.path} has a malformed marker at offset "
                f"{header.base_offset}: {error}"
            ) from None
        return None if aborted is None or aborted.first_offset < 0 else aborted

    def _cut(self, segment: Segment, lost: int, why: str, *, is_last: bool) -> None:
        """Cuts off the bytes after the whole batches, if a crash may have left them."""
        path, offset = segment.log.path, segment.next_offset
        if offset < self._recovery_point or not is_last:
            raise DamagedLogError(
                f"{path} is damaged from byte {segment.size} (offset {offset}) on: "
                f"{why}. It had been flushed, so this is no crash's doing"
            )
        kept = self._keep_aside(segment, segment.size + lost)
        segment.log.truncate(segment.size)
        log.warning(
            "log_tail_cut",
            path=str(path),
            offset=offset,
            bytes=lost,
            reason=why,
            kept=kept,
        )

    def _keep_aside(self, segment: Segment, size: int) -> str | None:
        """Copies the bytes to cut off, from the first whole batch on, if there is one.

        A kill leaves nothing whole there: these may be acknowledged records after
        damage. Without the suffix the copy is a segment that Kafka's tools read.
        """
        read = segment.log.read
        found = next_whole(read, size, segment.size, segment.next_offset)
        if found is None:
            return None
        start, offset = found
        path = self._folder / (file_name(offset, LOG) + CUT)
        for position in range(start, size, CHUNK):
            chunk = read(position, min(CHUNK, size - position))
            is_last = position + CHUNK >= size
            files.write_at(path, chunk, position - start, is_durable=is_last)
        files.sync_folder(self._folder)
        return str(path)

    # -- results

    def _store(self, keeper: Keeper) -> SegmentStore:
        active = self._segments[-1]
        end = active.next_offset
        start = max(self._segments[0].base_offset, self._log_start)
        self._epochs.end_at(end)
        if list(self._epochs.entries) != self._kept_epochs and self._epochs.entries:
            entries = self._epochs.entries
            checkpoints.write_epochs(self._folder, entries, is_durable=False)
        self._epochs.start_at(start)
        kept = {segment.base_offset for segment in self._segments} | {end}
        for offset, path in self._snapshots.items():
            if offset not in kept:
                files.remove(path)
        store = SegmentStore(
            self._folder,
            LogState(start, end, self._epochs, self._producers),
            self._segments,
            # Other segments were flushed when the next one began.
            max(min(self._recovery_point, end), active.base_offset),
            self._files,
            keeper,
            self._aborted_crcs,
        )
        store.write_aborted_crcs()
        return store


def _end_of(segment: Segment) -> int:
    """The offset behind the last batch of a flushed segment."""
    try:
        last = segment.last_batch()
    except StorageError as error:
        raise DamagedLogError(str(error)) from None
    return segment.base_offset if last is None else last[0] + 1
