"""One partition of ``__transaction_state``, and its coordinator on the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.notice import Notice
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shard import PartitionLog, Shard
from kohort.broker.shards.transaction_driver import TransactionDriver
from kohort.broker.shards.transaction_records import encode, read_in_pieces
from kohort.broker.transactions.coordinator import TransactionCoordinator
from kohort.broker.transactions.effects import StateRecord, WriteMarkers
from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.load import Loading
from kohort.broker.transactions.transaction_metadata import TransactionMetadata

WriteMarker = Callable[[EndMarker, str, int, Callable[[int], object]], None]
"""Writes a marker to a partition at its leader; see `kohort.broker.cluster.markers`."""


class TransactionShard(Shard[TransactionDriver, Loading]):
    """One partition of ``__transaction_state`` and, if it is led, its coordinator.

    Args:
        index: the index of the partition.
        partition: its log.
        runtime: the parts of the broker that it runs on.
        make: creates a coordinator without transactions.
        transaction_version: returns the level of ``transaction.version``.
        write_marker: writes markers.
    """

    __slots__ = ("_log", "_make", "_transaction_version", "_write_marker")

    def __init__(
        self,
        index: int,
        partition: Partition,
        runtime: Runtime,
        make: Callable[[], TransactionCoordinator],
        transaction_version: Callable[[], int],
        write_marker: WriteMarker,
    ) -> None:
        super().__init__(index, partition, runtime)
        self._make = make
        self._log = PartitionLog(partition, self._encode)
        self._transaction_version = transaction_version
        self._write_marker = write_marker

    @property
    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """The loaded transactions by transactional id."""
        return {} if self.driver is None else self.driver.coordinator.transactions

    def _begin(self) -> Loading:
        return Loading()

    def _slices(self, read: Loading) -> Iterator[None]:
        return self._feed(read, read_in_pieces)

    def _new_driver(
        self, publish: Callable[[Notice, float], None]
    ) -> TransactionDriver:
        return TransactionDriver(
            self._make(), self._clock, self._log, self._reload, publish, self._write
        )

    def _encode(self, records: Sequence[StateRecord], now_ms: int) -> bytes:
        value_version = 1 if self._transaction_version() else 0
        return encode(records, value_version, now_ms)

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
