"""A group's committed offsets: written often, read rarely.

Consumers commit the same partitions again and again. So the offsets of a commit stay
in the columns that they came in, and the next commit of the same partitions takes their
place: one entry of a dict, however many partitions it has. `CommittedOffsets.read`
sorts them by partition; that takes as long as if each commit had done it, and happens
once for many commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final

OffsetKey = tuple[str, int]
"""(topic, partition)."""
OffsetEntry = tuple[int, int, str, int]
"""(offset, leader epoch, metadata, commit time in ms since the epoch)."""

MOST_UNSORTED: Final = 5_000
"""Offsets that wait to be sorted: that takes some 2 ms."""

_Columns = tuple[tuple[OffsetKey, ...], Sequence[int], Sequence[int], int]
"""Partitions, offsets, leader epochs, and the time of the commit."""


class CommittedOffsets:
    """The committed offsets of one group."""

    __slots__ = ("_sorted", "_unsorted", "_unsorted_count")

    def __init__(self) -> None:
        self._sorted: dict[OffsetKey, OffsetEntry] = {}
        # By the identity of its partitions, the latest commit; in order of time, as
        # commits may have some partitions in common. Later than `_sorted`.
        self._unsorted: dict[int, _Columns] = {}
        self._unsorted_count = 0

    def read(self) -> dict[OffsetKey, OffsetEntry]:
        """The offsets by partition, which the caller may change."""
        if self._unsorted:
            self._sort()
        return self._sorted

    def replace(self, offsets: dict[OffsetKey, OffsetEntry]) -> None:
        """Takes over all offsets of a group that was loaded."""
        self._unsorted.clear()
        self._unsorted_count = 0
        self._sorted = offsets

    def put(
        self,
        keys: tuple[OffsetKey, ...],
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        commit_ms: int,
    ) -> None:
        """Stores the offsets of a commit without metadata.

        Args:
            keys: the partitions: the same object as in the last commit of the same
                partitions, or else this costs more.
            offsets: their offsets.
            leader_epochs: their leader epochs.
            commit_ms: the time of the commit, ms since the epoch.
        """
        unsorted, identity = self._unsorted, id(keys)
        if unsorted.pop(identity, None) is None:
            self._unsorted_count += len(keys)
            if self._unsorted_count > MOST_UNSORTED:
                self._sort()
                self._unsorted_count = len(keys)
        unsorted[identity] = keys, offsets, leader_epochs, commit_ms

    def _sort(self) -> None:
        by_key = self._sorted
        for keys, offsets, epochs, commit_ms in self._unsorted.values():
            ends = repeat("", len(keys)), repeat(commit_ms, len(keys))
            rows = zip(offsets, epochs, *ends, strict=True)
            by_key.update(zip(keys, rows, strict=True))
        self._unsorted.clear()
        self._unsorted_count = 0
