"""The effects of one event, collected while the event is handled."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kohort.broker.coordinator.effects import Arm, Notice
from kohort.broker.transactions import notices
from kohort.broker.transactions.effects import (
    Append,
    Effect,
    Reply,
    StateRecord,
    WriteMarkers,
)
from kohort.broker.transactions.events import Result, TopicPartition
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import (
    DEAD,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
    check,
)
from kohort.broker.transactions.transaction import NO_EPOCH, Metadata, Transaction
from kohort.protocol.slotted import replace, slotted

LONGEST_RETRY: Final = 1.0
"""The longest pause: a node may stay stopped while a test moves the clock by days."""


@slotted
class Waiting:
    """An append that is not in the log yet."""

    append_id: int
    transactions: Sequence[Transaction]
    cause: str
    reply: Reply | None
    """The answer to the request once the append is in the log."""


class Appends:
    """A coordinator's appends that are not in the log yet.

    Attributes:
        waiting: oldest first.
    """

    __slots__ = ("_latest", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self._latest = 0

    def add(
        self, transactions: Sequence[Transaction], cause: str, reply: Reply | None
    ) -> int:
        """Numbers an append."""
        self._latest += 1
        self.waiting.append(Waiting(self._latest, transactions, cause, reply))
        return self._latest

    def take(self, append_id: int) -> Iterator[Waiting]:
        """Removes the appends up to this one, and yields them."""
        while self.waiting and self.waiting[0].append_id <= append_id:
            yield self.waiting.popleft()

    def remove(self, append_id: int) -> Waiting:
        """Removes an append."""
        (found,) = (each for each in self.waiting if each.append_id == append_id)
        self.waiting.remove(found)
        return found


class Turn:
    """The coordinator's turn on one event.

    Replies come last, behind the markers: a client that is answered at once finds its
    transaction complete, if all partitions took their markers.
    """

    __slots__ = (
        "_markers",
        "_notices",
        "_replies",
        "appends",
        "effects",
        "holds",
        "listening",
        "new_producer_id",
        "now",
        "now_ms",
        "settings",
        "started",
        "transaction_version",
    )

    def __init__(
        self,
        settings: TransactionSettings,
        appends: Appends,
        holds: dict[str, TransactionState],
        new_producer_id: Callable[[], int | None],
        transaction_version: int,
        started: float,
        now: float,
        *,
        listening: bool,
    ) -> None:
        """Begins at `now`, seconds since the epoch; see `TransactionCoordinator`."""
        self.settings = settings
        self.appends = appends
        self.holds = holds
        self.new_producer_id = new_producer_id
        self.transaction_version = transaction_version
        self.started = started
        self.now = now
        self.now_ms = int(now * 1000)
        self.listening = listening
        self.effects: list[Effect] = []
        self._notices: list[Effect] = []
        self._markers: list[Effect] = []
        self._replies: list[Effect] = []

    def end(self) -> list[Effect]:
        """All effects, in order."""
        return [*self.effects, *self._notices, *self._markers, *self._replies]

    def reply(self, token: object, result: Result) -> None:
        """Answers a request."""
        self._replies.append(Reply(token, result))

    def notify(self, notice: Notice) -> None:
        """Publishes a notice, behind the appends of this turn."""
        self._notices.append(notice)

    # -- changes

    def change(
        self,
        transaction: Transaction,
        after: Metadata,
        cause: str,
        token: object = None,
        result: Result | None = None,
    ) -> None:
        """Writes a new state, which applies once its record is in the log.

        Args:
            transaction: not busy, or all its markers are written.
            after: the new state.
            cause: the cause in ``transaction_state``.
            token: the request that is answered then; None without one.
            result: its result.
        """
        check(transaction.state, after.state)
        transaction.pending = after
        reply = None if result is None else Reply(token, result)
        append_id = self.appends.add((transaction,), cause, reply)
        record = StateRecord(transaction.transactional_id, after)
        self._append((record,), append_id)

    def bury(self, transactions: Sequence[Transaction]) -> None:
        """Writes the tombstones of ids that expire."""
        for transaction in transactions:
            check(transaction.state, DEAD)
            transaction.pending = replace(transaction.metadata, state=DEAD)
        append_id = self.appends.add(transactions, "id_expired", None)
        records = [StateRecord(each.transactional_id, None) for each in transactions]
        self._append(records, append_id)

    def _append(self, records: Sequence[StateRecord], append_id: int) -> None:
        value_version = 1 if self.transaction_version else 0
        self.effects.append(Append(records, append_id, value_version))

    def apply(self, transaction: Transaction, cause: str) -> None:
        """Enters the pending state, whose record is in the log."""
        before, after = transaction.metadata, transaction.pending
        assert after is not None
        transaction.metadata, transaction.pending = after, None
        is_new = before.producer_epoch == NO_EPOCH
        self.tell(transaction, None if is_new else before, cause)
        if before.state is not after.state:
            transaction.since = self.now

    def tell(
        self, transaction: Transaction, before: Metadata | None, cause: str
    ) -> None:
        """Makes the notice of a new state; `before` is None for the first one."""
        if self.listening:
            notice = notices.transaction_state(transaction, before, cause, self.now)
            self.notify(notice)

    # -- markers and timers

    def write_markers(
        self, transaction: Transaction, partitions: Sequence[TopicPartition]
    ) -> None:
        """Writes the markers of some partitions."""
        prepared = transaction.metadata
        assert prepared.state in PREPARED
        self._markers.append(
            WriteMarkers(
                transaction.transactional_id,
                prepared.producer_id,
                prepared.producer_epoch,
                prepared.state is PREPARE_COMMIT,
                prepared.transaction_version,
                partitions,
            )
        )

    def arm_retry(self, transaction: Transaction) -> None:
        """Sets the timer for refused markers."""
        key = "markers", transaction.transactional_id
        pause = transaction.retry_pause
        self.effects.append(Arm(key, self.now + pause))
        transaction.retry_pause = min(2 * pause, LONGEST_RETRY)

    def arm_timeout(self, transaction: Transaction) -> None:
        """Sets the timer of an open transaction, unless it fires earlier anyway.

        Kafka looks for transactions that are too old from time to time, so the timer
        fires at the first such time behind the timeout.
        """
        metadata = transaction.metadata
        interval = self.settings.abort_interval_ms / 1000
        end = max((metadata.start_ms + metadata.timeout_ms + 1) / 1000, self.now)
        checks = math.floor((end - self.started) / interval) + 1
        deadline = self.started + checks * interval
        if deadline < transaction.armed:
            transaction.armed = deadline
            key = "timeout", transaction.transactional_id
            self.effects.append(Arm(key, deadline))
