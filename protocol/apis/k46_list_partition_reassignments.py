"""ListPartitionReassignments, API key 46.

The partitions that are being moved between brokers (KIP-455).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class ListPartitionReassignmentsTopics:
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


@slotted
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = None


@slotted
class OngoingPartitionReassignment:
    partition_index: Int32 = 0
    replicas: Sequence[Int32] = ()
    adding_replicas: Sequence[Int32] = ()
    removing_replicas: Sequence[Int32] = ()


@slotted
class OngoingTopicReassignment:
    name: String = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


@slotted
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()
