"""ListTransactions: the transactional ids of this node (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.patterns import STEPS_PER_COST, Pattern, PatternError
from kohort.broker.request import Request
from kohort.broker.runtime.shard import Shard
from kohort.broker.transactions import state as transaction_state
from kohort.broker.transactions.admin import Wanted, listed
from kohort.protocol.apis.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kohort.protocol.errors import ErrorCode

_STATES = frozenset(state.value for state in transaction_state.TransactionState)
_ROW_COST = 1
"""Cost of looking at an id, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Lists the ids of the node's coordinators. As in Kafka, none may be loading."""
    cluster = request.node.cluster
    shards = cluster.transactions.led_by(request.node.id)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if any(shard.error(request.node.id) == loading for shard in shards):
        request.finish(ListTransactionsResponse(0, loading))
        return
    try:
        answer = yield from _listed(request, shards)
    except PatternError:
        error = ErrorCode.INVALID_REGULAR_EXPRESSION
        request.finish(ListTransactionsResponse(0, error))
        return
    yield from request.finish_in_pieces(answer)


def _listed(
    request: Request, shards: Sequence[Shard[Any]]
) -> Generator[None, None, ListTransactionsResponse]:
    """The response.

    Raises:
        PatternError: the pattern is invalid, or would cost too much.
    """
    message: ListTransactionsRequest = request.message
    cluster, pattern = request.node.cluster, None
    if message.transactional_id_pattern:
        pattern = Pattern(message.transactional_id_pattern)
    pace, rows = Pace(), []
    states = yield from count_values(message.state_filters, pace)
    producer_ids = yield from count_values(message.producer_id_filters, pace)
    wanted = Wanted(
        states,
        producer_ids,
        message.duration_filter,
        pattern,
    )
    for shard in shards:
        # A copy: ids may come and go meanwhile.
        known = [*shard.states.values()]
        founds = listed(known, wanted, cluster.now_ms())
        for each, found in zip(known, founds, strict=True):
            if found is not None:
                rows.append(
                    TransactionState(
                        found.transactional_id,
                        found.metadata.producer_id,
                        found.state.value,
                    )
                )
            cost = _ROW_COST
            if pattern is not None:
                cost += pattern.steps(each.transactional_id) // STEPS_PER_COST
            if pace.spend(cost):
                yield
    unknown = []
    for name in states:
        if name not in _STATES:
            unknown.append(name)
        if pace.spend(_ROW_COST):
            yield
    return ListTransactionsResponse(0, ErrorCode.NONE, unknown, rows)
