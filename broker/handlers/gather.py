"""For requests about several groups: collects one result each, then responds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Gather:
    """Waits for a number of results, which may come in any order.

    Args:
        count: how many results; with none, `done` is called at once.
        done: takes the results in the order of their slots.
    """

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        self._results: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done(self._results)

    def slot(self, index: int) -> Slot:
        """The token for one result."""
        return Slot(self, index)

    def put(self, index: int, result: Any) -> None:
        """Takes the result of one slot."""
        self._results[index] = result
        self._missing -= 1
        if not self._missing:
            self._done(self._results)


class Slot:
    """The place of one result in a `Gather`."""

    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather, index: int) -> None:
        self._gather = gather
        self._index = index

    def answer(self, result: Any) -> None:
        """Takes the result."""
        self._gather.put(self._index, result)
