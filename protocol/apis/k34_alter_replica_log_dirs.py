"""AlterReplicaLogDirs, API key 34.

Moves replicas of a broker between its log directories (KIP-113).

Versions 1 to 2, flexible from v2.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Int16, Int32, String
from kohort.protocol.slotted import slotted


@slotted
class AlterReplicaLogDirTopic:
    name: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class AlterReplicaLogDir:
    path: String = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


@slotted
class AlterReplicaLogDirsRequest:
    dirs: Sequence[AlterReplicaLogDir] = ()


@slotted
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@slotted
class AlterReplicaLogDirTopicResult:
    topic_name: String = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


@slotted
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()
