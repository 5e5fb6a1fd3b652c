"""DescribeQuorum, API key 55.

The voters and observers of the quorum of controllers (KIP-595). v1 has the times of
their last fetches (KIP-836); v2 has messages, directory ids and the controllers'
addresses (KIP-853).

Versions 0 to 2, flexible from v0.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    String,
    Uint16,
    Uuid,
    V,
)
from kohort.protocol.slotted import slotted


@slotted
class DescribeQuorumRequestPartition:
    partition_index: Int32 = 0


@slotted
class DescribeQuorumRequestTopic:
    topic_name: String = ""
    partitions: Sequence[DescribeQuorumRequestPartition] = ()


@slotted
class DescribeQuorumRequest:
    topics: Sequence[DescribeQuorumRequestTopic] = ()


@slotted
class ReplicaState:
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, V(2)] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, V(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, V(1)] = -1


@slotted
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, V(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


@slotted
class TopicData:
    topic_name: String = ""
    partitions: Sequence[PartitionData] = ()


@slotted
class Listener:
    name: Annotated[String, V(2)] = ""
    host: Annotated[String, V(2)] = ""
    port: Annotated[Uint16, V(2)] = 0


@slotted
class Node:
    node_id: Annotated[Int32, V(2)] = 0
    listeners: Annotated[Sequence[Listener], V(2)] = ()


@slotted
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: Annotated[String | None, V(2)] = ""
    topics: Sequence[TopicData] = ()
    nodes: Annotated[Sequence[Node], V(2)] = ()
