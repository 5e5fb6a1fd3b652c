"""InitProducerId: ids of idempotent producers (KIP-98, KIP-360)."""

from __future__ import annotations

from kohort.broker import telemetry
from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.protocol.apis.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kohort.protocol.errors import ErrorCode

_NONE = -1

log = telemetry.Logger("transactions")


def handle(request: Request) -> None:
    """Gives an id that is new; a producer that has one and wants it bumped, too.

    Without a transactional id Kafka keeps no state by producer id: any id and epoch in
    the request is answered with a new id and epoch 0.
    """
    message: InitProducerIdRequest = request.message
    has_id, has_epoch = message.producer_id != _NONE, message.producer_epoch != _NONE
    if message.transactional_id == "" or has_id != has_epoch:
        _refuse(request, ErrorCode.INVALID_REQUEST)
    elif message.transactional_id is not None:
        # kohort has no transactions, and the producer is to fail at once. With
        # this code all clients do; librdkafka takes INVALID_REQUEST and
        # UNSUPPORTED_VERSION for a passing state, and tries until its timeout.
        log.warning(
            "transactions_unsupported",
            transactional_id=message.transactional_id,
            client=request.client.id,
        )
        _refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not request.node.has_producer_ids:
        request.node.has_producer_ids = True
        _refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        try:
            producer_id = request.node.cluster.producer_ids.new()
        except StorageError:
            _refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        request.reply(InitProducerIdResponse(0, 0, producer_id, 0))


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply(InitProducerIdResponse(0, error, _NONE, _NONE))
