"""A transactional id of a broker in this process: its state, and power over it.

    async with Broker() as broker:
        transaction = Transaction(broker, "billing-tx")
        transaction.hold("PrepareCommit")  # no markers are written
        ...
        await transaction.until(state="PrepareCommit")
        transaction.release()

Use it on the broker's event loop.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kohort.broker.cluster.cluster import Cluster, ClusterError
from kohort.broker.events.remembered_transactions import STATE
from kohort.broker.log.store import StorageError
from kohort.broker.topics.topic import NO_NODE
from kohort.broker.transactions.state import ONGOING, PREPARED, TransactionState
from kohort.control import conditions
from kohort.control.power import PowerError, next_node
from kohort.control.states import state_named
from kohort.control.transaction_verbs import TransactionVerbs

if TYPE_CHECKING:
    from kohort.broker.notice import Notice
    from kohort.broker.runtime.shard import Shard
    from kohort.broker.server import Broker
    from kohort.broker.transactions.events import Command
    from kohort.broker.transactions.transaction_metadata import (
        TransactionMetadata as Coordinated,
    )


__all__ = ["PowerError", "Transaction", "TransactionRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transactional id, and its transaction.

    Attributes:
        transactional_id: the id.
        state: Kafka's name; "Dead" for an unknown id.
        producer_id: the id of its producer; -1 for an unknown transactional id.
        producer_epoch: the epoch of its producer, likewise.
        client_id: the producer's client.id; None: unknown.
        open_ms: the time since the transaction began; None: none is open.
        partition_count: the number of partitions of the transaction.
        coordinator: the id of a node; -1 for none.
        held: the state of its hold; None: it is not held.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    client_id: str | None
    open_ms: int | None
    partition_count: int
    coordinator: int
    held: str | None


def row_of(
    cluster: Cluster, name: str, found: Coordinated | None, node_id: int
) -> TransactionRow:
    """The row of a transactional id.

    Args:
        cluster: the cluster.
        name: the id.
        found: its state in the coordinator; None: it is unknown.
        node_id: the coordinator's node.
    """
    metadata = None if found is None else found.metadata
    open_ms = None
    if metadata is not None and metadata.state in {ONGOING, *PREPARED}:
        open_ms = max(cluster.now_ms() - metadata.start_ms, 0)
    return TransactionRow(
        transactional_id=name,
        state=(TransactionState.DEAD if found is None else found.state).value,
        producer_id=-1 if metadata is None else metadata.producer_id,
        producer_epoch=-1 if metadata is None else metadata.producer_epoch,
        client_id=None if found is None else found.client_id,
        open_ms=open_ms,
        partition_count=0 if metadata is None else len(metadata.partitions),
        coordinator=node_id,
        held=cluster.transactions.holds.get(name),
    )


class Transaction(TransactionVerbs):
    """A handle of a transactional id; it can be made before the id exists.

    Args:
        broker: the broker; must be started before methods are called.
        transactional_id: the ``transactional.id`` of a producer.
    """

    def __init__(self, broker: Broker, transactional_id: str) -> None:
        self.broker = broker
        self.transactional_id = transactional_id

    def __repr__(self) -> str:
        """As it is made."""
        return f"Transaction({self.broker!r}, {self.transactional_id!r})"

    # -- views

    @property
    def _shard(self) -> Shard[Any] | None:
        """Its shard; None before ``__transaction_state`` is created."""
        shards = self.broker.cluster.transactions
        return shards.for_id(self.transactional_id) if len(shards) else None

    @property
    def _found(self) -> Coordinated | None:
        shard = self._shard
        return None if shard is None else shard.states.get(self.transactional_id)

    @property
    def state(self) -> str:
        """The name of its state; "Dead" for an unknown id, or while it is loaded."""
        return self.show().state

    @property
    def producer_id(self) -> int:
        """The id of its producer; -1 for an unknown transactional id."""
        return self.show().producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of its producer; -1 for an unknown transactional id."""
        return self.show().producer_epoch

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of each partition in the transaction, in order."""
        found = self._found
        rows = () if found is None else sorted(found.metadata.partitions)
        return [(row.topic, row.partition) for row in rows]

    @property
    def groups(self) -> list[str]:
        """The groups whose offsets are in the transaction, in order."""
        found = self._found
        return [] if found is None else sorted(found.metadata.groups)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        shard = self._shard
        return NO_NODE if shard is None else shard.node_id

    @property
    def held(self) -> str | None:
        """The state in which a hold keeps it; None: it is not held."""
        return self.show().held

    def describe(self) -> dict[str, Any]:
        """`TransactionRow` as JSON's types."""
        return asdict(self.show())

    def show(self) -> TransactionRow:
        """Its state and its producer."""
        cluster, name = self.broker.cluster, self.transactional_id
        return row_of(cluster, name, self._found, self.coordinator)

    # -- power: see `TransactionVerbs`

    def _move(self, node: int | None) -> int:
        cluster = self.broker.cluster
        try:
            if node is None:
                shard = cluster.transactions.for_id(self.transactional_id)
                node = next_node(self.broker, shard.node_id)
            cluster.move_transaction_coordinator(self.transactional_id, node)
        except (ClusterError, StorageError) as error:
            raise PowerError(str(error)) from error
        return node

    def _submit(self, command: Command) -> None:
        try:
            self.broker.cluster.transactions.command(command)
        except StorageError as error:
            raise PowerError(str(error)) from error

    def _has_state(self, state: str | None) -> _HasState:
        return _HasState(self, state)


class _HasState:
    """A state of a transactional id: the condition of `TransactionVerbs.until`."""

    def __init__(self, transaction: Transaction, state: str | None) -> None:
        self._transaction = transaction
        self._state = (
            None
            if state is None
            else state_named(state, TransactionState, "transaction state")
        )
        self.words = "exists" if state is None else f"is {self._state}"
        self.unheard = conditions.all_but(STATE)

    @property
    def broker(self) -> Broker:
        """The broker of the id."""
        return self._transaction.broker

    @property
    def subject(self) -> str:
        """The id, in words."""
        return f"transaction {self._transaction.transactional_id!r}"

    def concerns(self, notice: Notice) -> bool:
        """Returns whether an event is one of the id."""
        name: object = notice.fields["transactional_id"]
        return name == self._transaction.transactional_id

    def is_met(self) -> bool:
        """True if the id has the state now."""
        state = self._transaction.state
        if self._state is None:
            return state != TransactionState.DEAD
        return state == self._state

    def now(self) -> str:
        """The state of the id, in words."""
        state = self._transaction.state
        if state == TransactionState.DEAD:
            return "the transactional id does not exist"
        held = self._transaction.held
        return f"it is {state}" + (f", and held in {held}" if held else "")

    def story(self) -> str:
        """None: `kohort why` tells the history of groups."""
        return ""
