"""The asyncio driver of a coordinator: performs its effects, and owns its timers.

The same ritual everywhere: hand an event in, perform its effects in order.
A token of an event is the `Waiter` that gets the reply.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from kohort.broker import long_work, telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    Disarm,
    Effect,
    Forget,
    Notice,
    Record,
    Reply,
    Result,
)
from kohort.broker.coordinator.events import (
    Appended,
    AppendFailed,
    Event,
    Expired,
    TimerKey,
)
from kohort.broker.coordinator.load import Loading
from kohort.broker.log.store import StorageError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

log = telemetry.Logger("groups")


DUE_AT_ONCE = 16
"""Timers that one coordinator fires in one turn of the loop: about a millisecond. The
sessions of 50,000 members that end together would stop all others for seconds."""


class Waiter(Protocol):
    """A token that waits for the reply to its event."""

    def answer(self, result: Result) -> None:
        """Takes the result; called once."""

    def forget(self, why: str) -> None:
        """There will be no result; called in place of `answer`."""


def answer(token: object, result: Result) -> None:
    """Answers an event: tokens are waiters here, which the coordinator never sees."""
    cast("Waiter", token).answer(result)


class GroupLog(Protocol):
    """Where a coordinator's records are written."""

    @property
    def largest(self) -> int:
        """Bytes of the largest batch that it takes."""

    def encode(self, records: Sequence[Record]) -> bytes:
        """Returns a batch of these records.

        Raises:
            WireError: a name is too long for the log.
        """

    def write(self, batch: bytes) -> None:
        """Writes a batch; when it returns, the batch is in the log.

        Raises:
            StorageError: it is not.
        """


def _forget(effect: Forget) -> None:
    cast("Waiter", effect.token).forget(effect.why)


class GroupDriver:
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: where the time and timers come from.
        log: where its records are written.
        lost: called if they cannot be: the coordinator's state is ahead of the log.
        publish: takes a notice, and its time.
        linger_ms: ``group.coordinator.append.linger.ms``: how long appends are
            collected before they are written. By -1 they are written at once, but
            those that open a window, and all after them, in the loop's next turn.
        soon: calls a function in the next turn of the event loop.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        clock: Clock,
        log: GroupLog,
        lost: Callable[[], None],
        publish: Callable[[Notice, float], None],
        linger_ms: int = -1,
        soon: Callable[[Callable[[], None]], None] = long_work.soon,
    ) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._log = log
        self._lost = lost
        self._linger_ms = linger_ms
        self._soon = soon
        # Batches that are not written yet, with the ids of their appends; and the
        # appends of this turn that the log refuses.
        self._batches: list[tuple[int, bytes]] = []
        self._unwritten_bytes = 0
        self._is_lingering = False
        self._refused: list[AppendFailed] = []
        self._flush_timer: Timer | None = None
        # One entry per key that counts; entries of the heap whose deadline is
        # not the key's any more are passed over.
        self._deadlines: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, TimerKey]] = []
        self._timer: Timer | None = None
        self._timer_at = math.inf
        self._publish = publish
        # The time of this turn, and how many offsets it has removed.
        self._now = 0.0
        self._expired = 0
        self._perform: dict[type, Callable[..., None]] = {
            Append: self._append,
            Arm: self._arm,
            Forget: _forget,
            Disarm: self._disarm,
        }

    def start(self, loading: Loading) -> None:
        """Takes over the loaded groups, and arms the check for expired offsets."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.take_over(loading, now))
        self._run(self.coordinator.start(now))

    def stop(self) -> None:
        """No timer fires any more; what is not written yet never is."""
        self._batches.clear()
        self._cancel_flush()
        self._deadlines.clear()
        self._heap.clear()
        self._schedule()

    def submit(self, event: Event) -> None:
        """Hands an event to the coordinator and performs its effects."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.handle(event, now))

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Reply:
                if self._refused:
                    self._report_refused()
                # The driver's tokens are waiters; the coordinator never looks.
                effect.token.answer(effect.result)  # type: ignore[attr-defined]
            elif type(effect) is Notice:
                self._publish(effect, self._now)
                if effect[0] == "offsets_expired":
                    self._expired += len(effect.fields["expired"])
            else:
                self._perform[type(effect)](effect)
        if self._refused:
            self._report_refused()
        if self._batches and not self._is_lingering:
            self._write()

    # -- the log

    def _append(self, append: Append) -> None:
        """Keeps a batch until the next flush."""
        log, append_id = self._log, append.append_id
        largest = log.largest
        try:
            batches = [log.encode(append.records)]
        except WireError:
            # A name that is valid on the wire, but not in the log.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refused.append(AppendFailed(append_id, error, 0, largest))
            return
        size = len(batches[0])
        if size > largest:
            if append.is_atomic:
                error = ErrorCode.MESSAGE_TOO_LARGE
                self._refused.append(AppendFailed(append_id, error, size, largest))
                return
            batches = [*self._in_parts(append.records)]
        self._batches += ((append_id, batch) for batch in batches)
        self._linger(append, size)

    def _linger(self, append: Append, size: int) -> None:
        """Decides when the batches are written: at once, unless it may matter."""
        if self._linger_ms > 0:
            self._unwritten_bytes += size
            if self._unwritten_bytes > self._log.largest:
                self._soon(self.flush)
            elif not self._is_lingering:
                when = self._clock.now() + self._linger_ms / 1000
                self._flush_timer = self._clock.call_at(when, self.flush)
            self._is_lingering = True
        elif self._linger_ms and append.opens_window and not self._is_lingering:
            self._is_lingering = True
            self._soon(self.flush)

    def _in_parts(self, records: Sequence[Record]) -> Iterator[bytes]:
        """Yields batches that the log takes; a record alone always fits."""
        batch = self._log.encode(records)
        if len(records) == 1 or len(batch) <= self._log.largest:
            yield batch
            return
        half = len(records) // 2
        yield from self._in_parts(records[:half])
        yield from self._in_parts(records[half:])

    def _report_refused(self) -> None:
        """Has refused appends taken back, before the next event is handled."""
        while self._refused:
            refused = self._refused.pop()
            self._run(self.coordinator.handle(refused, self._now))

    def flush(self) -> None:
        """Writes the appends that linger, and reports them."""
        self._cancel_flush()
        self._now = self._clock.now()
        self._write()

    def _write(self) -> None:
        batches, self._batches = self._batches, []
        self._unwritten_bytes = 0
        self._is_lingering = False
        for append_id, batch in batches:
            try:
                self._log.write(batch)
            except StorageError:
                self._report(append_id - 1)
                self._lost()
                return
        if batches:
            self._report(batches[-1][0])

    def _report(self, append_id: int) -> None:
        self._run(self.coordinator.handle(Appended(append_id), self._now))

    def _cancel_flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # -- timers

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
