"""DeleteRecords, API key 21.

Moves the start of partitions' logs forward (KIP-107). v2 is flexible.

Versions 0 to 2, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, Int64, String
from kohort.protocol.slotted import slotted


@slotted
class DeleteRecordsPartition:
    partition_index: Int32 = 0
    offset: Int64 = 0


@slotted
class DeleteRecordsTopic:
    name: String = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


@slotted
class DeleteRecordsRequest:
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


@slotted
class DeleteRecordsPartitionResult:
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@slotted
class DeleteRecordsTopicResult:
    name: String = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


@slotted
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()
