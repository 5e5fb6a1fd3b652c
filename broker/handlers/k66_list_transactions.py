"""ListTransactions: the transactional ids of this node (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import re2

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.transactions.admin import Wanted, listed
from kohort.protocol.apis.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 1
"""Cost of looking at an id, as `Pace` counts."""


def _quiet() -> re2.Options:
    """Options without log lines about invalid patterns."""
    options = re2.Options()
    options.log_errors = False
    return options


def handle(request: Request) -> Work:
    """Lists the ids of all coordinators of the node. As in Kafka, none may be loading.

    The pattern is one of RE2, as in Kafka: matching takes linear time.
    """
    message: ListTransactionsRequest = request.message
    cluster = request.node.cluster
    shards = cluster.transactions.led_by(request.node.id)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if any(shard.error(request.node.id) == loading for shard in shards):
        request.reply(ListTransactionsResponse(0, loading))
        return
    pattern = None
    if message.transactional_id_pattern:
        try:
            pattern = re2.compile(message.transactional_id_pattern, _quiet())
        except re2.error:
            error = ErrorCode.INVALID_REGULAR_EXPRESSION
            request.reply(ListTransactionsResponse(0, error))
            return
    wanted = Wanted(
        frozenset(message.state_filters),
        frozenset(message.producer_id_filters),
        message.duration_filter,
        pattern,
    )
    pace, rows = Pace(), []
    for shard in shards:
        # A copy: ids may come and go meanwhile.
        known = [*shard.transactions.values()]
        for found in listed(known, wanted, cluster.now_ms()):
            if found is not None:
                rows.append(
                    TransactionState(
                        found.transactional_id,
                        found.metadata.producer_id,
                        found.state.value,
                    )
                )
            if pace.spend(_ROW_COST):
                yield
    unknown = wanted.unknown_states()
    answer = ListTransactionsResponse(0, ErrorCode.NONE, unknown, rows)
    yield from request.reply_in_pieces(answer)
