"""All partitions of ``__transaction_state``: finds the coordinator of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.log.store import StorageError
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shards import Shards
from kohort.broker.transactions.events import Command, Result, TransactionEvent, refused
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import TransactionState
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.log.partition import Partition
    from kohort.broker.shards.transaction_shard import TransactionShard, WriteMarker
    from kohort.broker.transactions.coordinator import TransactionCoordinator


class TransactionShards(Shards["TransactionShard"]):
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
        super().__init__(create, refuses_first=refuses_first)
        self._settings = settings
        self._runtime = runtime
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._write_marker = write_marker
        self.holds: dict[str, TransactionState] = {}

    def _make(self) -> TransactionCoordinator:
        from kohort.broker.transactions.coordinator import TransactionCoordinator

        coordinator = TransactionCoordinator(
            self._settings,
            self._unused_producer_id,
            self._transaction_version,
            self.holds,
        )
        coordinator.listening = self._runtime.events.listening
        return coordinator

    def _unused_producer_id(self) -> int | None:
        try:
            return self._new_producer_id()
        except StorageError:
            return None

    def _new_shard(self, index: int, partition: Partition) -> TransactionShard:
        from kohort.broker.shards.transaction_shard import TransactionShard

        return TransactionShard(
            index,
            partition,
            self._runtime,
            self._make,
            self._transaction_version,
            self._write_marker,
        )

    def _id_of(self, event: TransactionEvent | Command) -> str:
        return event.transactional_id

    def _refused(self, event: TransactionEvent, error: ErrorCode) -> Result:
        return refused(event, error, self._settings)

    def ask(self, event: TransactionEvent) -> None:
        """Hands an event to its id's coordinator, on whatever node it is.

        For a broker that verifies or adds partitions for a producer (KIP-890).
        """
        self.submit(None, event)
