"""A clock that is moved by hand, so that tests need not wait."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

START = 1_700_000_000.0
"""Seconds since the epoch at which the clock starts: in November 2023."""


class _Timer:
    """A callback that is due at some time."""

    __slots__ = ("callback", "is_cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """The callback is not called any more."""
        self.is_cancelled = True


class ManualClock:
    """Time that passes only by `fire` and `advance`.

    Args:
        now: seconds since the epoch.
    """

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> _Timer:
        """Calls `callback` once `now()` has reached `when`."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def fire(self, until: float) -> bool:
        """Fires the next timer that is due by `until`; False if there is none."""
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                self._now = max(self._now, when)
                timer.callback()
                return True
        self._now = until
        return False

    def advance(self, seconds: float) -> None:
        """Lets time pass, and fires all timers that become due."""
        until = self._now + seconds
        while self.fire(until):
            pass
