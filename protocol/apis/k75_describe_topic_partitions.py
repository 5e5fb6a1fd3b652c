"""DescribeTopicPartitions, API key 75.

Topics' partitions, page by page (KIP-966).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import ZERO_UUID, Bool, Int16, Int32, String, Uuid
from kohort.protocol.slotted import slotted


@slotted
class TopicRequest:
    name: String = ""


@slotted
class CursorRequest:
    topic_name: String = ""
    partition_index: Int32 = 0


@slotted
class DescribeTopicPartitionsRequest:
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: Int32 = 2000
    cursor: CursorRequest | None = None


@slotted
class DescribeTopicPartitionsResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    eligible_leader_replicas: Sequence[Int32] | None = None
    last_known_elr: Sequence[Int32] | None = None
    offline_replicas: Sequence[Int32] = ()


@slotted
class DescribeTopicPartitionsResponseTopic:
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: Int32 = -2147483648


@slotted
class CursorResponse:
    topic_name: String = ""
    partition_index: Int32 = 0


@slotted
class DescribeTopicPartitionsResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: CursorResponse | None = None
