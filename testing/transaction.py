"""A transactional id of the broker for tests: verbs, state, and a condition.

Verbs and views are plain calls in async and in blocking tests: those of
`kohort.control.transaction.Transaction`, made in the broker's thread. `until` waits,
and returns the transaction: see `kohort.testing.waiting`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kohort.control.conditions import PATIENCE_S
from kohort.control.transaction import Transaction as BrokerTransaction
from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.testing.thread import BrokerThread


class Transaction(Handle):
    """A transactional id; it can be used before a producer has it.

    Attributes:
        transactional_id: the ``transactional.id`` of a producer.
    """

    def __init__(
        self, thread: BrokerThread, waits: Waits, transactional_id: str
    ) -> None:
        self.transactional_id = transactional_id
        self._thread = thread
        self._waits = waits
        self._transaction = BrokerTransaction(thread.broker, transactional_id)

    def __repr__(self) -> str:
        """Its id."""
        return f"Transaction({self.transactional_id!r})"

    # -- the condition

    def until(
        self, *, state: str | None = None, timeout: float | None = PATIENCE_S
    ) -> Transaction:
        """Waits until the transactional id has a state.

        Args:
            state: Kafka's name, for example "Ongoing"; None: until the id exists.
            timeout: seconds of real time; None: no timeout.

        Raises:
            ConditionTimeout: has the current state.
            ValueError: the state is unknown.
        """
        __tracebackhide__ = True

        async def work() -> None:
            await self._transaction.until(state=state, timeout=timeout)

        return self._waits.begin(copy.copy(self), work(), "transaction.until(...)")

    # -- verbs

    def fence(self) -> None:
        """Fences the producer: raises the epoch, and aborts an open transaction.

        Raises:
            PowerError: the id is unknown, or its transaction is being ended.
        """
        self._thread.call(self._transaction.fence)

    def expire(self) -> None:
        """Aborts the open transaction, as ``transaction.timeout.ms`` does.

        Raises:
            PowerError: no transaction is open.
        """
        self._thread.call(self._transaction.expire)

    def hold(self, state: str = "PrepareCommit") -> None:
        """Holds the next transaction in a state: its markers are not written.

        Args:
            state: PrepareCommit or PrepareAbort.

        Raises:
            PowerError: a transaction cannot be held in that state.
        """
        self._thread.call(self._transaction.hold, state)

    def release(self) -> None:
        """Ends a hold; the markers that wait are written.

        Also those that wait for ``transaction.markers.delay.ms``, or for a leader.

        Raises:
            PowerError: the transaction is not held, and not being ended.
        """
        self._thread.call(self._transaction.release)

    def move(self, node: int | None = None) -> int:
        """Makes another node the coordinator; returns its id.

        Args:
            node: its id; None: the next running node.

        Raises:
            PowerError: the node is unknown or stopped, or no other node is running.
        """
        return self._thread.call(self._transaction.move, node)

    # -- views

    def describe(self) -> dict[str, Any]:
        """Its state and its producer, as JSON's types."""
        return self._thread.call(self._transaction.describe)

    @property
    def state(self) -> str:
        """Kafka's name of its state; "Dead" for an unknown id."""
        return self._thread.call(lambda: self._transaction.state)

    @property
    def producer_epoch(self) -> int:
        """The epoch of its producer; -1 for an unknown transactional id."""
        return self._thread.call(lambda: self._transaction.producer_epoch)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of each partition in the transaction, in order."""
        return self._thread.call(lambda: self._transaction.partitions)

    @property
    def groups(self) -> list[str]:
        """The groups whose offsets are in the transaction, in order."""
        return self._thread.call(lambda: self._transaction.groups)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        return self._thread.call(lambda: self._transaction.coordinator)

    @property
    def held(self) -> str | None:
        """The state in which a hold keeps it; None: it is not held."""
        return self._thread.call(lambda: self._transaction.held)
