"""The transaction coordinator: takes events one by one, and returns their effects.

It decides as Apache Kafka 4.3 does. Producer ids come from `new_producer_id`.
`kohort.broker.runtime` has what all coordinators share.

A transaction through the files, of a producer with `transactional.id` "t":

1. InitProducerId: `initialize.initialize` gives t a producer id and an epoch: Empty.
2. AddPartitionsToTxn, or the first Produce (KIP-890): `partitions.add`: Ongoing. The
   timer ("timeout", t) is armed.
3. EndTxn: `ending.end`: PrepareCommit. From here on the transaction is committed.
4. When the log has that, the request is answered, and `ending.prepared` arms the timer
   ("markers", t). When it fires, `ending.write_due` returns `WriteMarkers`.
5. Each partition that has its marker comes back as `MarkerWritten`. After the last one
   `ending` completes the transaction: CompleteCommit.

Each change is an `Append` of the id's new state, and applies when the log has it
(`Appended`). Until then, and in step 4, the id is busy: requests are answered
CONCURRENT_TRANSACTIONS. `state` has the table of states.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.broker.runtime.appends import Appends
from kohort.broker.runtime.effects import Effect
from kohort.broker.runtime.machine import Completion, Machine
from kohort.broker.transactions import (
    admin,
    ending,
    expiry,
    initialize,
    partitions,
    powers,
)
from kohort.broker.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ExpireTransaction,
    FenceProducer,
    HoldTransaction,
    InitProducer,
    MarkerWritten,
    ReleaseTransaction,
)
from kohort.broker.transactions.load import Loading
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import DEAD, ONGOING, PREPARED, TransactionState
from kohort.broker.transactions.transaction_metadata import (
    NO_EPOCH,
    TransactionMetadata,
)
from kohort.broker.transactions.turn import Changed, Turn


class TransactionCoordinator(Machine[TransactionMetadata, Turn, Loading]):
    """Coordinates the transactions of some transactional ids.

    Args:
        settings: the settings.
        new_producer_id: returns an unused producer id; None if none can be reserved.
        transaction_version: returns the level of ``transaction.version``.
        holds: the state in which a transaction is held, by id. Shared by all
            coordinators of a broker: a hold outlives a move and a reload.

    Attributes:
        settings: the settings; may be replaced at any time.
        transactions: by transactional id.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        new_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
        holds: dict[str, TransactionState] | None = None,
    ) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        super().__init__(self.transactions, Appends())
        self.settings = settings
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._holds = {} if holds is None else holds
        self._started = 0.0
        act = self._in_turn
        self._handlers |= {
            InitProducer: act(initialize.initialize),
            AddPartitions: act(partitions.add),
            EndTransaction: act(ending.end),
            DescribeTransaction: act(admin.describe),
            MarkerWritten: act(ending.marker_written),
            FenceProducer: act(powers.fence),
            ExpireTransaction: act(powers.expire),
            HoldTransaction: act(powers.hold),
            ReleaseTransaction: act(powers.release),
        }
        self._timers |= {
            "timeout": ending.timed_out,
            "markers": ending.markers_due,
        }
        self._completions[Changed] = Completion(_changed, _not_changed)

    def start(self, loading: Loading, now: float) -> list[Effect]:
        """Takes over the ids of a log; see `Machine.start`."""
        self._started = now
        return super().start(loading, now)

    def _take_over(self, turn: Turn, loading: Loading) -> None:
        loading.finish(turn, self.transactions)

    def _turn(self, now: float) -> Turn:
        return Turn(
            self.settings,
            self.appends,
            self._holds,
            self._new_producer_id,
            self._transaction_version(),
            self._started,
            now,
            listening=self.listening,
        )

    # -- timers

    def _check(self, turn: Turn, unchecked: list[str]) -> list[str]:
        return expiry.expire(turn, self.transactions, unchecked)

    @property
    def _check_interval_ms(self) -> int:
        return self.settings.expiration_interval_ms


# -- changes


def _changed(
    turn: Turn, transactions: dict[str, TransactionMetadata], changed: Changed
) -> None:
    """Goes on with a change that is in the log."""
    for transaction in changed.transactions:
        was_open = transaction.state is ONGOING
        turn.apply(transaction, changed.cause)
        if transaction.state in PREPARED:
            ending.prepared(turn, transaction, at_once=changed.is_command)
        elif transaction.state is ONGOING and not was_open:
            turn.arm_timeout(transaction)
        elif transaction.state is DEAD:
            del transactions[transaction.transactional_id]


def _not_changed(
    turn: Turn, transactions: dict[str, TransactionMetadata], changed: Changed, _: int
) -> None:
    """Takes back a change that the log has refused."""
    for transaction in changed.transactions:
        transaction.pending = None
        if transaction.metadata.producer_epoch == NO_EPOCH:
            del transactions[transaction.transactional_id]
        elif transaction.state is ONGOING:
            turn.arm_timeout(transaction)
