"""The broker's only clock.

Time and timers come from this clock only, so that a virtual clock, or one that a
test advances by hand, can replace it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that is due at some time."""

    def cancel(self) -> None:
        """The callback is not called any more."""


class Clock(Protocol):
    """The time in seconds since the epoch, which never goes backwards, and timers."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` once `now()` has reached `when`."""


wall_ns = time.time_ns
"""The machine's clock, ns since the epoch, to compare events with other logs.

It may jump, so no duration is measured by it.
"""


class RealClock:
    """The system's monotonic clock, set to the wall clock once, at its creation."""

    __slots__ = ("_ahead", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() + self._ahead

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` from the event loop at `when` or later."""
        return self._loop.call_later(max(0.0, when - self.now()), callback)
