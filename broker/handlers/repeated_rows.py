"""Rows of a response for keys that the request may name again and again.

Kafka answers each time, so 400 KB that name a partition 100,000 times get a response of
100 million producers. kohort answers each time, too, with the same row, and up to a
limit, which is checked before a row is added.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from kohort.broker.request import MOST_REPEATED_ROWS, AnswerSizeError

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class RepeatedRows(Generic[K, R]):
    """The rows of one response, each made once.

    rows = RepeatedRows()
    row = rows.again(key)
    if row is None:
        row = rows.keep(key, make(key), size)
    """

    __slots__ = ("_made", "_repeated")

    def __init__(self) -> None:
        self._made: dict[K, tuple[R, int]] = {}
        self._repeated = 0

    def again(self, key: K) -> R | None:
        """The row of a key that occurred before; None for a new key.

        Raises:
            AnswerSizeError: the response would repeat more than `MOST_REPEATED_ROWS`.
        """
        found = self._made.get(key)
        if found is None:
            return None
        row, size = found
        self._repeated += size
        if self._repeated > MOST_REPEATED_ROWS:
            raise AnswerSizeError(f"{MOST_REPEATED_ROWS:,} repeated rows")
        return row

    def keep(self, key: K, row: R, size: int) -> R:
        """Keeps the row of a key, and returns it.

        Args:
            key: a new key.
            row: its row.
            size: the number of rows in it, itself included.
        """
        self._made[key] = row, size
        return row
