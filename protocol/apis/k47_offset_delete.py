"""OffsetDelete, API key 47.

Deletes committed offsets of a group (KIP-496).

Versions 0 to 0, never flexible.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class OffsetDeleteRequestPartition:
    partition_index: Int32 = 0


@slotted
class OffsetDeleteRequestTopic:
    name: String = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


@slotted
class OffsetDeleteRequest:
    group_id: String = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


@slotted
class OffsetDeleteResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@slotted
class OffsetDeleteResponseTopic:
    name: String = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


@slotted
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()
