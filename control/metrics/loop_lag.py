"""Lag of the event loop: the delay of its callbacks, and so of all responses."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from kohort.broker.api_counts import Histogram

EVERY_S: Final = 0.25
"""The pause between two looks."""
WINDOW: Final = 240
"""Looks that the largest lag is of: those of the last minute."""
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds."""


class LoopLag:
    """Looks, four times a second, how much later than asked for it is called.

    Attributes:
        seconds: all that was seen.
    """

    def __init__(self) -> None:
        self.seconds = Histogram(BOUNDS)
        self._latest: deque[float] = deque(maxlen=WINDOW)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """The largest lag of the last minute, in seconds."""
        return max(self._latest, default=0.0)

    def start(self) -> None:
        """Looks from now on, at the running loop."""
        loop = asyncio.get_running_loop()
        self._arm(loop, loop.time() + EVERY_S)

    def stop(self) -> None:
        """Stops measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # Loops round to a millisecond, and may be early by that.
        lag = max(0.0, loop.time() - due)
        self.seconds.observe(lag)
        self._latest.append(lag)
        self._arm(loop, loop.time() + EVERY_S)
