"""ElectLeaders, API key 43.

Elects the preferred leaders of partitions, or any replica (KIP-183, KIP-460). v1 has
the type of the election, and an error of the whole request.

Versions 0 to 2, flexible from v2.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import Int8, Int16, Int32, String, V
from kohort.protocol.slotted import slotted


@slotted
class TopicPartitions:
    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class ElectLeadersRequest:
    election_type: Annotated[Int8, V(1)] = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: Int32 = 60000


@slotted
class PartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@slotted
class ReplicaElectionResult:
    topic: String = ""
    partition_result: Sequence[PartitionResult] = ()


@slotted
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V(1)] = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()
