"""A transactional id of the broker for tests: verbs, state, and a condition.

Verbs and views are plain calls in async and in blocking tests: those of
`kohort.control.transaction.Transaction`, made in the broker's thread. `until` waits,
and returns the transaction: see `kohort.testing.waiting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.control.transaction import Transaction as BrokerTransaction
from kohort.testing.proxy import Proxy, call, wait
from kohort.testing.waiting import Waits

if TYPE_CHECKING:
    from kohort.testing.thread import BrokerThread


class Transaction(Proxy[BrokerTransaction]):
    """A transactional id; it can be used before a producer has it.

    Attributes:
        transactional_id: the ``transactional.id`` of a producer.
    """

    def __init__(
        self, thread: BrokerThread, waits: Waits, transactional_id: str
    ) -> None:
        subject = BrokerTransaction(thread.broker, transactional_id)
        super().__init__(thread, waits, subject)
        self.transactional_id = transactional_id

    def __repr__(self) -> str:
        """Its id."""
        return f"Transaction({self.transactional_id!r})"

    until = wait(BrokerTransaction.until)

    # -- verbs

    fence = call(BrokerTransaction.fence)
    expire = call(BrokerTransaction.expire)
    hold = call(BrokerTransaction.hold)
    release = call(BrokerTransaction.release)
    move = call(BrokerTransaction.move)

    # -- views

    describe = call(BrokerTransaction.describe)

    @property
    def state(self) -> str:
        """Kafka's name of its state; "Dead" for an unknown id."""
        return self._thread.call(lambda: self._subject.state)

    @property
    def producer_epoch(self) -> int:
        """The epoch of its producer; -1 for an unknown transactional id."""
        return self._thread.call(lambda: self._subject.producer_epoch)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """(topic, partition) of each partition in the transaction, in order."""
        return self._thread.call(lambda: self._subject.partitions)

    @property
    def groups(self) -> list[str]:
        """The groups whose offsets are in the transaction, in order."""
        return self._thread.call(lambda: self._subject.groups)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        return self._thread.call(lambda: self._subject.coordinator)

    @property
    def held(self) -> str | None:
        """The state in which a hold keeps it; None: it is not held."""
        return self._thread.call(lambda: self._subject.held)
