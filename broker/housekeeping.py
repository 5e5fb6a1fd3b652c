"""Housekeeping: retention, compaction, flushing, idle connections.

Retention, compaction and ``flush.ms`` use the broker's clock, which can be moved ahead.
Checkpoints shorten the next start of a real process, and idle connections are idle for
a real client, so these use the clients' clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from kohort.broker import telemetry
from kohort.broker.clock import Timer
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.connection import HALF_CLOSED_SECONDS, Connection
from kohort.broker.log.store import StorageError

if TYPE_CHECKING:
    from kohort.broker.log import compaction
    from kohort.broker.log.partition import Partition

IDLE_CHECK_MS = 60_000
"""Longest interval between two checks for idle connections."""

SHORTEST_PAUSE = 0.05
"""Seconds between two rounds: a test may want them often, but other tasks need their
turns."""

FLUSH_CHECK_MS = 1000
"""How often ``flush.ms`` is checked."""

PARTITIONS_AT_ONCE = 100
"""Partitions checked before requests get a turn: some 0.1 ms, or a few ms if a segment
is deleted in each. 100,000 at once took 40 ms."""

_ALL_DONE = object()

log = telemetry.Logger("housekeeping")


class Housekeeper:
    """Runs a cluster's housekeeping.

    Args:
        cluster: the cluster.
        connections: the open connections.
    """

    def __init__(
        self,
        cluster: Cluster,
        connections: Callable[[], Iterable[Connection]],
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._client_clock = cluster.client_clock
        self._connections = connections
        self._timers: dict[Callable[[], None], Timer] = {}
        self._cleaning = _nothing()
        # Damaged partitions, which cannot be compacted.
        self._uncleanable: list[Partition] = []

    def start(self) -> None:
        """Arms the rounds."""
        config = self._cluster.config
        # Not as functions of their class, which the first topic loads.
        self._expire_all(
            "log.retention.check.interval.ms",
            lambda partition, now_ms: partition.expire(now_ms),
        )
        self._expire_all(
            "producer.id.expiration.check.interval.ms",
            lambda partition, now_ms: partition.expire_producers(now_ms),
        )
        checkpoint_ms = config["log.flush.offset.checkpoint.interval.ms"]
        self._every_real(self._checkpoint, checkpoint_ms)
        self._every(self._flush, FLUSH_CHECK_MS)
        if config["log.cleaner.enable"]:
            self._every(self._clean, config["log.cleaner.backoff.ms"])
        idle_ms = config["connections.max.idle.ms"]
        if idle_ms >= 0:
            self._look_for_idle(idle_ms)
        self._every_real(self._close_abandoned, HALF_CLOSED_SECONDS * 1000)

    def stop(self) -> None:
        """Cancels all timers, and ends a round in progress."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        # Leaves no half-written file behind.
        self._cleaning.close()

    def _every(self, task: Callable[[], None], interval_ms: float) -> None:
        """Schedules the next round; within one advance of the clock, only the last.

        Its result is that of all of them, and a week has 40,000 rounds of compaction.
        """
        pause = max(interval_ms / 1000, SHORTEST_PAUSE)
        when = self._clock.now() + pause
        skipped = max(0, (self._clock.horizon - when) // pause)
        self._at(when + skipped * pause, task)

    def _every_real(self, task: Callable[[], None], interval_ms: float) -> None:
        pause = max(interval_ms / 1000, SHORTEST_PAUSE)
        when = self._client_clock.now() + pause
        self._timers[task] = self._client_clock.call_at(when, task)

    def _at(self, when: float, task: Callable[[], None]) -> None:
        self._timers[task] = self._clock.call_at(when, task)

    def _close_idle(self) -> None:
        idle_ms = self._cluster.config["connections.max.idle.ms"]
        now = self._client_clock.now()
        for connection in list(self._connections()):
            if connection.is_idle(now, idle_ms / 1000):
                log.info("idle_connection_closed", client=connection.client_address)
                connection.abort()
        self._look_for_idle(idle_ms)

    def _look_for_idle(self, idle_ms: int) -> None:
        self._every_real(self._close_idle, min(idle_ms / 4, IDLE_CHECK_MS))

    def _close_abandoned(self) -> None:
        for connection in list(self._connections()):
            if connection.is_abandoned():
                connection.abort()
        self._every_real(self._close_abandoned, HALF_CLOSED_SECONDS * 1000)

    def _partitions(self) -> Generator[Partition | None, None, None]:
        """All partitions, with a None whenever requests should get a turn."""
        looked_at = 0
        for topic in list(self._cluster.topics.by_name.values()):
            for partition in topic.partitions:
                # Its topic may have been deleted meanwhile.
                if not partition.is_closed:
                    yield partition
                looked_at += 1
                if looked_at % PARTITIONS_AT_ONCE == 0:
                    yield None

    def _expire_all(
        self, interval_key: str, expire: Callable[[Partition, int], object]
    ) -> None:
        """Calls a function of each partition, in slices, and again after each interval.

        Args:
            interval_key: the configuration key of the interval, in ms.
            expire: takes a partition, and the time in ms since the epoch.
        """
        interval_ms = self._cluster.config[interval_key]

        def all_of_them() -> Generator[None, None, None]:
            for partition in self._partitions():
                if partition is None:
                    yield
                else:
                    expire(partition, self._cluster.now_ms())

        work = all_of_them()

        def go_on() -> None:
            nonlocal work
            if next(work, _ALL_DONE) is _ALL_DONE:
                work = all_of_them()
                self._every(go_on, interval_ms)
            else:
                self._at(self._clock.now(), go_on)

        self._every(go_on, interval_ms)

    def _flush(self) -> None:
        self._cluster.flush()
        self._every(self._flush, FLUSH_CHECK_MS)

    def _checkpoint(self) -> None:
        try:
            self._cluster.checkpoint()
        except StorageError as error:
            log.warning("checkpoint_failed", reason=str(error))
        self._every_real(
            self._checkpoint,
            self._cluster.config["log.flush.offset.checkpoint.interval.ms"],
        )

    # -- compaction: in slices, between the requests

    def _clean(self) -> None:
        self._cleaning = self._clean_all()
        self._clean_slice()

    def _clean_all(self) -> Generator[None, None, None]:
        """Compacts all logs that are due, the dirtiest first."""
        self._uncleanable = [each for each in self._uncleanable if not each.is_closed]
        # Loaded for the first round, so that brokers start sooner.
        from kohort.broker.log import compaction

        due = []
        for partition in self._partitions():
            if partition is None:
                yield
            elif (
                "compact" in partition.config.cleanup_policy
                and partition not in self._uncleanable
                and (dirt := self._dirt(partition)) is not None
                and dirt.is_due
            ):
                due.append((dirt.ratio, partition))
        for _, partition in sorted(due, key=lambda row: row[0], reverse=True):
            if partition.is_closed:
                # Its topic was deleted meanwhile.
                continue
            try:
                yield from compaction.clean(partition, self._cluster.now_ms())
            except compaction.UncleanableError as error:
                # As in Kafka: it would fail again and again.
                self._uncleanable.append(partition)
                log.warning(
                    "never_compacted_again", partition=partition.name, reason=str(error)
                )
            except StorageError as error:
                _failed(partition, error)

    def _dirt(self, partition: Partition) -> compaction.Dirt | None:
        from kohort.broker.log import compaction

        try:
            return compaction.dirt(partition, self._cluster.now_ms())
        except StorageError as error:
            # Others should be compacted anyway.
            _failed(partition, error)
            return None

    def _clean_slice(self) -> None:
        if self._cluster.loader.is_busy:
            # A log must not change while it is being loaded.
            self._at(self._clock.now() + SHORTEST_PAUSE, self._clean_slice)
        elif next(self._cleaning, _ALL_DONE) is _ALL_DONE:
            self._every(self._clean, self._cluster.config["log.cleaner.backoff.ms"])
        else:
            self._at(self._clock.now(), self._clean_slice)


def _failed(partition: Partition, error: StorageError) -> None:
    log.warning("compaction_failed", partition=partition.name, reason=str(error))


def _nothing() -> Generator[None, None, None]:
    yield from ()
