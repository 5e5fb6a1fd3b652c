"""Keyed timers of a coordinator: one timer of the clock, set to the first deadline."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.runtime.effects import Arm, Disarm
from kohort.broker.runtime.events import TimerKey

log = telemetry.Logger("shards")

DUE_AT_ONCE = 16
"""Timers that one coordinator fires in one turn of the loop: about a millisecond.
50,000 sessions that end together would block everything else for seconds."""


class Timers:
    """The timers of one coordinator.

    Args:
        clock: the source of time and timers.
        expire: called with the key of each timer that is due, in order.
        begin: called before the due timers of one turn.

    Attributes:
        deadlines: of the timers that are set.
    """

    def __init__(
        self,
        clock: Clock,
        expire: Callable[[TimerKey], None],
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._clock = clock
        self._expire = expire
        self._begin = begin
        self.deadlines: dict[TimerKey, float] = {}
        # Entries with another deadline than `deadlines` has are obsolete and skipped.
        self._heap: list[tuple[float, TimerKey]] = []
        self._timer: Timer | None = None
        self._timer_at = math.inf

    def arm(self, arm: Arm) -> None:
        """Sets a timer; replaces an earlier one of its key."""
        self.deadlines[arm.key] = arm.deadline
        heapq.heappush(self._heap, (arm.deadline, arm.key))
        if arm.deadline < self._timer_at:
            self._schedule()
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self.deadlines):
            # Most entries are obsolete, for example after heavy churn.
            self._heap = [(when, key) for key, when in self.deadlines.items()]
            heapq.heapify(self._heap)

    def disarm(self, disarm: Disarm) -> None:
        """Removes a timer, if it is set."""
        self.deadlines.pop(disarm.key, None)

    def stop(self) -> None:
        """Removes all timers."""
        self.deadlines.clear()
        self._heap.clear()
        self._schedule()

    def _schedule(self) -> None:
        """Sets the only timer to the first valid deadline."""
        heap, deadlines = self._heap, self.deadlines
        while heap and deadlines.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        if self._timer is not None:
            if heap and self._timer_at == heap[0][0]:
                return
            self._timer.cancel()
            self._timer = None
            self._timer_at = math.inf
        if heap:
            self._timer_at = heap[0][0]
            self._timer = self._clock.call_at(self._timer_at, self._fire)

    def _fire(self) -> None:
        """Fires due timers in order, `DUE_AT_ONCE` in each turn of the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_at = math.inf
        now = self._clock.now()
        if self._begin is not None:
            self._begin()
        left = DUE_AT_ONCE
        while left and self._heap and self._heap[0][0] <= now:
            left -= 1
            when, key = heapq.heappop(self._heap)
            if self.deadlines.get(key) == when:
                del self.deadlines[key]
                try:
                    self._expire(key)
                except Exception:
                    # A defect of ours, in one group: the timers of others must fire.
                    log.exception("timer_failed", key=key)
        self._schedule()
