"""One partition of ``__transaction_state``, and its coordinator on the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kohort.broker.clock import Clock
from kohort.broker.events.bus import Events
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.shards.led_partition import LedPartition
from kohort.broker.shards.loader import Loader
from kohort.broker.shards.transaction_driver import TransactionDriver, answer
from kohort.broker.shards.transaction_records import read_in_pieces
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import Reply, WriteMarkers
from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.load import Loading
from kohort.broker.transactions.transaction_metadata import TransactionMetadata

WriteMarker = Callable[[EndMarker, str, int, Callable[[int], object]], None]
"""Writes a marker to a partition at its leader; see `kohort.broker.cluster.markers`."""


class TransactionShard(LedPartition[TransactionDriver, Loading]):
    """One partition of ``__transaction_state`` and, if it is led, its coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        clock: the source of time and timers.
        loader: reads logs.
        load_delay_ms: ``coordinator.load.delay.ms``: loading takes at least this long.
        make: creates a coordinator without transactions.
        events: the stream of events.
        write_marker: writes markers.
    """

    __slots__ = ("_events", "_make", "_write_marker")

    def __init__(
        self,
        index: int,
        partition: Partition,
        clock: Clock,
        loader: Loader,
        load_delay_ms: int,
        make: Callable[[], TransactionCoordinator],
        events: Events,
        write_marker: WriteMarker,
    ) -> None:
        super().__init__(index, partition, clock, loader, load_delay_ms)
        self._make = make
        self._events = events
        self._write_marker = write_marker

    @property
    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """The loaded transactions by transactional id."""
        return {} if self.driver is None else self.driver.coordinator.transactions

    def _begin(self) -> Loading:
        return Loading()

    def _slices(self, read: Loading) -> Iterator[None]:
        return self._feed(read_in_pieces, read.feed)

    def _start(self, read: Loading) -> None:
        self.driver = TransactionDriver(
            self._make(),
            self._clock,
            self._partition,
            self._reload,
            self._events.of(self.node_id).publish,
            self._write,
        )
        self.driver.start(read)

    def _write(
        self,
        marker: WriteMarkers,
        partition: TopicPartition,
        answered: Callable[[int], object],
    ) -> None:
        """Writes a marker; as in Kafka, the coordinator's epoch is its leader epoch."""
        end = EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.is_commit,
            self._partition.epochs.latest,
            marker.transaction_version,
        )
        self._write_marker(end, partition.topic, partition.partition, answered)

    def _end(self, driver: TransactionDriver) -> None:
        driver.stop()
        for effect in driver.coordinator.unload():
            if isinstance(effect, Reply):
                answer(*effect)
