"""Requests that only read: DescribeTransactions and ListTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from kohort.broker.transactions.events import (
    DescribeTransaction,
    DescribeTransactionResult,
)
from kohort.broker.transactions.state import PREPARED
from kohort.broker.transactions.transaction_metadata import TransactionMetadata
from kohort.broker.transactions.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted


def describe(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: DescribeTransaction
) -> None:
    """Describes one id; the partitions of an ended transaction are those left to do."""
    transactional_id = event.transactional_id
    transaction = transactions.get(transactional_id)
    if transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if not transactional_id:
            error = ErrorCode.INVALID_REQUEST
        turn.reply(event.token, DescribeTransactionResult(error, transactional_id))
        return
    metadata = transaction.metadata
    is_ending = metadata.state in PREPARED
    result = DescribeTransactionResult(
        ErrorCode.NONE,
        transactional_id,
        metadata.state.value,
        metadata.timeout_ms,
        metadata.start_ms,
        metadata.producer_id,
        metadata.producer_epoch,
        sorted(transaction.missing if is_ending else metadata.partitions),
    )
    turn.reply(event.token, result)


class Pattern(Protocol):
    """A regular expression."""

    def matches(self, text: str) -> bool:
        """Returns whether the whole text matches."""


@slotted
class Wanted:
    """The filters of a ListTransactions; empty ones let everything through."""

    states: Collection[str]
    producer_ids: Collection[int]
    duration_ms: int
    """The least age of a transaction, exclusive; negative for any."""
    pattern: Pattern | None


def listed(
    transactions: Iterable[TransactionMetadata], wanted: Wanted, now_ms: int
) -> Iterator[TransactionMetadata | None]:
    """Yields the transactions that a filter lets through, None for each other one.

    An id that has had no transaction counts as one that is very old, as in Kafka.
    """
    for each in transactions:
        metadata = each.metadata
        yield (
            None
            if (wanted.producer_ids and metadata.producer_id not in wanted.producer_ids)
            or (wanted.states and metadata.state.value not in wanted.states)
            or 0 <= wanted.duration_ms >= now_ms - metadata.start_ms
            or (wanted.pattern and not wanted.pattern.matches(each.transactional_id))
            else each
        )
