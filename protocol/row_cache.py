"""A cache of values that are made from the rows of a request.

Consumers commit the same partitions again and again, so what depends only on their
names is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

MOST_ROWS: Final = 1 << 17
"""Rows of all values of a cache, some 200 bytes each: enough for 2,000 consumers that
commit 64 partitions each, or any number that commit the same ones."""
LARGEST: Final = 1000
"""Rows of a value that is kept."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RowCache(Generic[K, V]):
    """Values by keys, bounded by the number of their rows; emptied when it is full.

    Attributes:
        get: returns the value of a key; None without one.
        rows: the number of rows of all values.
    """

    __slots__ = ("_values", "get", "rows")

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        # Not a method, which would take twice as long.
        self.get: Callable[[K], V | None] = self._values.get
        self.rows = 0

    def keep(self, key: K, value: V, rows: int) -> V:
        """Keeps a value that has this many rows, unless they are too many.

        Returns:
            The value.
        """
        if rows <= LARGEST:
            if self.rows + rows > MOST_ROWS:
                self._values.clear()
                self.rows = 0
            self._values[key] = value
            self.rows += rows
        return value
