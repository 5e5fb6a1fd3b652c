"""All partitions of ``__transaction_state``: finds the coordinator of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.store import StorageError
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shards import Shards
from kohort.broker.transactions.events import Command, Result, TransactionEvent, refused
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import TransactionState
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.log.partition import Partition
    from kohort.broker.notice import Notice
    from kohort.broker.runtime.shard import Shard
    from kohort.broker.shards.transaction_driver import TransactionDriver
    from kohort.broker.transactions.effects import StateRecord, WriteMarkers
    from kohort.broker.transactions.events import TopicPartition
    from kohort.broker.transactions.load import Loading


WriteMarker = Callable[[EndMarker, str, int, Callable[[int], object]], None]
"""Writes a marker to a partition at its leader; see `kohort.broker.cluster.markers`."""


class TransactionShards(Shards["Shard[TransactionDriver]"]):
    """All partitions of ``__transaction_state``.

    Args:
        settings: the settings of coordinators.
        runtime: the parts of the broker that they run on.
        create: creates ``__transaction_state``; called when the first id is used.
        new_producer_id: returns an unused producer id; raises `StorageError`.
        transaction_version: returns the level of ``transaction.version``.
        write_marker: writes markers.
        refuses_first: see `Shards`.

    Attributes:
        holds: the state in which a transaction is held, by id.
    """

    noun = "id"

    def __init__(
        self,
        settings: TransactionSettings,
        runtime: Runtime,
        create: Callable[[], object],
        new_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        write_marker: WriteMarker,
        *,
        refuses_first: bool,
    ) -> None:
        super().__init__(runtime, create, refuses_first=refuses_first)
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._write_marker = write_marker
        self.holds: dict[str, TransactionState] = {}

    def _unused_producer_id(self) -> int | None:
        try:
            return self._new_producer_id()
        except StorageError:
            return None

    def new_shard(self, index: int, partition: Partition) -> Shard[TransactionDriver]:
        """Returns the shard of a partition."""
        from kohort.broker.runtime.shard import Shard

        return Shard(index, partition, self._runtime, self)

    def begin(self) -> Loading:
        """Returns the ids before any record is read."""
        from kohort.broker.transactions.load import Loading

        return Loading()

    def slices(self, shard: Shard[TransactionDriver], read: Loading) -> Iterator[None]:
        """Reads a shard's log; yields whenever others should run."""
        from kohort.broker.shards.transaction_records import read_in_pieces

        return shard.feed(read, read_in_pieces)

    def new_driver(
        self,
        shard: Shard[TransactionDriver],
        publish: Callable[[Notice, float], None],
    ) -> TransactionDriver:
        """Returns a driver of a coordinator without ids."""
        from kohort.broker.runtime.shard import PartitionLog
        from kohort.broker.shards.transaction_driver import TransactionDriver
        from kohort.broker.transactions.coordinator import TransactionCoordinator

        return TransactionDriver(
            TransactionCoordinator(
                self._settings,
                self._unused_producer_id,
                self._transaction_version,
                self.holds,
            ),
            self._runtime.clock,
            PartitionLog(shard.partition, self._encode),
            shard.reload,
            publish,
            partial(self._write, shard.partition),
        )

    def _encode(self, records: Sequence[StateRecord], now_ms: int) -> bytes:
        from kohort.broker.shards.transaction_records import encode

        value_version = 1 if self._transaction_version() else 0
        return encode(records, value_version, now_ms)

    def _write(
        self,
        own: Partition,
        marker: WriteMarkers,
        partition: TopicPartition,
        answered: Callable[[int], object],
    ) -> None:
        """Writes a marker; as in Kafka, the coordinator's epoch is its leader epoch."""
        end = EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.is_commit,
            own.epochs.latest,
            marker.transaction_version,
        )
        self._write_marker(end, partition.topic, partition.partition, answered)

    def _id_of(self, event: TransactionEvent | Command) -> str:
        return event.transactional_id

    def _refused(self, event: TransactionEvent, error: ErrorCode) -> Result:
        return refused(event, error, self._settings)
