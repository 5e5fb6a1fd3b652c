"""Examines the folder of a partition: reads all its files, and changes nothing.

It finds damage in every file; `judgement` decides whether batches are whole and where
records are missing. ``kohort verify`` finds the effect of a start by a rehearsal.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kohort.broker.log import checkpoints, files, snapshots
from kohort.broker.log.aborted import AbortedIndex
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.epochs import LeaderEpochs
from kohort.broker.log.index import OFFSET, OFFSET_ENTRY, TIME, TIME_ENTRY
from kohort.broker.log.judgement import Batches, Read, next_whole, why_not_all
from kohort.broker.log.producers import Producers
from kohort.broker.log.recovery import CUT
from kohort.broker.log.replacement import CLEANED, DELETED, SWAP
from kohort.broker.log.segment import (
    INDEXES,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
)
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchHeader
from kohort.protocol.slotted import slotted

_NAME_DIGITS: Final = 20
_LEFT_BY_A_CRASH: Final = (CLEANED, SWAP, DELETED, ".tmp")


@slotted
class Finding:
    """A state of a file that a clean stop does not leave.

    Attributes:
        path: of the file or the folder.
        what: one line.
        is_damage: a crash does not leave it, or it hides records.
        offset: records from this one on are damaged or missing; None if no record is.
        next_offset: the first whole record behind them; None if there is none, or no
            record is damaged.
    """

    path: Path
    what: str
    is_damage: bool
    offset: int | None = None
    next_offset: int | None = None


@slotted
class Known:
    """Facts about a partition that are not in its folder.

    Attributes:
        recovery_point: all before this offset was flushed.
        log_start: the log starts there, or at its first segment if that is later.
        may_have_gaps: whether it may have been compacted.
        is_clean: whether the broker stopped cleanly.
        is_kohort: whether kohort wrote it, and not Apache Kafka.
    """

    recovery_point: int = 0
    log_start: int = 0
    may_have_gaps: bool = True
    is_clean: bool = False
    is_kohort: bool = False


class Examination:
    """The examination of one partition.

    Args:
        folder: the partition's folder.
        known: see `Known`.
        progress: called with the number of bytes read since its last call.

    Attributes:
        findings: in the order of files.
        segments: number of segments.
        size: bytes of their batches.
        records: number of records in whole batches.
        log_start: the first offset.
        log_end: the offset behind the last whole batch.
    """

    def __init__(
        self, folder: Path, known: Known, progress: Callable[[int], None]
    ) -> None:
        self._folder = folder
        self._known = known
        self._progress = progress
        self._epochs: LeaderEpochs | None = None
        # By producer id and last offset: the snapshots that list that batch.
        self._of_snapshots: dict[tuple[int, int], str] = {}
        # By offset: the producers with an open transaction, by a snapshot.
        self._open_at: dict[int, set[int]] = {}
        self._transactions = _Transactions()
        self.findings: list[Finding] = []
        self.segments = 0
        self.size = 0
        self.records = 0
        self.log_start = known.log_start
        self.log_end = known.log_start

    def run(self) -> None:
        """Reads everything.

        Raises:
            StorageError: a file cannot be read.
        """
        names = files.names_in(self._folder)
        bases = [int(stem) for stem in _stems(names, LOG)]
        self.segments = len(bases)
        self._examine_epochs()
        self._examine_leftovers(names)
        if bases:
            self.log_start = max(self.log_start, bases[0])
        for stem in _stems(names, SNAPSHOT):
            self._examine_snapshot(int(stem), is_start=int(stem) in bases[:1])
        if bases[:1] != [0] and not self._open_at.keys() & {*bases[:1]}:
            # The beginnings of the first transactions are unknown.
            self._open_at.clear()
        for base, following in zip_longest(bases, bases[1:]):
            if not self._known.may_have_gaps:
                # Compaction removes aborted records.
                self._examine_open(base)
            self._examine_segment(base, following)
        self._examine_open(self.log_end)
        self._examine_producers()
        self._examine_ends(bases)

    def _find(
        self,
        name: str,
        what: str,
        *,
        is_damage: bool = True,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        path = self._folder / name
        self.findings.append(Finding(path, what, is_damage, offset, next_offset))

    # -- small files

    def _examine_epochs(self) -> None:
        name = checkpoints.LEADER_EPOCHS
        entries = checkpoints.read_epochs(self._folder)
        if entries is not None:
            self._epochs = LeaderEpochs(entries)
        elif files.size_and_time(self._folder / name)[0] >= 0:
            self._find(name, "it is not whole")
        elif self._known.is_kohort:
            self._find(name, "it is missing")
        if self._known.is_kohort:
            self._examine_topic_id()

    def _examine_topic_id(self) -> None:
        name = checkpoints.PARTITION_METADATA
        found = checkpoints.read_topic_id(self._folder)
        if found is None:
            self._find(name, "it has no id of a topic")
        elif files.read_file(self._folder / name) != checkpoints.topic_id_text(found):
            self._find(name, "it is not as it was written")

    def _examine_leftovers(self, names: list[str]) -> None:
        logs = set(_stems(names, LOG))
        for name in names:
            stem, dot, kind = name.partition(".")
            if name.endswith(_LEFT_BY_A_CRASH):
                self._find(name, "left over from a crash", is_damage=False)
            elif name.endswith(CUT):
                what = "a start has cut these batches off a damaged log"
                self._find(name, what, is_damage=False)
            elif dot + kind in INDEXES and stem not in logs:
                self._find(name, "the segment of this index is missing")

    def _examine_snapshot(self, offset: int, *, is_start: bool) -> None:
        name = file_name(offset, SNAPSHOT)
        try:
            data = files.read_file(self._folder / name)
            producers = snapshots.decode(data or b"")
        except snapshots.SnapshotError as error:
            self._find(name, str(error))
            return
        self._open_at[offset] = {*producers.open.values()}
        if is_start:
            self._transactions.producers = producers
        for producer_id, state in producers.states.items():
            if not state.batches:
                continue
            last = state.batches[-1].last_offset
            if last >= offset:
                self._find(name, f"it has offset {last} of producer {producer_id}")
                return
            self._of_snapshots[producer_id, last] = name

    def _examine_producers(self) -> None:
        """Finds snapshots of another partition: they list batches that the log lacks.

        Batches also disappear by compaction, and by damage that was found before.
        """
        if not self._known.is_kohort or self._known.may_have_gaps or self.findings:
            return
        for (producer_id, offset), name in self._of_snapshots.items():
            if offset >= self.log_start:
                what = f"offset {offset} does not belong to producer {producer_id}"
                self._find(name, what)

    def _examine_ends(self, bases: list[int]) -> None:
        """Compares the end of the log with the checkpoints."""
        known, end = self._known, self.log_end
        last = file_name(bases[-1], LOG) if bases else "."
        flushed = max(known.recovery_point, known.log_start)
        if end < flushed:
            what = f"the log ends at offset {end}, and had been flushed up to {flushed}"
            self._find(last, what, offset=end)
        elif known.is_clean and known.is_kohort and end != known.recovery_point:
            point = known.recovery_point
            self._find(last, f"a clean stop was at offset {point}, not at {end}")
        snapshot = file_name(end, SNAPSHOT)
        is_written = known.is_clean and known.is_kohort and end > 0
        if is_written and files.size_and_time(self._folder / snapshot)[0] < 0:
            self._find(snapshot, "it is missing")

    def _examine_open(self, offset: int) -> None:
        """Compares the open transactions of a snapshot with those of the batches."""
        found = self._open_at.get(offset)
        transactions = self._transactions
        if found is not None and not transactions.have_open(found):
            what = "its open transactions are not those of the log"
            self._find(file_name(offset, SNAPSHOT), what)

    # -- segments

    def _examine_segment(self, base: int, following: int | None) -> None:
        name = file_name(base, LOG)
        is_last = following is None
        with _reading(self._folder / name, self._progress) as (read, size):
            self.size += size
            self._transactions.aborted.clear()
            walk = _Walk(base, _Indexes(self._folder, base, size))
            is_whole = self._walk(walk, name, read, size, is_last=is_last)
        self.records += walk.records
        self.log_end = max(self.log_end, walk.next_offset)
        self._examine_epochs_of(walk, name)
        self._examine_indexes(walk, base, is_last=is_last, is_whole=is_whole)
        if following is None or following <= self._known.log_start:
            return
        why = why_not_all(
            walk.next_offset,
            following,
            may_have_gaps=self._known.may_have_gaps,
            index_knows_more=walk.indexes.knows_more and self._known.is_kohort,
        )
        if why and is_whole:
            self._find(name, why, offset=walk.next_offset, next_offset=following)

    def _walk(
        self, walk: _Walk, name: str, read: Read, size: int, *, is_last: bool
    ) -> bool:
        """Reads the batches, also behind damage; returns whether there was none."""
        position, next_offset, is_whole = 0, walk.next_offset, True
        while True:
            batches = Batches(
                read,
                size,
                next_offset,
                is_dense=is_last or not self._known.may_have_gaps,
                position=position,
            )
            for at, header in batches:
                # Epochs that ended before the start of the log are forgotten.
                is_kept = header.base_offset >= self.log_start
                walk.note(at, header, self._epochs if is_kept else None)
                try:
                    self._transactions.note(header, read, at)
                except WireError as error:
                    what = f"the marker at offset {header.base_offset}: {error}"
                    self._find(name, what, offset=header.base_offset)
                self._of_snapshots.pop((header.producer_id, header.last_offset), None)
            if not batches.why:
                return is_whole
            is_whole = self._transactions.are_known = False
            offset = batches.next_offset
            found = next_whole(read, size, batches.position, offset)
            is_known_end = self._known.is_clean or offset < self._known.recovery_point
            is_torn = batches.is_torn and found is None and is_last
            self._find(
                name,
                f"from byte {batches.position} on: {batches.why}",
                # A crash during a write leaves only the beginning of one batch.
                is_damage=is_known_end or not is_torn,
                offset=offset,
                next_offset=None if found is None else found[1],
            )
            if found is None:
                return is_whole
            position, next_offset = found

    def _examine_epochs_of(self, walk: _Walk, name: str) -> None:
        if walk.wrong_epoch is not None and self._known.is_kohort:
            offset, epoch, expected = walk.wrong_epoch
            self._find(
                checkpoints.LEADER_EPOCHS,
                f"the batch at offset {offset} in {name} has epoch {epoch}, and by "
                f"this file it is {expected}",
            )

    def _examine_indexes(
        self, walk: _Walk, base: int, *, is_last: bool, is_whole: bool
    ) -> None:
        indexes = walk.indexes
        for suffix, size, entry_size in (
            (OFFSET_INDEX, indexes.offset_size, OFFSET_ENTRY),
            (TIME_INDEX, indexes.time_size, TIME_ENTRY),
        ):
            name = file_name(base, suffix)
            if size < 0:
                # A copy of Kafka's files may lack them.
                self._find(name, "it is missing", is_damage=self._known.is_kohort)
            elif size % entry_size:
                self._find(name, f"{size} bytes are not a whole number of entries")
        if not is_whole:
            # Entries for damaged batches are not additional damage.
            return
        # Kafka preallocates the active segment's index, which a crash leaves as it is.
        is_trusted = self._known.is_kohort or self._known.is_clean or not is_last
        if not is_trusted:
            return
        self._examine_aborted(base, walk.next_offset, is_last=is_last)
        if indexes.is_disordered or indexes.by_position:
            self._find(file_name(base, OFFSET_INDEX), "it has entries without a batch")
        if indexes.times and self._known.is_kohort:
            self._find(file_name(base, TIME_INDEX), "it has times of no batch")
        elif not is_last and not walk.is_latest_known and self._known.is_kohort:
            self._find(file_name(base, TIME_INDEX), "the largest time has no entry")

    def _examine_aborted(self, base: int, end: int, *, is_last: bool) -> None:
        name = file_name(base, TXN_INDEX)
        index = AbortedIndex.load(base, end, self._folder / name)
        # A crash leaves the active segment without it, and a start rebuilds it.
        is_written = self._known.is_clean or not is_last
        if index is None:
            self._find(name, "its entries are no aborted transactions of this segment")
        elif is_written and not self._transactions.agree(index):
            self._find(name, "it differs from the aborted transactions of the segment")


class _Indexes:
    """The entries of a segment's two indexes that no batch has confirmed yet."""

    def __init__(self, folder: Path, base: int, log_size: int) -> None:
        offsets = files.read_file(folder / file_name(base, OFFSET_INDEX))
        times = files.read_file(folder / file_name(base, TIME_INDEX))
        self.offset_size = -1 if offsets is None else len(offsets)
        self.time_size = -1 if times is None else len(times)
        offsets, times = offsets or b"", times or b""
        whole = len(offsets) - len(offsets) % OFFSET_ENTRY
        rows = list(OFFSET.iter_unpack(offsets[:whole]))
        self.by_position = {position: base + offset for offset, position in rows}
        columns = array("q", [r[0] for r in rows]), array("q", [r[1] for r in rows])
        self.is_disordered = any(list(c) != sorted(set(c)) for c in columns)
        self.knows_more = bool(rows) and rows[-1][1] >= log_size
        whole = len(times) - len(times) % TIME_ENTRY
        self.times = {
            time: base + offset for time, offset in TIME.iter_unpack(times[:whole])
        }
        if not log_size and times:
            self.knows_more = True


class _Walk:
    """The whole batches of a segment."""

    def __init__(self, base: int, indexes: _Indexes) -> None:
        self.next_offset = base
        self.indexes = indexes
        self.records = 0
        self.wrong_epoch: tuple[int, int, int] | None = None
        # Whether the time index has the largest timestamp.
        self.is_latest_known = True
        self._max_timestamp = -1

    def note(
        self, position: int, header: BatchHeader, epochs: LeaderEpochs | None
    ) -> None:
        """Counts a batch, and confirms the index entries that match it."""
        self.next_offset = header.last_offset + 1
        self.records += header.record_count
        indexes = self.indexes
        if indexes.by_position.get(position) == header.last_offset:
            del indexes.by_position[position]
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            time = header.max_timestamp
            self.is_latest_known = indexes.times.get(time) == header.last_offset
            if self.is_latest_known:
                del indexes.times[time]
        if epochs is not None and self.wrong_epoch is None:
            expected = epochs.at(header.base_offset)
            if header.partition_leader_epoch != expected:
                epoch = header.partition_leader_epoch
                self.wrong_epoch = header.base_offset, epoch, expected


class _Transactions:
    """The aborted transactions of a segment, by its batches and those before.

    Attributes:
        producers: their state after the last batch.
        aborted: the aborted transactions, each with the offset of the producer's marker
            before; their first offsets are those of the remaining records.
        are_known: whether no batch before was damaged.
    """

    def __init__(self) -> None:
        self.producers = Producers()
        self.aborted: list[tuple[int, AbortedTransaction]] = []
        self.are_known = True
        self._ends: dict[int, int] = {}

    def note(self, header: BatchHeader, read: Read, position: int) -> None:
        """Adds the next batch.

        Raises:
            WireError: it is a malformed marker.
        """
        aborted = self.producers.replayed(header, lambda: read(position, header.size))
        if aborted is not None:
            before = self._ends.get(header.producer_id, -1)
            self.aborted.append((before, aborted))
        if header.is_control:
            self._ends[header.producer_id] = header.last_offset

    def have_open(self, producer_ids: set[int]) -> bool:
        """Returns whether these producers have open transactions, and no others."""
        return not self.are_known or {*self.producers.open.values()} == producer_ids

    def agree(self, index: AbortedIndex) -> bool:
        """Returns whether the index of the segment has these transactions.

        Compaction may have removed the first records of a transaction, or all.
        """
        found = {each.last_offset: each for each in index}
        for before, aborted in self.aborted:
            producer_id, first_offset, last_offset, stable = aborted
            entry = found.pop(last_offset, None)
            if first_offset < 0:
                first_offset = last_offset
                if entry is None:
                    continue
            if (
                entry is None
                or entry.producer_id != producer_id
                or not before < entry.first_offset <= first_offset
                or entry.last_stable_offset > stable
            ):
                return not self.are_known
        return not found or not self.are_known


def _stems(names: list[str], suffix: str) -> list[str]:
    """The names of files of a kind, without its suffix."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [stem for stem in stems if stem.isdigit() and len(stem) == _NAME_DIGITS]


@contextmanager
def _reading(path: Path, progress: Callable[[int], None]) -> Iterator[tuple[Read, int]]:
    """Reads from a file, and its size."""
    with files.storage_errors("read", path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size, furthest = os.fstat(fd).st_size, 0

            def read(position: int, count: int) -> bytes:
                nonlocal furthest
                data = os.pread(fd, count, position)
                if position + len(data) > furthest:
                    progress(position + len(data) - furthest)
                    furthest = position + len(data)
                return data

            yield read, size
        finally:
            os.close(fd)
