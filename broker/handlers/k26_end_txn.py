"""EndTxn: commits or aborts a transaction (KIP-98, KIP-890)."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.broker.transactions.events import EndTransaction, EndTransactionResult
from kohort.protocol.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Passes the request to the transaction's coordinator."""
    message: EndTxnRequest = request.message
    event = EndTransaction(
        request,
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        message.committed,
        request.version >= 5,
        request.client,
    )
    request.node.submit_transaction_event(event)


def respond(request: Request, result: EndTransactionResult) -> None:
    """Answers the request; PRODUCER_FENCED is new in v2 (KIP-588)."""
    error = result.error_code
    if error == ErrorCode.PRODUCER_FENCED and request.version < 2:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    request.finish(EndTxnResponse(0, error, result.producer_id, result.producer_epoch))
