"""The clocks: one for the broker, which can be moved ahead, and one for its clients.

1. Everything that Kafka's broker decides by time (sessions, rebalances, initial delays,
   retention) uses the `BrokerClock`. It flows like any other clock ("real"), or stands
   still ("manual"). `BrokerClock.advance` moves either one ahead, and fires all timers
   on the way, each at its own time.
2. A client measures on its own clock how long its Fetch may wait, how long it is
   throttled, and whether its connection is idle. These, and the work that protects the
   machine itself (flushes, checkpoints, memory), use a `RealClock`, which nothing
   moves: a Fetch still ends while the broker's time stands still, and a jump of a week
   closes no connection.

All time and all timers come from these two.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

Mode = Literal["real", "manual"]
""""real": the broker's time flows. "manual": it stands still until it is moved."""

MOST_TURNS: Final = 10_000
"""Turns of the event loop that one timer's long work may take while the clock moves:
some ten seconds. Without the limit, clients that send without a pause would make it
endless."""


TURNS_TO_READ: Final = 3
"""Turns of the event loop until the broker knows that a client has closed its
connection: it reads the end, the transport closes, the connection is notified."""


class Timer(Protocol):
    """A callback that is due at some time."""

    def cancel(self) -> None:
        """Cancels the callback."""


class Clock(Protocol):
    """Seconds since the epoch, which never go backwards, and timers."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` once `now()` has reached `when`."""


wall_ns = time.time_ns
"""The machine's clock, ns since the epoch, to compare events with other logs.

It may jump, so durations are never measured with it.
"""


def ns(seconds: float) -> int:
    """Converts seconds since the epoch to nanoseconds."""
    # In two parts: a product would be off by up to 128 ns.
    whole = int(seconds)
    return whole * 1_000_000_000 + round((seconds - whole) * 1_000_000_000)


monotonic = time.monotonic
"""Elapsed seconds; tests replace it, which affects clocks created afterwards."""


class RealClock:
    """The system's monotonic clock, set to the wall clock once, when it is created."""

    __slots__ = ("_ahead", "_loop", "_passed")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._passed = monotonic
        self._ahead = time.time() - monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._passed() + self._ahead

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` from the event loop at `when` or later."""
        return self._loop.call_later(max(0.0, when - self.now()), callback)


class _Timer:
    """A callback of a `BrokerClock`.

    Attributes:
        callback: None once it was called, or cancelled.
    """

    __slots__ = ("_clock", "callback")

    def __init__(self, clock: BrokerClock, callback: Callable[[], object]) -> None:
        self._clock = clock
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancels the callback."""
        if self.callback is not None:
            self.callback = None
            self._clock.forget_one()


def _stands_still() -> float:
    return 0.0


def _no_work() -> int:
    return 0


def _tell_nobody(_seconds: float, _credits_heartbeats: bool) -> None:
    pass


class BrokerClock:
    """The broker's clock: flows or stands still, and can be moved ahead.

        fired = await broker.clock.advance(45)

    Args:
        loop: calls timers that are due. None: only `advance` and `fire` do, for code
            without an event loop.
        mode: "real": time flows; "manual": time stands still.
        now: seconds since the epoch at the start; with flowing time it is a minimum.
            None: the machine's time.
        credit: called with the end of an advance that counts members as heard from,
            and with None once the advance is over.
        work: returns the amount of work in progress in further turns of the loop.
        moved: called when an advance begins, with its seconds and whether it counts
            members as heard from.

    Attributes:
        mode: see above.
    """

    __slots__ = (
        "_advancing",
        "_ahead",
        "_alarm",
        "_alarm_at",
        "_cancelled",
        "_credit",
        "_heap",
        "_loop",
        "_moved",
        "_order",
        "_passed",
        "_until",
        "_work",
        "mode",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        mode: Mode = "real",
        *,
        now: float | None = None,
        credit: Callable[[float | None], object] = lambda _: None,
        work: Callable[[], int] = _no_work,
        moved: Callable[[float, bool], object] = _tell_nobody,
    ) -> None:
        self.mode = mode
        self._loop = loop
        self._passed = monotonic if mode == "real" else _stands_still
        if now is None or mode == "real":
            now = max(time.time(), now or 0)
        self._ahead = now - self._passed()
        self._heap: list[tuple[float, int, _Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0
        # The clock's only callback in the event loop, and the time for which it is set;
        # -inf for the next turn of the loop.
        self._alarm: asyncio.Handle | None = None
        self._alarm_at = math.inf
        self._until = -math.inf
        self._advancing = asyncio.Lock()
        self._credit = credit
        self._work = work
        self._moved = moved

    @property
    def timer_count(self) -> int:
        """The number of timers; a cancelled one may be counted until its time."""
        return len(self._heap)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._passed() + self._ahead

    @property
    def horizon(self) -> float:
        """The end of the advance in progress; without one, the current time."""
        return max(self._until, self.now())

    # -- timers

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` once `now()` has reached `when`, in a later turn."""
        timer = _Timer(self, callback)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        if when < self._alarm_at or self._is_late(when):
            self._set_alarm()
        return timer

    def _is_late(self, when: float) -> bool:
        """Returns whether a timer is due at once, but the alarm is an overdue one.

        The event loop calls that behind all that has arrived meanwhile.
        """
        return self._alarm_at != -math.inf and when <= self.now()

    def forget_one(self) -> None:
        """Counts a cancelled timer; drops them all when they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled > len(self._heap) // 2:
            self._heap = [row for row in self._heap if row[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _first(self) -> float:
        """The time of the first timer; infinity if there is none."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else math.inf

    def _call_first(self) -> None:
        timer = heapq.heappop(self._heap)[2]
        callback, timer.callback = timer.callback, None
        assert callback is not None
        callback()

    def _set_alarm(self) -> None:
        """Schedules a callback of the event loop for the first timer."""
        if self._loop is None:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_at = first = self._first()
        wait = first - self.now()
        if wait <= 0:
            self._alarm = self._loop.call_soon(self._ring)
            self._alarm_at = -math.inf
        elif self.mode == "real" and first != math.inf:
            self._alarm = self._loop.call_later(wait, self._ring)
        else:
            # Time stands still, so the next timer may be due already.
            self._alarm_at = math.inf

    def _ring(self) -> None:
        """Calls the timers that are due; timers added meanwhile wait a turn."""
        now, latest = self.now(), next(self._order)
        # Set once, at the end: two alarms would call two generations in one turn.
        self._alarm, self._alarm_at = None, -math.inf
        try:
            while self._first() <= now and self._heap[0][1] < latest:
                self._call_first()
        finally:
            # Also when a timer failed; the loop reports the error.
            self._set_alarm()

    # -- moving time

    def fire(self, until: float) -> bool:
        """Calls the next timer that is due by `until`, at its time.

        Returns:
            False if there is none; the time is now `until`.
        """
        first = self._first()
        self._move_to(min(first, until))
        if first > until:
            return False
        self._call_first()
        return True

    def _move_to(self, when: float) -> None:
        self._ahead = max(self._ahead, when - self._passed())

    async def advance(self, seconds: float, credit_heartbeats: bool = True) -> int:
        """Moves the time ahead and calls all timers that become due, in order.

        Each timer is called with `now()` at its deadline. Before the next one, the
        event loop gets turns until the consequences are handled: responses sent,
        records written, groups loaded. The advance does not wait for clients. If a
        client has to react before more time passes, advance in steps and await the
        reaction in between.

        Args:
            seconds: how far. A second advance waits for the end of the first.
            credit_heartbeats: members with a live connection count as heard from up
                to the end, as if their heartbeats had come. False: their sessions
                expire. Members that are muted, or whose connection is closed, expire
                in either case.

        Returns:
            The number of timers called.

        Raises:
            ValueError: `seconds` is negative, infinite or not a number.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a clock cannot be moved ahead by {seconds} seconds")
        async with self._advancing:
            # A client that was killed just before gets no credit.
            for _ in range(TURNS_TO_READ):
                await asyncio.sleep(0)
            self._until = until = self.now() + seconds
            if seconds:
                self._moved(seconds, credit_heartbeats)
            if credit_heartbeats:
                self._credit(until)
            fired = 0
            try:
                await self._settle()
                while self._fire_safely(until):
                    fired += 1
                    await self._settle()
            finally:
                self._until = -math.inf
                if credit_heartbeats:
                    self._credit(None)
                self._set_alarm()
            return fired

    def _fire_safely(self, until: float) -> bool:
        """The same as `fire`; a failing timer is reported to the event loop."""
        try:
            return self.fire(until)
        except Exception as error:  # noqa: BLE001 - the other timers go on
            message = "a timer of the broker failed"
            context = {"message": message, "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return True

    async def _settle(self) -> None:
        """Gives the event loop turns until the broker has nothing left to do.

        A timer's consequences are handled in its call, in the next turn (responses are
        written, the next requests of a connection handled), in long work, or by timers
        that are due at once, which come before all others.
        """
        await asyncio.sleep(0)
        turns = 1
        while self._work() and turns < MOST_TURNS:
            await asyncio.sleep(0)
            turns += 1
