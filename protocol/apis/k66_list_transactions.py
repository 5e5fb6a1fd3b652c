"""ListTransactions, API key 66.

The transactions that a broker coordinates (KIP-664).

Versions 0 to 2, flexible from v0. v1 filters by duration (KIP-994), v2 by a pattern
of transactional ids (KIP-1152).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class ListTransactionsRequest:
    state_filters: Sequence[String] = ()
    producer_id_filters: Sequence[Int64] = ()
    duration_filter: Annotated[Int64, V(1)] = -1
    transactional_id_pattern: Annotated[String | None, V(2)] = None


@slotted
class TransactionState:
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@slotted
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[String] = ()
    transaction_states: Sequence[TransactionState] = ()
