"""Partitions become part of a transaction, or are checked to be (KIP-98, KIP-890)."""

from __future__ import annotations

from kohort.broker.transactions import notices
from kohort.broker.transactions.events import (
    AddPartitions,
    AddPartitionsResult,
    TopicPartition,
)
from kohort.broker.transactions.state import ONGOING, PREPARED
from kohort.broker.transactions.transaction_metadata import (
    NO_GROUPS,
    TransactionMetadata,
)
from kohort.broker.transactions.turn import Turn
from kohort.protocol.errors import ErrorCode


def add(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: AddPartitions
) -> None:
    """Adds partitions; begins a transaction if none is open."""
    transaction = transactions.get(event.transactional_id)
    error = _error(transaction, event)
    if transaction is None or error:
        turn.reply(event.token, AddPartitionsResult(error))
        if turn.listening and transaction and error == ErrorCode.PRODUCER_FENCED:
            turn.notices.append(notices.transaction_fenced(transaction, event))
        return
    if event.verify_only:
        turn.reply(event.token, _verified(transaction, event))
        return
    metadata = transaction.metadata
    partitions = frozenset(TopicPartition(*each) for each in event.partitions)
    groups = NO_GROUPS if event.group_id is None else frozenset((event.group_id,))
    was_open = metadata.state is ONGOING
    if was_open and partitions <= metadata.partitions and groups <= metadata.groups:
        turn.reply(event.token, AddPartitionsResult(ErrorCode.NONE))
        return
    if event.client is not None:
        transaction.client_id = event.client.id
    after = metadata.added(partitions, groups, event.transaction_version, turn.now_ms)
    cause = "client_added" if was_open else "client_began"
    result = AddPartitionsResult(ErrorCode.NONE)
    turn.change(transaction, after, cause, event.token, result, opens_window=True)


def _error(transaction: TransactionMetadata | None, event: AddPartitions) -> ErrorCode:
    if not event.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not event.verify_only and transaction.is_busy:
        # First of all: the producer may know its next id already.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    metadata = transaction.metadata
    if metadata.producer_id != event.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != event.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def _verified(
    transaction: TransactionMetadata, event: AddPartitions
) -> AddPartitionsResult:
    known = transaction.metadata.partitions
    missing = ErrorCode.TRANSACTION_ABORTABLE
    codes = [ErrorCode.NONE if each in known else missing for each in event.partitions]
    return AddPartitionsResult(ErrorCode.NONE, codes)
