"""The driver of a transaction coordinator.

`WriteMarkers` writes a marker to each partition, some in each turn of the loop
(`_write_markers`). Each answer is submitted as `MarkerWritten`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kohort.broker.clock import Clock, Timer
from kohort.broker.notice import Notice
from kohort.broker.runtime.driver import Driver, Log
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import WriteMarkers
from kohort.broker.transactions.events import MarkerWritten, TopicPartition

MARKERS_AT_ONCE: Final = 32
"""Markers that are written in one turn of the loop: a millisecond or two in files."""

MarkPartition = Callable[[WriteMarkers, TopicPartition, Callable[[int], object]], None]
"""Writes the marker of one partition; calls back with the error code."""


class TransactionDriver(Driver[TransactionCoordinator]):
    """Runs one coordinator on a clock.

    Args:
        coordinator: the state machine.
        clock: the source of time and timers.
        log: its records are written there.
        lost: called if that fails; see `Driver`.
        publish: takes a notice, and its time.
        write_marker: writes the marker of one partition.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        clock: Clock,
        log: Log,
        lost: Callable[[], None],
        publish: Callable[[Notice, float], None],
        write_marker: MarkPartition,
    ) -> None:
        super().__init__(coordinator, clock, log, lost, publish)
        self._write_marker = write_marker
        self._is_stopped = False
        # Markers that wait for the next turn of the loop.
        self._markers: deque[tuple[WriteMarkers, TopicPartition]] = deque()
        self._markers_timer: Timer | None = None
        self._perform[WriteMarkers] = self._add_markers

    def stop(self) -> None:
        """Stops all timers, and drops the markers that are not written yet."""
        super().stop()
        self._is_stopped = True
        self._markers.clear()
        if self._markers_timer is not None:
            self._markers_timer.cancel()

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
        """Reports a marker; after a stop, another coordinator writes it again."""
        if not self._is_stopped:
            self.submit(
                MarkerWritten(
                    marker.transactional_id,
                    marker.producer_id,
                    marker.producer_epoch,
                    partition,
                    error,
                )
            )
