"""InitProducerId: ids and epochs of producers (KIP-98, KIP-360)."""

from __future__ import annotations

from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.broker.transactions.events import InitProducer, InitProducerResult
from kohort.protocol.apis.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kohort.protocol.errors import ErrorCode

_NONE = -1


def handle(request: Request) -> None:
    """Passes the request to the transaction's coordinator, or returns a new id.

    Without a transactional id Kafka keeps no state by producer id: any id and epoch in
    the request is answered with a new id and epoch 0.
    """
    message: InitProducerIdRequest = request.message
    has_id, has_epoch = message.producer_id != _NONE, message.producer_epoch != _NONE
    if message.transactional_id == "" or has_id != has_epoch:
        _refuse(request, ErrorCode.INVALID_REQUEST)
    elif not request.node.has_producer_ids:
        request.node.has_producer_ids = True
        _refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    elif message.transactional_id is not None:
        event = InitProducer(
            request,
            message.transactional_id,
            message.transaction_timeout_ms,
            message.producer_id,
            message.producer_epoch,
            request.client,
        )
        request.node.submit_transaction_event(event)
    else:
        try:
            producer_id = request.node.cluster.producer_ids.new()
        except StorageError:
            _refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        request.finish(InitProducerIdResponse(0, 0, producer_id, 0))


def respond(request: Request, result: InitProducerResult) -> None:
    """Answers the request; PRODUCER_FENCED is new in v4 (KIP-588)."""
    error = result.error_code
    if error == ErrorCode.PRODUCER_FENCED and request.version < 4:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    request.finish(
        InitProducerIdResponse(0, error, result.producer_id, result.producer_epoch)
    )


def _refuse(request: Request, error: ErrorCode) -> None:
    request.finish(InitProducerIdResponse(0, error, _NONE, _NONE))
