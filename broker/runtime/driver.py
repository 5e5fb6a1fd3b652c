"""The driver of a coordinator: performs its effects, and owns its timers.

1. `submit` hands an event to the coordinator (`coordinator.handle`), and performs the
   returned effects in order. The functions in `_try_now` handle frequent events in half
   the time, without effects, if they change little.
2. An `Arm` sets a deadline (`timers`). Timers that are due are submitted as `Expired`.
3. An `Append` becomes a batch, which is written after the effects. One that opens a
   window is written in the next turn of the event loop, with all that follow until
   then. With a positive linger, all are collected for that time (`_linger`). Then comes
   `Appended`, or `AppendFailed` if the log refused it. If the log cannot be written at
   all, `lost` is called: the shard loads its log again.
4. A `Reply` answers its token, which is the `Waiter` of the event. A `Notice` is
   published. Drivers of a coordinator with effects of its own add them to `_perform`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

from kohort.broker.clock import Clock, Timer
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Append, Arm, Disarm, Effect, Reply
from kohort.broker.runtime.events import Appended, AppendFailed, Expired, TimerKey
from kohort.broker.runtime.machine import Loading, Machine
from kohort.broker.runtime.timers import Timers
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

M = TypeVar("M", bound="Machine[Any, Any, Any]")

TryNow = Callable[[Any, float], Any | Notice | Literal[True] | None]
"""Handles an event that does little. Returns its result, or its notice, or True if it
waits; None if nothing was done."""


class Waiter(Protocol):
    """A token that waits for the reply to its event."""

    def answer(self, result: Any) -> None:
        """Takes the result; called once."""


def answer(token: object, result: object) -> None:
    """Answers an event's token: a waiter here, and opaque to the coordinator."""
    cast("Waiter", token).answer(result)


class Log(Protocol):
    """The log of a coordinator's records."""

    @property
    def largest(self) -> int:
        """Bytes of the largest batch that it accepts."""

    def encode(self, records: Sequence[Any], now: float) -> bytes:
        """Returns a batch of these records.

        Args:
            records: at least one.
            now: seconds since the epoch.

        Raises:
            WireError: a name is too long for the log.
        """

    def write(self, batch: bytes, now: float) -> None:
        """Writes a batch; when it returns, the batch is in the log.

        Args:
            batch: as `encode` has made it.
            now: seconds since the epoch.

        Raises:
            StorageError: the batch is not in the log.
        """


class Driver(Generic[M]):
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: the source of time and timers.
        log: its records are written there.
        lost: called if that fails: the coordinator's state is ahead of the log.
        publish: takes a notice, and its time.
        linger_ms: how long appends are collected before they are written. -1 writes
            them at once, except those that open a window and all after them, which wait
            for the next turn.
        before_timers: called before the timers of one turn of the loop.

    Attributes:
        coordinator: see above.
    """

    def __init__(
        self,
        coordinator: M,
        clock: Clock,
        log: Log,
        lost: Callable[[], None],
        publish: Callable[[Notice, float], None],
        linger_ms: int = -1,
        before_timers: Callable[[], None] | None = None,
    ) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._log = log
        self._lost = lost
        self._publish = publish
        self._linger_ms = linger_ms
        self._timers = Timers(clock, self._expire, before_timers)
        # Unwritten batches, with the ids of their appends; and the appends of this turn
        # that the log refuses.
        self._batches: list[tuple[int, bytes]] = []
        self._unwritten_bytes = 0
        self._is_lingering = False
        self._refused: list[AppendFailed] = []
        self._flush_timer: Timer | None = None
        # The time of this turn.
        self._now = 0.0
        self._try_now: dict[type, TryNow] = {}
        self._perform: dict[type, Callable[[Any], None]] = {
            Append: self._append,
            Arm: self._timers.arm,
            Disarm: self._timers.disarm,
        }
        # Called with notices of these kinds before they are published.
        self._watch: dict[str, Callable[[Notice], None]] = {}

    def start(self, loading: Loading) -> None:
        """Takes over the ids of a log."""
        self._now = now = self._clock.now()
        self._run(self.coordinator.start(loading, now))

    def stop(self) -> None:
        """Stops all timers; batches that are not written yet are dropped."""
        self._batches.clear()
        self._cancel_flush()
        self._timers.stop()

    def submit(self, event: Any) -> None:
        """Hands an event to the coordinator and performs its effects."""
        self._now = now = self._clock.now()
        try_now = self._try_now.get(type(event))
        if try_now is not None:
            result = try_now(event, now)
            if result is not None:
                if type(result) is Notice:
                    self._publish(result, now)
                elif result is not True:
                    event.token.answer(result)
                return
        effects = self.coordinator.handle(event, now)
        if effects:
            self._run(effects)

    def _expire(self, key: TimerKey) -> None:
        """Submits a timer that is due."""
        self.submit(Expired(key))

    def _run(self, effects: list[Effect]) -> None:
        publish, now = self._publish, self._now
        for effect in effects:
            if type(effect) is Reply:
                if self._refused:
                    self._report_refused()
                # The driver's tokens are waiters; the coordinator never looks.
                token, result = effect
                token.answer(result)  # type: ignore[attr-defined]
            elif type(effect) is Notice:
                watch = self._watch.get(effect[0])
                if watch is not None:
                    watch(effect)
                publish(effect, now)
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
            batch = log.encode(append.records, self._now)
        except WireError:
            # A name may be valid on the wire, but not in the log.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refused.append(AppendFailed(append_id, error, 0, largest))
            return
        size = len(batch)
        if size <= largest:
            self._batches.append((append_id, batch))
        elif append.is_atomic:
            error = ErrorCode.MESSAGE_TOO_LARGE
            self._refused.append(AppendFailed(append_id, error, size, largest))
            return
        else:
            parts = self._in_parts(append.records)
            self._batches += ((append_id, part) for part in parts)
        if self._linger_ms > 0 or append.opens_window:
            self._linger(append, size)

    def _linger(self, append: Append, size: int) -> None:
        """Decides when the batches are written: at once, unless that may matter."""
        if self._linger_ms > 0:
            self._unwritten_bytes += size
            if self._unwritten_bytes > self._log.largest:
                self._flush_in(0)
            elif not self._is_lingering:
                self._flush_in(self._linger_ms / 1000)
            self._is_lingering = True
        elif self._linger_ms and append.opens_window and not self._is_lingering:
            self._is_lingering = True
            self._flush_in(0)

    def _flush_in(self, seconds: float) -> None:
        self._cancel_flush()
        when = self._clock.now() + seconds
        self._flush_timer = self._clock.call_at(when, self.flush)

    def _in_parts(self, records: Sequence[Any]) -> Iterator[bytes]:
        """Yields batches that the log accepts; a single record always fits."""
        batch = self._log.encode(records, self._now)
        if len(records) == 1 or len(batch) <= self._log.largest:
            yield batch
            return
        half = len(records) // 2
        yield from self._in_parts(records[:half])
        yield from self._in_parts(records[half:])

    def _report_refused(self) -> None:
        """Makes the coordinator undo refused appends, before the next event."""
        while self._refused:
            refused = self._refused.pop()
            self._run(self.coordinator.handle(refused, self._now))

    def flush(self) -> None:
        """Writes the collected appends, and reports them."""
        self._cancel_flush()
        self._now = self._clock.now()
        self._write()

    def flush_all(self) -> None:
        """Writes all appends, also those of requests that follow upon the replies."""
        while self._batches:
            self.flush()

    def _write(self) -> None:
        batches, self._batches = self._batches, []
        self._unwritten_bytes = 0
        self._is_lingering = False
        for append_id, batch in batches:
            try:
                self._log.write(batch, self._now)
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
