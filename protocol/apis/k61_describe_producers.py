"""DescribeProducers, API key 61.

The idempotent producers that have written to partitions (KIP-664).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, Int64, String
from kohort.protocol.slotted import slotted


@slotted
class TopicRequest:
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


@slotted
class DescribeProducersRequest:
    topics: Sequence[TopicRequest] = ()


@slotted
class ProducerState:
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@slotted
class PartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Sequence[ProducerState] = ()


@slotted
class TopicResponse:
    name: String = ""
    partitions: Sequence[PartitionResponse] = ()


@slotted
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[TopicResponse] = ()
