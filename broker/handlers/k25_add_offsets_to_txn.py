"""AddOffsetsToTxn: the offsets of a group become part of a transaction (KIP-98)."""

from __future__ import annotations

from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.broker.transactions.events import AddPartitions, AddPartitionsResult
from kohort.protocol.apis.k25_add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Adds the group's partition of ``__consumer_offsets``; it need not exist."""
    message: AddOffsetsToTxnRequest = request.message
    try:
        index = request.node.cluster.shards.index_of(message.group_id)
    except StorageError:
        # The disk has no room for the topic.
        request.finish(AddOffsetsToTxnResponse(0, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    event = AddPartitions(
        request,
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        [(OFFSETS_TOPIC, index)],
        False,
        0,
        message.group_id,
        request.client,
    )
    request.node.submit_transaction_event(event)


def respond(request: Request, result: AddPartitionsResult) -> None:
    """Answers the request; PRODUCER_FENCED is new in v2 (KIP-588)."""
    error = result.error_code
    if error == ErrorCode.PRODUCER_FENCED and request.version < 2:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    request.finish(AddOffsetsToTxnResponse(0, error))
