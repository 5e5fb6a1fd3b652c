"""Segment replacement: writes the output of compaction, and swaps it in.

As in Kafka, neighbouring segments become one as long as their batches fit, and
files go by their suffix: `.cleaned` are not finished, `.swap` are, and replace the
segments that they cover even if the broker dies in between. They are swapped in oldest
first, so that a record never outlives the one that deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from kohort.broker.log import files
from kohort.broker.log.files import Files
from kohort.broker.log.segment import (
    LOG,
    MOST_RELATIVE,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
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
        """Its segments, the oldest first."""

    def swap(self, old: list[Segment], new: Segment) -> None:
        """Reads from the new segment in place of the old ones."""


class SegmentReplacement:
    """Batches that are to stand for all before an offset.

    Args:
        store: the log.
        end: where one of its segments starts.
        open_files: those of the data directory.
        keep_compacted: writes down that segments may end in gaps from now on.
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
        """The next batch, in the order of offsets.

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
        self._done.append((old, new))
        del self._groups[0]

    def commit(self) -> None:
        """Puts the batches in place of the old ones.

        Raises:
            StorageError: it went wrong. The log reads as before, or has taken over
                the older part of the replacement.
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

    def _check_old(self) -> None:
        kept = set(self._store.segments)
        if not all(kept.issuperset(old) for old, _ in self._done):
            raise StorageError("segments were deleted during compaction")

    def _swap(self, old: list[Segment], new: Segment) -> None:
        _rename(new, SWAP)
        # From here on a restart would finish it, so this must, too.
        self._store.swap(old, new)
        # Else a loss of power may take the new name, and the old files with it.
        files.sync_folder(self._store.folder)
        for segment in old:
            segment.close()
            for suffix in (OFFSET_INDEX, TIME_INDEX):
                files.remove(segment.path(suffix))
            if segment is not old[0]:
                files.remove(segment.path(SNAPSHOT))
            files.remove(segment.path(LOG))
        # A segment without a suffix must not meet those that it has replaced.
        files.sync_folder(self._store.folder)
        _rename(new, "")
        new.is_done()
        files.sync_folder(self._store.folder)

    def abort(self) -> None:
        """Throws the batches away that are not in the log yet."""
        for _, new in self._done:
            if new.log.path.name.endswith(CLEANED):
                new.remove_quietly()
        self._done.clear()
        self._groups.clear()


def _grouped(store: SegmentedLog, end: int) -> list[list[Segment]]:
    """Segments before `end`, those together whose batches fit into one."""
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
    """Gives the files of a segment another suffix, the log last: it counts."""
    segment.log.close()
    for kind in (OFFSET_INDEX, TIME_INDEX, LOG):
        path = segment.path(kind)
        files.rename(path, path.with_name(_bare(path.name) + suffix))
    segment.log.path = segment.log.path.with_name(_bare(segment.log.path.name) + suffix)


def _bare(name: str) -> str:
    return name.removesuffix(CLEANED).removesuffix(SWAP)
