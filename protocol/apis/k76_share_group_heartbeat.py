"""ShareGroupHeartbeat, API key 76.

Joins a share group, stays in it and leaves it (KIP-932).

Versions 1 to 1, flexible from v0.
"""

from collections.abc import Sequence

from kohort.protocol.fields import ZERO_UUID, Int16, Int32, String, Uuid
from kohort.protocol.slotted import slotted


@slotted
class ShareGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Sequence[String] | None = None


@slotted
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


@slotted
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@slotted
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
