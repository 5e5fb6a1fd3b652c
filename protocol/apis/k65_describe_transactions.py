"""DescribeTransactions, API key 65.

The states of transactions by transactional id (KIP-664).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, Int64, String
from kohort.protocol.slotted import slotted


@slotted
class DescribeTransactionsRequest:
    transactional_ids: Sequence[String] = ()


@slotted
class TopicData:
    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Sequence[TopicData] = ()


@slotted
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: Sequence[TransactionState] = ()
