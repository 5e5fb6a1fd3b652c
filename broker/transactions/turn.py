"""The effects of an event of transactions, collected while the event is handled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kohort.broker.runtime.appends import Appends
from kohort.broker.runtime.effects import CommandResult, Reply
from kohort.broker.runtime.turn import MachineTurn
from kohort.broker.transactions import notices
from kohort.broker.transactions.effects import StateRecord, WriteMarkers
from kohort.broker.transactions.events import Result, TopicPartition
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import (
    DEAD,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
    check,
)
from kohort.broker.transactions.transaction_metadata import (
    NO_EPOCH,
    Metadata,
    TransactionMetadata,
)
from kohort.protocol.slotted import replace, slotted

LONGEST_RETRY: Final = 1.0
"""The longest pause: a node may stay stopped while a test moves the clock by days."""


@slotted
class Changed:
    """Transactional ids have a new state once its record is in the log."""

    transactions: Sequence[TransactionMetadata]
    cause: str
    """The cause in ``transaction_state``."""
    is_command: bool
    """A command's change: what follows from it is done at once."""


class Turn(MachineTurn):
    """The transaction coordinator's turn on one event.

    Replies come last, behind the markers. Those are most often the markers of earlier
    turns: only without ``transaction.markers.delay.ms``, and after a command, is the
    transaction complete when its end is answered.
    """

    __slots__ = (
        "holds",
        "new_producer_id",
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
        super().__init__(appends, now, listening=listening)
        self.settings = settings
        self.holds = holds
        self.new_producer_id = new_producer_id
        self.transaction_version = transaction_version
        self.started = started
        self.now_ms = int(now * 1000)

    # -- changes

    def change(
        self,
        transaction: TransactionMetadata,
        after: Metadata,
        cause: str,
        token: object = None,
        result: Result | None = None,
        *,
        opens_window: bool = False,
    ) -> None:
        """Writes a new state, which applies once its record is in the log.

        Args:
            transaction: not busy, or all its markers are written.
            after: the new state.
            cause: the cause in ``transaction_state``.
            token: the request that is answered then; None without one.
            result: its result.
            opens_window: requests that arrive together with this one find the id busy.
        """
        check(transaction.state, after.state)
        transaction.pending = after
        replies = [] if result is None else [Reply(token, result)]
        changed = Changed((transaction,), cause, type(result) is CommandResult)
        self.append_batch(
            [StateRecord(transaction.transactional_id, after)],
            changed,
            replies,
            opens_window=opens_window and self.settings.has_windows,
        )

    def bury(self, transactions: Sequence[TransactionMetadata]) -> None:
        """Writes the tombstones of ids that expire."""
        for transaction in transactions:
            check(transaction.state, DEAD)
            transaction.pending = replace(transaction.metadata, state=DEAD)
        records = [StateRecord(each.transactional_id, None) for each in transactions]
        changed = Changed(transactions, "id_expired", is_command=False)
        self.append_batch(records, changed, [], is_atomic=False)

    def apply(self, transaction: TransactionMetadata, cause: str) -> None:
        """Enters the pending state, whose record is in the log."""
        before, after = transaction.metadata, transaction.pending
        assert after is not None
        transaction.metadata, transaction.pending = after, None
        is_new = before.producer_epoch == NO_EPOCH
        self.tell(transaction, None if is_new else before, cause)
        if before.state is not after.state:
            transaction.since = self.now

    def tell(
        self, transaction: TransactionMetadata, before: Metadata | None, cause: str
    ) -> None:
        """Makes the notice of a new state; `before` is None for the first one."""
        if self.listening:
            notice = notices.transaction_state(transaction, before, cause, self.now)
            self.notices.append(notice)

    # -- markers and timers

    def write_markers(
        self, transaction: TransactionMetadata, partitions: Sequence[TopicPartition]
    ) -> None:
        """Writes the markers of some partitions."""
        prepared = transaction.metadata
        assert prepared.state in PREPARED
        self.notices.append(
            WriteMarkers(
                transaction.transactional_id,
                prepared.producer_id,
                prepared.producer_epoch,
                prepared.state is PREPARE_COMMIT,
                prepared.transaction_version,
                partitions,
            )
        )

    def arm_markers(self, transaction: TransactionMetadata, pause: float) -> None:
        """Sets the timer for markers that are due later; `pause` is in seconds."""
        key = "markers", transaction.transactional_id
        self.arm(key, self.now + pause)

    def arm_retry(self, transaction: TransactionMetadata) -> None:
        """Sets the timer for refused markers."""
        pause = transaction.retry_pause
        self.arm_markers(transaction, pause)
        transaction.retry_pause = min(2 * pause, LONGEST_RETRY)

    def arm_timeout(self, transaction: TransactionMetadata) -> None:
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
            self.arm(key, deadline)
