"""ListOffsets, API key 2.

The offset of a timestamp, or of the log's start or end.

Versions 1 to 11, flexible from v6. v2 brought the isolation level (KIP-98), v4
leader epochs (KIP-320), v6 flexible versions, v7 the record of the largest
timestamp, -3 (KIP-734), v8 and v9 tiered storage, -4 and -5 (KIP-405,
KIP-1005), v10 a time limit (KIP-1075), v11 the earliest offset pending upload,
-6 (KIP-1023).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int8, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, V(4)] = -1
    timestamp: Int64 = 0


@slotted
class ListOffsetsTopic:
    name: String = ""
    partitions: Sequence[ListOffsetsPartition] = ()


@slotted
class ListOffsetsRequest:
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, V(2)] = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: Annotated[Int32, V(10)] = 0


@slotted
class ListOffsetsPartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, V(4)] = -1


@slotted
class ListOffsetsTopicResponse:
    name: String = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


@slotted
class ListOffsetsResponse:
    throttle_time_ms: Annotated[Int32, V(2)] = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()
