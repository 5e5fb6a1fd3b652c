"""ConsumerGroupHeartbeat, API key 68.

Joins a group of the new protocol, stays in it and leaves it (KIP-848).

Versions 0 to 1, flexible from v0. v1 brought the topic pattern.
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Int16, Int32, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


@slotted
class ConsumerGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Sequence[String] | None = None
    subscribed_topic_regex: Annotated[String | None, V(1)] = None
    server_assignor: String | None = None
    topic_partitions: Sequence[TopicPartitions] | None = None


@slotted
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@slotted
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
