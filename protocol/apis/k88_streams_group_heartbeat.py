"""StreamsGroupHeartbeat, API key 88.

Joins a group of Kafka Streams, stays in it and leaves it (KIP-1071).

Versions 0 to 0, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import Bool, Int8, Int16, Int32, Int64, String, Uint16
from kohort.protocol.slotted import slotted


@slotted
class KeyValue:
    key: String = ""
    value: String = ""


@slotted
class TopicInfo:
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Sequence[KeyValue] = ()


@slotted
class CopartitionGroup:
    source_topics: Sequence[Int16] = ()
    source_topic_regex: Sequence[Int16] = ()
    repartition_source_topics: Sequence[Int16] = ()


@slotted
class Subtopology:
    subtopology_id: String = ""
    source_topics: Sequence[String] = ()
    source_topic_regex: Sequence[String] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_sink_topics: Sequence[String] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()
    copartition_groups: Sequence[CopartitionGroup] = ()


@slotted
class Topology:
    epoch: Int32 = 0
    subtopologies: Sequence[Subtopology] = ()


@slotted
class TaskIds:
    subtopology_id: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class Endpoint:
    host: String = ""
    port: Uint16 = 0


@slotted
class TaskOffset:
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@slotted
class StreamsGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: Sequence[TaskIds] | None = None
    standby_tasks: Sequence[TaskIds] | None = None
    warmup_tasks: Sequence[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] | None = None
    task_offsets: Sequence[TaskOffset] | None = None
    task_end_offsets: Sequence[TaskOffset] | None = None
    shutdown_application: Bool = False


@slotted
class Status:
    status_code: Int8 = 0
    status_detail: String = ""


@slotted
class TopicPartition:
    topic: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class EndpointToPartitions:
    user_endpoint: Endpoint = Endpoint()
    active_partitions: Sequence[TopicPartition] = ()
    standby_partitions: Sequence[TopicPartition] = ()


@slotted
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: Sequence[Status] | None = ()
    active_tasks: Sequence[TaskIds] | None = None
    standby_tasks: Sequence[TaskIds] | None = None
    warmup_tasks: Sequence[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = None
