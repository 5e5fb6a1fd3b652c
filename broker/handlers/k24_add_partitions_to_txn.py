"""AddPartitionsToTxn: one transaction before v4, several from then on (KIP-890)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Final

from kohort.broker.handlers.result_slot import Results
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.broker.topics.topic import INTERNAL_TOPICS
from kohort.broker.transactions.events import AddPartitions, AddPartitionsResult
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.errors import ErrorCode

_FIRST_BATCHED = 4
_PARTITION_COST = 1
"""Cost of adding a partition, as `Pace` counts."""
_TRANSACTION_COST = 20
MOST: Final = 10_000
"""Partitions that are added to a transaction by one request: the coordinator takes all
of them at once, in 10 ms."""

_Partitions = dict[tuple[str, int], None]
"""A set of partitions, in order."""
_Asked = tuple[AddPartitionsToTxnTransaction, _Partitions]
_Topics = Generator[None, None, list[AddPartitionsToTxnTopicResult]]


def handle(request: Request) -> Work:
    """Asks the coordinator of each transaction.

    Without any transaction Kafka sends no response.
    """
    message: AddPartitionsToTxnRequest = request.message
    transactions = message.transactions
    if request.version < _FIRST_BATCHED:
        transactions = [
            AddPartitionsToTxnTransaction(
                message.v3_and_below_transactional_id,
                message.v3_and_below_producer_id,
                message.v3_and_below_producer_epoch,
                False,
                message.v3_and_below_topics,
            )
        ]
    elif not transactions and not request.is_helpful:
        request.forget("it has no transactions")
        return
    pace, results = Pace(), Results(request)
    asked = []
    for each in transactions:
        partitions = yield from _submit(request, each, results, pace)
        asked.append((each, partitions))
    results.then(partial(_reply, request, asked))


def _submit(
    request: Request,
    transaction: AddPartitionsToTxnTransaction,
    results: Results,
    pace: Pace,
) -> Generator[None, None, _Partitions]:
    """Adds or verifies the partitions of one transaction, if none is refused.

    Returns:
        The partitions in order, each once: the result has a code for each.
    """
    partitions: _Partitions = {}
    codes = []
    is_refused = False
    for topic in transaction.topics:
        for index in topic.partitions:
            if (topic.name, index) not in partitions:
                partitions[topic.name, index] = None
                error = _error(request, topic.name, index)
                is_refused = is_refused or bool(error)
                codes.append(error or ErrorCode.OPERATION_NOT_ATTEMPTED)
            if pace.spend(_PARTITION_COST):
                yield
        if pace.spend(_PARTITION_COST):
            yield
    token = results.token()
    if is_refused or len(partitions) > MOST:
        refusal = AddPartitionsResult(ErrorCode.INVALID_REQUEST)
        if is_refused:
            refusal = AddPartitionsResult(ErrorCode.NONE, codes)
        token.answer(refusal)
        if pace.spend(_PARTITION_COST):
            yield
        return partitions
    event = AddPartitions(
        token,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        [*partitions],
        transaction.verify_only,
        0 if request.version < _FIRST_BATCHED else 2,
        None,
        request.client,
    )
    request.node.submit_transaction_event(event)
    if pace.spend(_TRANSACTION_COST):
        yield
    return partitions


def _error(request: Request, name: str, index: int) -> ErrorCode:
    """The reason why a partition cannot be added; clients add no internal topics."""
    topic = request.node.cluster.topics.by_name.get(name)
    if request.version < _FIRST_BATCHED and name in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _reply(
    request: Request, asked: Sequence[_Asked], results: list[AddPartitionsResult]
) -> Work:
    pace, rows = Pace(), []
    for (transaction, partitions), result in zip(asked, results, strict=True):
        if result.codes is None and not transaction.verify_only:
            topics = yield from _equal_rows(request, transaction, result, pace)
        else:
            topics = yield from _rows(partitions, result, pace)
        rows.append(AddPartitionsToTxnResult(transaction.transactional_id, topics))
        if pace.spend(_PARTITION_COST):
            yield
    if request.version < _FIRST_BATCHED:
        answer = AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=rows[0].topic_results
        )
    else:
        answer = AddPartitionsToTxnResponse(0, 0, rows)
    yield from request.finish_in_pieces(answer)


def _equal_rows(
    request: Request,
    transaction: AddPartitionsToTxnTransaction,
    result: AddPartitionsResult,
    pace: Pace,
) -> _Topics:
    """A row for each one in the request; PRODUCER_FENCED is new in v2 (KIP-588)."""
    error = result.error_code
    if error == ErrorCode.PRODUCER_FENCED and request.version < 2:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    topics = []
    for topic in transaction.topics:
        rows = []
        for index in topic.partitions:
            rows.append(AddPartitionsToTxnPartitionResult(index, error))
            if pace.spend(_PARTITION_COST):
                yield
        topics.append(AddPartitionsToTxnTopicResult(topic.name, rows))
        if pace.spend(_PARTITION_COST):
            yield
    return topics


def _rows(partitions: _Partitions, result: AddPartitionsResult, pace: Pace) -> _Topics:
    """A row for each partition, also if the request names it twice, as in Kafka."""
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for position, (name, index) in enumerate(partitions):
        code = result.error_code if result.codes is None else result.codes[position]
        row = AddPartitionsToTxnPartitionResult(index, code)
        topics.setdefault(name, []).append(row)
        if pace.spend(_PARTITION_COST):
            yield
    return (
        yield from map_in_pieces(
            lambda each: AddPartitionsToTxnTopicResult(*each), topics.items(), pace
        )
    )
