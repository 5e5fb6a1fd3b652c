"""Metadata, API key 3.

The brokers, and the topics with their partitions' leaders.

Versions 0 to 13, flexible from v9. v1 distinguishes no topics from all topics, v4 may
create topics, v5 lists offline replicas (KIP-112), v7 leader epochs (KIP-320),
v8 authorized operations (KIP-430), v9 flexible versions, v10 topic ids and v12
lookup by them (KIP-516), v11 leaves the cluster's operations to
DescribeCluster (KIP-700), v13 an error for the whole answer (KIP-1102).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Bool, Int16, Int32, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    name: Annotated[String | None, V(nullable=10)] = ""


@slotted
class MetadataRequest:
    topics: Annotated[Sequence[MetadataRequestTopic] | None, V(nullable=1)] = ()
    allow_auto_topic_creation: Annotated[Bool, V(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, V(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, V(8)] = False


@slotted
class MetadataResponseBroker:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, V(1)] = None


@slotted
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, V(7)] = -1
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    offline_replicas: Annotated[Sequence[Int32], V(5)] = ()


@slotted
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: Annotated[String | None, V(nullable=12)] = ""
    topic_id: Annotated[Uuid, V(10)] = ZERO_UUID
    is_internal: Annotated[Bool, V(1)] = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: Annotated[Int32, V(8)] = -2147483648


@slotted
class MetadataResponse:
    throttle_time_ms: Annotated[Int32, V(3)] = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: Annotated[String | None, V(2)] = None
    controller_id: Annotated[Int32, V(1)] = -1
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: Annotated[Int32, V(8, 10)] = -2147483648
    error_code: Annotated[Int16, V(13)] = 0
