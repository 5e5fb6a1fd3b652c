"""All partitions of ``__transaction_state``: finds the coordinator of a transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kohort.broker.clock import Clock
from kohort.broker.coordinator.effects import CommandResult
from kohort.broker.events.bus import Events
from kohort.broker.log.store import StorageError
from kohort.broker.shards.hash import partition_of
from kohort.broker.shards.loader import Loader
from kohort.broker.topics.topic import Topic
from kohort.broker.transactions.events import Command, Result, TransactionEvent, refused
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import TransactionState
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.shards.transaction_shard import TransactionShard, WriteMarker
    from kohort.broker.transactions.coordinator import TransactionCoordinator


class TransactionShards:
    """All partitions of ``__transaction_state``.

    Args:
        settings: the settings of coordinators.
        clock: the source of time and timers.
        loader: reads their logs.
        load_delay_ms: ``coordinator.load.delay.ms``.
        create: creates ``__transaction_state``; called when the first id is used.
        new_producer_id: returns an unused producer id; raises `StorageError`.
        transaction_version: returns the level of ``transaction.version``.
        write_marker: writes markers.
        events: the stream of events.
        refuses_first: whether the first FindCoordinator fails, as in a new cluster of
            Kafka; see `kohort.broker.shards.first_use`.

    Attributes:
        holds: the state in which a transaction is held, by id.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        clock: Clock,
        loader: Loader,
        load_delay_ms: int,
        create: Callable[[], object],
        new_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        write_marker: WriteMarker,
        events: Events,
        *,
        refuses_first: bool,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._loader = loader
        self._load_delay_ms = load_delay_ms
        self._create = create
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._write_marker = write_marker
        self._events = events
        self._refuses_first = refuses_first
        self.holds: dict[str, TransactionState] = {}
        self._shards: list[TransactionShard] = []

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(self._shards)

    def __len__(self) -> int:
        """The number of shards; 0 before ``__transaction_state`` is created."""
        return len(self._shards)

    def _make(self) -> TransactionCoordinator:
        from kohort.broker.transactions.coordinator import TransactionCoordinator

        coordinator = TransactionCoordinator(
            self._settings,
            self._unused_producer_id,
            self._transaction_version,
            self.holds,
        )
        coordinator.listening = self._events.listening
        return coordinator

    def _unused_producer_id(self) -> int | None:
        try:
            return self._new_producer_id()
        except StorageError:
            return None

    # -- following the topic

    def attach(self, topic: Topic) -> None:
        """Takes the new ``__transaction_state``: its leaders load the transactions."""
        from kohort.broker.shards.transaction_shard import TransactionShard

        self._shards = [
            TransactionShard(
                index,
                partition,
                self._clock,
                self._loader,
                self._load_delay_ms,
                self._make,
                self._events,
                self._write_marker,
            )
            for index, partition in enumerate(topic.partitions)
        ]
        for shard, leader in zip(self._shards, topic.leaders, strict=True):
            shard.lead(leader)

    def detach(self, cause: str) -> None:
        """Drops ``__transaction_state``, which was deleted, or the broker stops."""
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.unload(cause)

    def lead(self, index: int, node_id: int, cause: str) -> None:
        """Sets the leader of a shard; see `LedPartition.lead`."""
        self._shards[index].lead(node_id, cause)

    # -- finding coordinators

    def can_find(self) -> bool:
        """Returns whether FindCoordinator may name coordinators.

        The look-up that creates ``__transaction_state`` fails, if the first one has to.
        """
        if self._shards or not self._refuses_first:
            return True
        with contextlib.suppress(StorageError):
            self._create()
        return False

    def index_of(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` that an id belongs to.

        Raises:
            StorageError: the disk has no room for the topic.
        """
        if not self._shards:
            self._create()
        return partition_of(transactional_id, len(self._shards))

    def for_id(self, transactional_id: str) -> TransactionShard:
        """Returns the shard of an id.

        Raises:
            StorageError: the disk has no room for the topic.
        """
        index = self.index_of(transactional_id)  # first: it may make the shards
        return self._shards[index]

    def led_by(self, node_id: int) -> list[TransactionShard]:
        """The shards that a node leads."""
        return [shard for shard in self._shards if shard.node_id == node_id]

    # -- events

    def submit(self, node_id: int, event: TransactionEvent) -> None:
        """Hands an event to its id's coordinator; refuses it on another node."""
        self._submit(node_id, event)

    def ask(self, event: TransactionEvent) -> None:
        """Hands an event to its id's coordinator, on whatever node it is.

        For a broker that verifies or adds partitions for a producer (KIP-890).
        """
        self._submit(None, event)

    def _submit(self, node_id: int | None, event: TransactionEvent) -> None:
        error = ErrorCode.NOT_COORDINATOR
        # As in Kafka, no request but FindCoordinator creates the topic there.
        if self._shards or not self._refuses_first:
            try:
                shard = self.for_id(event.transactional_id)
            except StorageError:
                # The disk has no room for the topic.
                pass
            else:
                error = shard.error(shard.node_id if node_id is None else node_id)
                if not error and shard.driver is not None:
                    shard.driver.submit(event)
                    return
        _answer(event.token, refused(event, error, self._settings))

    def command(self, command: Command) -> None:
        """Hands a command to its id's coordinator, on any node.

        Raises:
            StorageError: the disk has no room for ``__transaction_state``.
        """
        shard = self.for_id(command.transactional_id)
        if shard.driver is not None:
            shard.driver.submit(command)
        else:
            why = f"the id has no coordinator now: its shard is {shard.state}"
            _answer(command.token, CommandResult(why))


def _answer(token: object, result: Result) -> None:
    from kohort.broker.shards.transaction_driver import answer

    answer(token, result)
