"""OffsetForLeaderEpoch, API key 23.

The end offsets of leader epochs (KIP-279, KIP-320). v4 is flexible.

Versions 2 to 4, flexible from v4.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class OffsetForLeaderPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@slotted
class OffsetForLeaderTopic:
    topic: String = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


@slotted
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, V(3)] = -2
    topics: Sequence[OffsetForLeaderTopic] = ()


@slotted
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@slotted
class OffsetForLeaderTopicResult:
    topic: String = ""
    partitions: Sequence[EpochEndOffset] = ()


@slotted
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()
