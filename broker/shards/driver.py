"""The asyncio driver of a coordinator: performs its effects, and owns its timers.

The same ritual everywhere: hand an event in, perform its effects in order.
A token of an event is the `Waiter` that gets the reply.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    Disarm,
    Effect,
    Notice,
    Reply,
    Result,
)
from kohort.broker.coordinator.events import Event, Expired, TimerKey
from kohort.broker.coordinator.load import Loading
from kohort.broker.log.store import StorageError

log = telemetry.Logger("groups")


DUE_AT_ONCE = 16
"""Timers that one coordinator fires in one turn of the loop: about a millisecond. The
sessions of 50,000 members that end together would stop all others for seconds."""


class Waiter(Protocol):
    """A token that waits for the reply to its event."""

    def answer(self, result: Result) -> None:
        """Takes the result; called once."""


def answer(token: object, result: Result) -> None:
    """Answers an event: tokens are waiters here, which the coordinator never sees."""
    cast("Waiter", token).answer(result)


class GroupDriver:
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: where the time and timers come from.
        append: writes records of the coordinator to the log; when it returns,
            the replies that stand on them go out.
        lost: called if `append` raises `StorageError`, with the effects that it
            was among: the coordinator's state is ahead of the log then.
        publish: takes a notice, and its time.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        clock: Clock,
        append: Callable[[Append], None],
        lost: Callable[[Sequence[Effect]], None],
        publish: Callable[[Notice, float], None],
    ) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._lost = lost
        # One entry per key that counts; entries of the heap whose deadline is
        # not the key's any more are passed over.
        self._deadlines: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, TimerKey]] = []
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._is_behind = False
        self._publish = publish
        # The time of this turn, and how many offsets it has removed.
        self._now = 0.0
        self._expired = 0
        self._perform: dict[type, Callable[..., None]] = {
            Append: append,
            Arm: self._arm,
            Disarm: self._disarm,
        }

    def start(self, loading: Loading) -> None:
        """Takes over the loaded groups, and arms the check for expired offsets."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.take_over(loading, now))
        self._run(self.coordinator.start(now))

    def stop(self) -> None:
        """No timer fires any more."""
        self._deadlines.clear()
        self._heap.clear()
        self._schedule()

    def submit(self, event: Event) -> None:
        """Hands an event to the coordinator and performs its effects."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.handle(event, now))
        if self._timer_at <= now and not self._is_behind:
            # Timers of 0 ms fire before the next request.
            self._fire()

    def _run(self, effects: list[Effect]) -> None:
        try:
            for effect in effects:
                if type(effect) is Reply:
                    # The driver's tokens are waiters; the coordinator never looks.
                    effect.token.answer(effect.result)  # type: ignore[attr-defined]
                elif type(effect) is Notice:
                    self._publish(effect, self._now)
                    if effect[0] == "offsets_expired":
                        self._expired += len(effect.fields["expired"])
                else:
                    self._perform[type(effect)](effect)
        except StorageError:
            self._lost(effects)

    def _log_expired(self) -> None:
        """Logs the expired offsets of all groups in one line, in Kafka's words."""
        count, self._expired = self._expired, 0
        took_ms = round((self._clock.now() - self._now) * 1000)
        line = f"Removed {count} expired offsets in {took_ms} milliseconds."
        log.info(line)

    def _arm(self, arm: Arm) -> None:
        self._deadlines[arm.key] = arm.deadline
        heapq.heappush(self._heap, (arm.deadline, arm.key))
        if arm.deadline < self._timer_at:
            self._schedule()
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._deadlines):
            # Mostly entries that do not count any more, as after heavy churn.
            self._heap = [(when, key) for key, when in self._deadlines.items()]
            heapq.heapify(self._heap)

    def _disarm(self, disarm: Disarm) -> None:
        self._deadlines.pop(disarm.key, None)

    def _schedule(self) -> None:
        """Sets the one timer to the first deadline that counts."""
        heap, deadlines = self._heap, self._deadlines
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
        """Hands in due timers in order, `DUE_AT_ONCE` in each turn of the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_at = math.inf
        now = self._clock.now()
        # Nor do requests fire timers while more are due than one turn takes.
        self._is_behind = True
        left = DUE_AT_ONCE
        while left and self._heap and self._heap[0][0] <= now:
            left -= 1
            when, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == when:
                del self._deadlines[key]
                try:
                    self.submit(Expired(key))
                except Exception:
                    # A defect of ours, in one group: the timers of others go on.
                    log.exception("timer_failed", key=key)
                if self._expired:
                    self._log_expired()
        self._schedule()
        self._is_behind = self._timer_at <= now
