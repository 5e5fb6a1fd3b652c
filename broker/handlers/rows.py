"""Goes through the rows of large requests in pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable, Iterable
from typing import TypeVar

from kohort.broker.long_work import Pace

T = TypeVar("T", bound=Hashable)


def counted(values: Iterable[T], pace: Pace) -> Generator[None, None, Counter[T]]:
    """How often each value occurs, in the order in which they first do.

    Args:
        values: taken one by one.
        pace: when to yield.
    """
    times: Counter[T] = Counter()
    for value in values:
        times[value] += 1
        if pace.spend(1):
            yield
    return times
