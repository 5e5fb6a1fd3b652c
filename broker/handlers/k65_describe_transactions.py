"""DescribeTransactions: the states of transactional ids (KIP-664)."""

from __future__ import annotations

from itertools import groupby

from kohort.broker.handlers.repeated_rows import RepeatedRows
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
_REPEATED_COST = 1
"""Cost of an id that is repeated."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each id, once if it is repeated."""
    message: DescribeTransactionsRequest = request.message
    pace, rows = Pace(), []
    known: RepeatedRows[str, TransactionState] = RepeatedRows()
    for transactional_id in message.transactional_ids:
        row, cost = known.again(transactional_id), _REPEATED_COST
        if row is None:
            slot = ResultSlot()
            event = DescribeTransaction(slot, transactional_id)
            request.node.submit_transaction_event(event)
            count = len(slot.result.partitions)
            row = known.keep(transactional_id, _row(slot.result), 1 + count)
            cost = _ID_COST + _PARTITION_COST * count
        rows.append(row)
        if pace.spend(cost):
            yield
    yield from request.finish_in_pieces(DescribeTransactionsResponse(0, rows))


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
