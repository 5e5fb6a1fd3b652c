"""Ranges of offsets, each with a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 512
"""Ranges per partition: some 50 kB. Each reader leaves one, or two."""
END: Final = 2**63 - 1
"""An offset above all others."""


class Segments(Generic[T]):
    """Disjoint ranges of offsets in order; neighbours with equal values are merged.

    Attributes:
        rows: (first offset, offset behind the last one, value).
        complete_from: ranges below this offset were forgotten, as there were too many.
    """

    __slots__ = ("complete_from", "rows")

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, T]] = []
        self.complete_from = 0

    def within(self, first: int, end: int = END) -> list[tuple[int, int, T]]:
        """The ranges in a range, cut to it."""
        return [
            (max(a, first), min(b, end), value)
            for a, b, value in self.rows
            if a < end and b > first
        ]

    def gaps(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of a range without a value."""
        for a, b, _ in self.within(first, end):
            if a > first:
                yield first, a
            first = b
        if first < end:
            yield first, end

    def set(self, first: int, end: int, value: T) -> None:
        """Gives a range a value, in place of its earlier ones."""
        if first >= end:
            return
        rows = self.rows
        if rows and rows[-1][1] == first and rows[-1][2] == value:
            # Nearly always: a reader goes on.
            rows[-1] = rows[-1][0], end, value
            return
        self.remove(first, end)
        self.rows.append((first, end, value))
        self.rows.sort(key=_first)
        self._merge()

    def remove(self, first: int, end: int = END) -> None:
        """Takes the values of a range away."""
        if not self.rows or first >= end or self.rows[-1][1] <= first:
            return
        kept = []
        for a, b, value in self.rows:
            if a < first:
                kept.append((a, min(b, first), value))
            if b > end:
                kept.append((max(a, end), b, value))
        self.rows = kept

    def _merge(self) -> None:
        merged: list[tuple[int, int, T]] = []
        for first, end, value in self.rows:
            if merged and merged[-1][1] == first and merged[-1][2] == value:
                merged[-1] = merged[-1][0], end, value
            else:
                merged.append((first, end, value))
        if len(merged) > MOST:
            del merged[: -MOST // 2]
            self.complete_from = merged[0][0]
        self.rows = merged


def _first(row: tuple[int, int, object]) -> int:
    return row[0]
