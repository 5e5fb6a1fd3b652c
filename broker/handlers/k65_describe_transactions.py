"""DescribeTransactions: the states of transactional ids (KIP-664)."""

from __future__ import annotations

from itertools import groupby

from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.transactions.events import (
    DescribeTransaction,
    DescribeTransactionResult,
)
from kohort.protocol.apis.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

_ID_COST = 10
"""Cost of describing a transactional id, as `Pace` counts."""
_PARTITION_COST = 1


def handle(request: Request) -> Work:
    """Asks the coordinator of each id."""
    message: DescribeTransactionsRequest = request.message
    pace, rows = Pace(), []
    for transactional_id in message.transactional_ids:
        slot = ResultSlot()
        event = DescribeTransaction(slot, transactional_id)
        request.node.submit_transaction_event(event)
        rows.append(_row(slot.result))
        if pace.spend(_ID_COST + _PARTITION_COST * len(slot.result.partitions)):
            yield
    yield from request.reply_in_pieces(DescribeTransactionsResponse(0, rows))


def _row(result: DescribeTransactionResult) -> TransactionState:
    by_topic = groupby(result.partitions, lambda each: each.topic)
    return TransactionState(
        result.error_code,
        result.transactional_id,
        result.state,
        result.timeout_ms,
        result.start_ms,
        result.producer_id,
        result.producer_epoch,
        [
            TopicData(topic, [each.partition for each in partitions])
            for topic, partitions in by_topic
        ],
    )
