"""The broker's clock, for tests to move."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.testing.thread import BrokerThread


class Advance(Handle):
    """A move of the clock.

    Attributes:
        fired: number of timers that were due on the way.
    """

    fired: int


class Clock:
    """The broker's clock."""

    def __init__(self, thread: BrokerThread, waits: Waits) -> None:
        self._thread = thread
        self._waits = waits

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._thread.broker.clock.now()

    def advance(
        self,
        seconds: float = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        credit_heartbeats: bool = True,
    ) -> Advance:
        """Moves the clock ahead; every timer that is due fires, in order.

        Args:
            seconds: added up with the others.
            minutes: see `seconds`.
            hours: see `seconds`.
            days: see `seconds`.
            credit_heartbeats: whether members with an open connection count as heard
                from all the time; False shows how their sessions expire.
        """
        __tracebackhide__ = True
        by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        made = Advance()

        async def work() -> None:
            made.fired = await self._thread.broker.clock.advance(
                by.total_seconds(), credit_heartbeats=credit_heartbeats
            )

        return self._waits.begin(made, work(), f"kohort.clock.advance({by})")
