"""An event loop with a clock that advances only while it is idle, and faster then.

Scenes with timers do not depend on how busy the machine is: however late a callback
gets the processor, no time has passed for it or for other timers. Everything that a
scene waits for has to be in this one process.
"""

from __future__ import annotations

import asyncio
import selectors
import time

SPEED = 10
"""Seconds of the loop's time per second of idling."""


class _IdleSelector(selectors.DefaultSelector):
    """A selector that adds up its idle time."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self.idle_s = 0.0
        self._speed = speed

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns the ready events; `timeout` is in seconds of the loop's time."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        found = super().select(timeout / self._speed)
        if found:
            idle_s = self._speed * (time.monotonic() - began)
            timeout = min(idle_s, timeout)
        self.idle_s += timeout
        return found


class IdleTimeLoop(asyncio.SelectorEventLoop):
    """Its `time` is that of its selector.

    Args:
        speed: see `SPEED`; infinite for scenes without sockets, which never wait.
    """

    def __init__(self, speed: float = SPEED) -> None:
        self._idle = _IdleSelector(speed)
        super().__init__(self._idle)

    def time(self) -> float:
        """Seconds of idling since the loop was made, times the speed."""
        return self._idle.idle_s
