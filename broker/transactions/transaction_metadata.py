"""A transactional id: the state that its record has, and the state of its markers."""

from __future__ import annotations

import math
from typing import Final

from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)
from kohort.protocol.slotted import replace, slotted

NEVER: Final = math.inf
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 32_767
"""The highest epoch, an int16. Only the coordinator uses it: to fence the producer that
has the one before."""

FIRST_RETRY: Final = 0.1
"""Seconds until a refused marker is written again: its partition may have no leader, or
its leader may be loading. Each further pause is twice as long."""

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()
NO_GROUPS: Final[frozenset[str]] = frozenset()


def is_exhausted(epoch: int) -> bool:
    """Returns whether a producer id has no further epoch for a producer."""
    return epoch >= LAST_EPOCH - 1


@slotted
class Metadata:
    """The state of a transactional id; Kafka calls it TransactionMetadata.

    Each change makes a new one, and its record. Times are ms since the epoch.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    """The begin of the latest transaction; -1 before the first."""
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the latest change."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the end of this transaction, which uses up the epochs."""
    transaction_version: int = 0
    """0, or 2 if the producer's latest request was one of KIP-890."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch that the producer has if it missed an answer. Not in the log."""
    groups: frozenset[str] = NO_GROUPS
    """Groups whose offsets are in the transaction. Not in the log."""

    # -- the next state

    def initialized(
        self,
        producer_id: int,
        epoch: int,
        last_epoch: int,
        timeout_ms: int,
        now_ms: int,
    ) -> Metadata:
        """The state after InitProducerId."""
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            state=EMPTY,
            partitions=NO_PARTITIONS,
            groups=NO_GROUPS,
            start_ms=-1,
            last_update_ms=now_ms,
        )

    def added(
        self,
        partitions: frozenset[TopicPartition],
        groups: frozenset[str],
        version: int,
        now_ms: int,
    ) -> Metadata:
        """The state with more partitions; begins a transaction if none is open."""
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=ONGOING,
            partitions=self.partitions | partitions,
            groups=self.groups | groups,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            transaction_version=version,
        )

    def ended(self, now_ms: int, *, is_commit: bool) -> Metadata:
        """The state once the transaction is committed or aborted: without KIP-890."""
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=PREPARE_COMMIT if is_commit else PREPARE_ABORT,
            last_update_ms=now_ms,
            transaction_version=0,
        )

    def ended_with_next_epoch(
        self, next_producer_id: int, now_ms: int, *, is_commit: bool
    ) -> Metadata:
        """The same with the next epoch (KIP-890).

        Args:
            next_producer_id: follows if this epoch is the last one; else -1.
            now_ms: the time.
            is_commit: whether the transaction is committed.
        """
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, LAST_EPOCH),
            last_producer_epoch=self.producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            state=PREPARE_COMMIT if is_commit else PREPARE_ABORT,
            # An abort without a transaction has no begin.
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            transaction_version=2,
        )

    def completed(self, now_ms: int) -> Metadata:
        """The state once all partitions have their markers."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        is_commit = self.state is PREPARE_COMMIT
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=COMPLETE_COMMIT if is_commit else COMPLETE_ABORT,
            partitions=NO_PARTITIONS,
            groups=NO_GROUPS,
            last_update_ms=now_ms,
        )


class TransactionMetadata:
    """A transactional id.

    Attributes:
        transactional_id: the id.
        metadata: its state, as the log has it.
        pending: the state after the append that is not in the log yet; None: there is
            none.
        missing: partitions that have no marker yet.
        due: those of them whose marker is written when the timer fires, or a hold ends.
        retry_pause: seconds until a refused marker is written again.
        since: time of the latest change of state, in seconds since the epoch.
        armed: the deadline of its timer, which may fire early; `NEVER` without one.
        client_id: the client id of the producer; None if unknown.
    """

    __slots__ = (
        "armed",
        "client_id",
        "due",
        "metadata",
        "missing",
        "pending",
        "retry_pause",
        "since",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, metadata: Metadata, since: float) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending: Metadata | None = None
        self.missing: set[TopicPartition] = set()
        self.due: set[TopicPartition] = set()
        self.retry_pause = FIRST_RETRY
        self.since = since
        self.armed = NEVER
        self.client_id: str | None = None

    @property
    def state(self) -> TransactionState:
        """The state, as the log has it."""
        return self.metadata.state

    @property
    def is_busy(self) -> bool:
        """True during a change: requests are answered CONCURRENT_TRANSACTIONS."""
        return self.pending is not None or self.metadata.state in PREPARED
