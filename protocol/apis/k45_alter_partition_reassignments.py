"""AlterPartitionReassignments, API key 45.

Moves partitions to other brokers, or cancels a move (KIP-455). v1 may forbid that the
number of replicas changes (KIP-860).

Versions 0 to 1, flexible from v0.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class ReassignablePartition:
    partition_index: Int32 = 0
    replicas: Sequence[Int32] | None = None


@slotted
class ReassignableTopic:
    name: String = ""
    partitions: Sequence[ReassignablePartition] = ()


@slotted
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, V(1)] = True
    topics: Sequence[ReassignableTopic] = ()


@slotted
class ReassignablePartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@slotted
class ReassignableTopicResponse:
    name: String = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


@slotted
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, V(1)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()
