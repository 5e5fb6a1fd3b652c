"""The transaction coordinator: takes events one by one, and returns their effects.

It decides as Apache Kafka 4.3 does. It reads no clock and draws no random number: the
time comes with each event, producer ids from `new_producer_id`.

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
from typing import Any, Final

from kohort.broker.coordinator.effects import Arm
from kohort.broker.coordinator.events import Appended, AppendFailed, Expired
from kohort.broker.transactions import (
    admin,
    ending,
    expiry,
    initialize,
    partitions,
    powers,
)
from kohort.broker.transactions.effects import Effect, Reply
from kohort.broker.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    Event,
    ExpireTransaction,
    FenceProducer,
    HoldTransaction,
    InitProducer,
    MarkerWritten,
    ReleaseTransaction,
    failed,
)
from kohort.broker.transactions.load import Loading
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import DEAD, ONGOING, PREPARED, TransactionState
from kohort.broker.transactions.transaction_metadata import (
    NEVER,
    NO_EPOCH,
    TransactionMetadata,
)
from kohort.broker.transactions.turn import Appends, Turn, Waiting
from kohort.protocol.errors import ErrorCode

EXPIRATION_KEY: Final = ("expiration",)
"""The timer of the check for expired ids."""
CHECK_PAUSE: Final = 0.05
"""Seconds between two parts of a check: 50 coordinators may check at once."""

_RESPONSE_ERRORS: dict[int, int] = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes sent in place of the log's own, where a client would take the log's code
for an error in its request."""


class TransactionCoordinator:
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
        listening: whether notices are made.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        new_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
        holds: dict[str, TransactionState] | None = None,
    ) -> None:
        self.settings = settings
        self.transactions: dict[str, TransactionMetadata] = {}
        self.listening = True
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._holds = {} if holds is None else holds
        self._appends = Appends()
        self._started = 0.0
        # Ids not visited yet by the current check for expired ones.
        self._unchecked: list[str] = []
        act = self._in_turn
        self._handlers: dict[type, Callable[[Any, float], list[Effect]]] = {
            InitProducer: act(initialize.initialize),
            AddPartitions: act(partitions.add),
            EndTransaction: act(ending.end),
            DescribeTransaction: act(admin.describe),
            MarkerWritten: act(ending.marker_written),
            FenceProducer: act(powers.fence),
            ExpireTransaction: act(powers.expire),
            HoldTransaction: act(powers.hold),
            ReleaseTransaction: act(powers.release),
            Expired: self._expired,
            Appended: self._appended,
            AppendFailed: self._append_failed,
        }

    def start(self, loading: Loading, now: float) -> list[Effect]:
        """Takes over the ids of a log, before any request for them is handled.

        Args:
            loading: has read all records of these ids.
            now: seconds since the epoch.
        """
        self._started = now
        turn = self._turn(now)
        loading.finish(turn, self.transactions)
        turn.effects.append(self._arm_check(now))
        return turn.end()

    def unload(self) -> list[Effect]:
        """Ends the coordinator: another one takes over its ids.

        Returns:
            NOT_COORDINATOR to each request that waits.
        """
        error = ErrorCode.NOT_COORDINATOR
        appends = self._appends.waiting.values()
        waiting = [each.reply for each in appends if each.reply]
        return [Reply(token, failed(result, error)) for token, result in waiting]

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handles an event.

        Args:
            event: a request, a marker, or a timer that fired.
            now: seconds since the epoch, never less than before.

        Returns:
            Effects, to be performed in order.
        """
        return self._handlers[type(event)](event, now)

    def _turn(self, now: float) -> Turn:
        return Turn(
            self.settings,
            self._appends,
            self._holds,
            self._new_producer_id,
            self._transaction_version(),
            self._started,
            now,
            listening=self.listening,
        )

    def _in_turn(
        self, act: Callable[[Turn, dict[str, TransactionMetadata], Any], None]
    ) -> Callable[[Event, float], list[Effect]]:
        def handle(event: Event, now: float) -> list[Effect]:
            turn = self._turn(now)
            act(turn, self.transactions, event)
            return turn.end()

        return handle

    # -- the log

    def _appended(self, event: Appended, now: float) -> list[Effect]:
        """Goes on with a change that is in the log."""
        turn = self._turn(now)
        append = self._appends.waiting.pop(event.append_id)
        for transaction in append.transactions:
            self._changed(turn, transaction, append)
        if append.reply is not None:
            turn.reply(*append.reply)
        return turn.end()

    def _changed(
        self, turn: Turn, transaction: TransactionMetadata, append: Waiting
    ) -> None:
        was_open = transaction.state is ONGOING
        turn.apply(transaction, append.cause)
        if transaction.state in PREPARED:
            ending.prepared(turn, transaction, at_once=append.is_command)
        elif transaction.state is ONGOING and not was_open:
            turn.arm_timeout(transaction)
        elif transaction.state is DEAD:
            del self.transactions[transaction.transactional_id]

    def _append_failed(self, event: AppendFailed, now: float) -> list[Effect]:
        """Takes back a change that the log has refused."""
        turn = self._turn(now)
        append = self._appends.waiting.pop(event.append_id)
        error = _RESPONSE_ERRORS.get(event.error_code, event.error_code)
        for transaction in append.transactions:
            transaction.pending = None
            if transaction.metadata.producer_epoch == NO_EPOCH:
                del self.transactions[transaction.transactional_id]
            elif transaction.state is ONGOING:
                turn.arm_timeout(transaction)
        if append.reply is not None:
            token, result = append.reply
            turn.reply(token, failed(result, error))
        return turn.end()

    # -- timers

    def _expired(self, event: Expired, now: float) -> list[Effect]:
        """Handles a timer; a timer that is no longer needed has no effect."""
        turn = self._turn(now)
        if event.key == EXPIRATION_KEY:
            unchecked = self._unchecked or list(self.transactions)
            self._unchecked = expiry.expire(turn, self.transactions, unchecked)
            turn.effects.append(self._arm_check(now))
            return turn.end()
        kind, transactional_id = event.key
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return []
        if kind == "timeout":
            transaction.armed = NEVER
            ending.timed_out(turn, transaction)
        elif kind == "markers":
            ending.write_due(turn, transaction)
        else:
            raise AssertionError(f"a timer of an unknown kind: {event.key}")
        return turn.end()

    def _arm_check(self, now: float) -> Arm:
        if self._unchecked:
            return Arm(EXPIRATION_KEY, now + CHECK_PAUSE)
        return Arm(EXPIRATION_KEY, now + self.settings.expiration_interval_ms / 1000)
