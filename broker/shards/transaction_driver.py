"""The asyncio driver of a transaction coordinator: performs its effects.

1. `submit` hands an event to the coordinator, and performs the returned effects in
   order.
2. An `Append` is written at once; `Appended` follows when the other effects are
   performed, or in the next turn of the event loop if it opens a window. If the log
   cannot be written, `lost` is called: the shard loads the log again.
3. `WriteMarkers` writes a marker to each partition, some in each turn of the loop
   (`_write_markers`). Each answer is submitted as `MarkerWritten`.
4. `Arm` and `Reply` are as those of `driver.GroupDriver`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, cast

from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator.effects import Arm
from kohort.broker.coordinator.events import (
    Appended,
    AppendFailed,
    Expired,
    TimerKey,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.notice import Notice
from kohort.broker.shards.timers import Timers
from kohort.broker.shards.transaction_records import encode
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import Append, Effect, Reply, WriteMarkers
from kohort.broker.transactions.events import (
    Event,
    MarkerWritten,
    Result,
    TopicPartition,
)
from kohort.broker.transactions.load import Loading
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

MARKERS_AT_ONCE: Final = 32
"""Markers that are written in one turn of the loop: a millisecond or two in files."""

MarkPartition = Callable[[WriteMarkers, TopicPartition, Callable[[int], object]], None]
"""Writes the marker of one partition; calls back with the error code."""


def answer(token: object, result: Result) -> None:
    """Answers an event's token: a waiter here, and opaque to the coordinator."""
    cast("Waiter", token).answer(result)


class Waiter(Protocol):
    """A token that waits for the reply to its event."""

    def answer(self, result: Result) -> None:
        """Takes the result; called once."""


class TransactionDriver:
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: the source of time and timers.
        partition: its log.
        lost: called if that cannot be written: the coordinator is ahead of the log.
        publish: takes a notice, and its time.
        write_marker: writes the marker of one partition.

    Attributes:
        coordinator: see above.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        clock: Clock,
        partition: Partition,
        lost: Callable[[], None],
        publish: Callable[[Notice, float], None],
        write_marker: MarkPartition,
    ) -> None:
        self.coordinator = coordinator
        self._clock = clock
        self._partition = partition
        self._lost = lost
        self._publish = publish
        self._write_marker = write_marker
        self._timers = Timers(clock, self._expire)
        self._is_stopped = False
        # Appends that the log has, or has refused: reported in this turn, and in the
        # next one.
        self._written: deque[Appended | AppendFailed] = deque()
        self._in_window: list[Appended | AppendFailed] = []
        self._window_timer: Timer | None = None
        # Markers that wait for the next turn of the loop.
        self._markers: deque[tuple[WriteMarkers, TopicPartition]] = deque()
        self._markers_timer: Timer | None = None
        self._perform: dict[type, Callable[..., None]] = {
            Append: self._append,
            Reply: self._reply,
            Notice: self._tell,
            WriteMarkers: self._add_markers,
            Arm: self._timers.arm,
        }

    def start(self, loading: Loading) -> None:
        """Takes over the loaded ids, and ends those that are prepared."""
        self._run(self.coordinator.start(loading, self._clock.now()))

    def stop(self) -> None:
        """Stops all timers, and drops the markers that are not written yet."""
        self._is_stopped = True
        self._timers.stop()
        self._markers.clear()
        for timer in (self._markers_timer, self._window_timer):
            if timer is not None:
                timer.cancel()

    def submit(self, event: Event) -> None:
        """Hands an event to the coordinator and performs its effects.

        A marker may be answered after the coordinator was unloaded: another one writes
        it again.
        """
        if not self._is_stopped:
            self._run(self.coordinator.handle(event, self._clock.now()))

    def _expire(self, key: TimerKey) -> None:
        self.submit(Expired(key))

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform[type(effect)](effect)
        while self._written:
            self.submit(self._written.popleft())

    def _reply(self, reply: Reply) -> None:
        answer(*reply)

    def _tell(self, notice: Notice) -> None:
        self._publish(notice, self._clock.now())

    def _append(self, append: Append) -> None:
        try:
            written = self._write(append)
        except StorageError:
            self._lost()
            return
        if not append.opens_window:
            self._written.append(written)
            return
        self._in_window.append(written)
        if self._window_timer is None:
            now = self._clock.now()
            self._window_timer = self._clock.call_at(now, self._close_window)

    def _close_window(self) -> None:
        """Reports the appends whose window ends with this turn."""
        self._window_timer = None
        written, self._in_window = self._in_window, []
        for each in written:
            self.submit(each)

    def _write(self, append: Append) -> Appended | AppendFailed:
        """Writes a batch.

        Raises:
            StorageError: it is not in the log.
        """
        now_ms = int(self._clock.now() * 1000)
        largest = self._partition.config.max_message_bytes
        error, size = ErrorCode.UNKNOWN_SERVER_ERROR, 0
        try:
            batch = encode(append.records, append.value_version, now_ms)
        except WireError:
            # An id may be valid on the wire, but not in the log.
            return AppendFailed(append.append_id, error, size, largest)
        if len(batch) > largest:
            error, size = ErrorCode.MESSAGE_TOO_LARGE, len(batch)
            return AppendFailed(append.append_id, error, size, largest)
        self._partition.append_own(batch, now_ms=now_ms)
        return Appended(append.append_id)

    # -- markers

    def _add_markers(self, markers: WriteMarkers) -> None:
        self._markers += ((markers, each) for each in markers.partitions)
        if self._markers_timer is None:
            self._write_markers()

    def _write_markers(self) -> None:
        """Writes some markers, the others in later turns of the loop."""
        self._markers_timer = None
        for _ in range(MARKERS_AT_ONCE):
            if self._is_stopped or not self._markers:
                return
            marker, partition = self._markers.popleft()
            answered = partial(self._answered, marker, partition)
            self._write_marker(marker, partition, answered)
        if self._markers and self._markers_timer is None:
            now = self._clock.now()
            self._markers_timer = self._clock.call_at(now, self._write_markers)

    def _answered(
        self, marker: WriteMarkers, partition: TopicPartition, error: int
    ) -> None:
        self.submit(
            MarkerWritten(
                marker.transactional_id,
                marker.producer_id,
                marker.producer_epoch,
                partition,
                error,
            )
        )
