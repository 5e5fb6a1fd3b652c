"""Notices of the transaction coordinator; `kohort.broker.events.schema` has the kinds.

Tests and operators read them as events.
"""

from __future__ import annotations

from kohort.broker.notice import Notice
from kohort.broker.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
)
from kohort.broker.transactions.state import ONGOING, PREPARED
from kohort.broker.transactions.transaction_metadata import (
    Metadata,
    TransactionMetadata,
)
from kohort.protocol.errors import ErrorCode


def transaction_state(
    transaction: TransactionMetadata, before: Metadata | None, cause: str, now: float
) -> Notice:
    """A transactional id has a new state.

    Args:
        transaction: the id, already in its new state.
        before: its previous state; None for the first one.
        cause: one of ``TRANSACTION_CAUSES``.
        now: seconds since the epoch.
    """
    metadata = transaction.metadata
    state = metadata.state
    is_open = state is ONGOING or state in PREPARED
    return Notice(
        "transaction_state",
        None,
        None,
        None,
        {
            "transactional_id": transaction.transactional_id,
            "producer_id": metadata.producer_id,
            "producer_epoch": metadata.producer_epoch,
            "old_state": None if before is None else before.state.value,
            "state": state.value,
            "cause": cause,
            "partitions": metadata.partitions,
            "groups": metadata.groups,
            "started_ms": metadata.start_ms if is_open else -1,
            "duration_ns": None if before is None else _ns(now - transaction.since),
            "timeout_ms": metadata.timeout_ms,
            "client_id": transaction.client_id,
        },
        1 + len(metadata.partitions),
    )


def _ns(seconds: float) -> int:
    """Nanoseconds, exact to the microsecond."""
    return round(seconds * 1_000_000) * 1_000


def transaction_fenced(
    transaction: TransactionMetadata,
    event: InitProducer | AddPartitions | EndTransaction,
) -> Notice:
    """A request was refused because of its epoch."""
    return Notice(
        "transaction_fenced",
        None,
        None,
        None,
        {
            "transactional_id": transaction.transactional_id,
            "producer_id": event.producer_id,
            "producer_epoch": event.producer_epoch,
            "current_epoch": transaction.metadata.producer_epoch,
            "api": _api(event),
            "error": ErrorCode.PRODUCER_FENCED.name,
            "client_id": None if event.client is None else event.client.id,
        },
    )


def _api(event: InitProducer | AddPartitions | EndTransaction) -> str:
    """The API of the client's request: brokers add partitions on behalf of others."""
    if isinstance(event, InitProducer):
        return "InitProducerId"
    if isinstance(event, EndTransaction):
        return "EndTxn"
    if event.transaction_version:
        return "Produce" if event.group_id is None else "TxnOffsetCommit"
    return "AddPartitionsToTxn" if event.group_id is None else "AddOffsetsToTxn"
