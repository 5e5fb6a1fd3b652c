"""The broker's clock for tests without an event loop: time is moved by hand only."""

from __future__ import annotations

from kohort.broker.clock import BrokerClock

START = 1_700_000_000.0
"""Seconds since the epoch at which the clock starts: in November 2023."""


class ManualClock(BrokerClock):
    """A clock that stands still, and calls timers only by `fire` and `skip`."""

    def __init__(self, now: float = START) -> None:
        super().__init__(None, "manual", now=now)

    def skip(self, seconds: float) -> None:
        """Lets time pass, and fires all timers that become due."""
        until = self.now() + seconds
        while self.fire(until):
            pass
