"""DescribeLogDirs, API key 35.

The log directories of a broker, and the sizes of the partitions in them (KIP-113).
v3 has an error of the whole request, v4 the size of the volume (KIP-827), v5 whether
a directory is cordoned (KIP-1066).

Versions 1 to 5, flexible from v2.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Bool, Int16, Int32, Int64, String, V
from kohort.protocol.slotted import slotted


@slotted
class DescribableLogDirTopic:
    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class DescribeLogDirsRequest:
    topics: Sequence[DescribableLogDirTopic] | None = ()


@slotted
class DescribeLogDirsPartition:
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@slotted
class DescribeLogDirsTopic:
    name: String = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


@slotted
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: Annotated[Int64, V(4)] = -1
    usable_bytes: Annotated[Int64, V(4)] = -1
    is_cordoned: Annotated[Bool, V(5)] = False


@slotted
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(3)] = 0
    results: Sequence[DescribeLogDirsResult] = ()
