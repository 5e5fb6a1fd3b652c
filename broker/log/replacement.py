"""Segment replacement: writes the output of compaction, and swaps it in.

As in Kafka, adjacent segments become one if their batches fit, and the suffix of a file
shows its state: `.cleaned` is unfinished; `.swap` is finished, and replaces the
segments that it covers even if the broker dies in between. Oldest segments are swapped
in first, so that a record never outlives the one that deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from kohort.broker.log import files
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.files import Files
from kohort.broker.log.segment import (
    INDEXES,
    LOG,
    MOST_RELATIVE,
    SNAPSHOT,
    TXN_INDEX,
    Segment,
)
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import StorageError
from kohort.protocol import records

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


class SegmentedLog(Protocol):
    """A log in segments, as far as their replacement needs it."""

    config: LogConfig

    @property
    def folder(self) -> Path:
        """The folder of its files."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Its segments, oldest first."""

    def swap(self, old: list[Segment], new: Segment) -> None:
        """Replaces the old segments by the new one."""

    def write_aborted_crcs(self) -> None:
        """Saves the CRCs of the indexes of aborted transactions."""


class SegmentReplacement:
    """Batches that will replace all before an offset.

    Args:
        store: the log.
        end: the start of one of its segments.
        open_files: the open files of the data directory.
        keep_compacted: saves that segments may now end in gaps.
    """

    def __init__(
        self,
        store: SegmentedLog,
        end: int,
        open_files: Files,
        keep_compacted: Callable[[], None],
    ) -> None:
        self._store = store
        self._keep_compacted = keep_compacted
        self._files = open_files
        self._groups = _grouped(store, end)
        self._done: list[tuple[list[Segment], Segment]] = []

    def add(self, batch: bytes) -> None:
        """Adds the next batch, in the order of offsets.

        Raises:
            StorageError: it cannot be written; call `abort`.
        """
        header = records.read_header(batch)
        segment = self._segment_for(header.base_offset)
        segment.append(
            batch,
            len(batch),
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            self._store.config.index_interval_bytes,
        )

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Adds an aborted transaction, whose marker was added before."""
        self._done[-1][1].aborted.add(aborted)

    def _segment_for(self, offset: int) -> Segment:
        while self._groups and self._groups[0][0].base_offset <= offset:
            self._begin_next()
        return self._done[-1][1]

    def _begin_next(self) -> None:
        old = self._groups[0]
        new = Segment(
            self._store.folder, old[0].base_offset, self._files, suffix=CLEANED
        )
        new.written_ms = old[-1].written_ms
        new.create()
        if any(segment.aborted for segment in old):
            # Even without an entry it replaces the old one, also after a crash.
            files.create(new.path(TXN_INDEX))
        self._done.append((old, new))
        del self._groups[0]

    def commit(self) -> None:
        """Replaces the old batches.

        Raises:
            StorageError: it failed. The log is unchanged, or the older part of the
                replacement is in place.
        """
        try:
            while self._groups:
                self._begin_next()
            self._check_old()
            for _, new in self._done:
                new.mark_end()
                new.write_index(is_last=True, is_durable=True)
                new.log.sync()
            files.sync_folder(self._store.folder)
            self._keep_compacted()
        except StorageError:
            self.abort()
            raise
        for number, (old, new) in enumerate(self._done):
            try:
                self._swap(old, new)
            except StorageError:
                del self._done[:number]
                self.abort()
                raise
        self._done.clear()
        self._store.write_aborted_crcs()

    def _check_old(self) -> None:
        kept = set(self._store.segments)
        if not all(kept.issuperset(old) for old, _ in self._done):
            raise StorageError("segments were deleted during compaction")

    def _swap(self, old: list[Segment], new: Segment) -> None:
        _rename(new, SWAP)
        # From here on a restart would finish it, so this must, too.
        self._store.swap(old, new)
        # Otherwise a power loss may lose the new name, and the old files are gone.
        files.sync_folder(self._store.folder)
        for segment in old:
            segment.close()
            for suffix in INDEXES:
                files.remove(segment.path(suffix))
            if segment is not old[0]:
                files.remove(segment.path(SNAPSHOT))
            files.remove(segment.path(LOG))
        # A segment without a suffix must not coexist with those that it has replaced.
        files.sync_folder(self._store.folder)
        _rename(new, "")
        new.is_done()
        files.sync_folder(self._store.folder)

    def abort(self) -> None:
        """Discards the batches that are not in the log yet."""
        for _, new in self._done:
            if new.log.path.name.endswith(CLEANED):
                new.remove_quietly()
        self._done.clear()
        self._groups.clear()


def _grouped(store: SegmentedLog, end: int) -> list[list[Segment]]:
    """Segments before `end`, grouped if their batches fit into one."""
    config = store.config
    groups: list[list[Segment]] = []
    size = index_size = 0
    for segment, next_segment in zip(store.segments, store.segments[1:], strict=False):
        if segment.base_offset >= end:
            break
        grown = size + segment.size
        index_grown = index_size + segment.index.size_of_files
        if (
            groups
            and grown <= config.segment_bytes
            and index_grown <= config.segment_index_bytes
            and next_segment.base_offset - groups[-1][0].base_offset <= MOST_RELATIVE
        ):
            groups[-1].append(segment)
            size, index_size = grown, index_grown
        else:
            groups.append([segment])
            size, index_size = segment.size, segment.index.size_of_files
    return groups


def _rename(segment: Segment, suffix: str) -> None:
    """Gives the files of a segment another suffix, the log last: it decides."""
    segment.log.close()
    for kind in (*INDEXES, LOG):
        path = segment.path(kind)
        if kind == TXN_INDEX and files.size_and_time(path)[0] < 0:
            continue
        files.rename(path, path.with_name(_bare(path.name) + suffix))
    segment.log.path = segment.log.path.with_name(_bare(segment.log.path.name) + suffix)


def _bare(name: str) -> str:
    return name.removesuffix(CLEANED).removesuffix(SWAP)
