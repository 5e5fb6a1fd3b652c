"""ConsumerGroupDescribe, API key 69.

Describes groups of the new protocol: their epochs, and their members with the current
and the target assignment (KIP-848).

Versions 0 to 1, flexible from v0. v1 brought the type of a member (KIP-1099).
"""

from collections.abc import Sequence
from typing import Annotated

from kohort.protocol.fields import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, V
from kohort.protocol.slotted import slotted


@slotted
class ConsumerGroupDescribeRequest:
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


@slotted
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


@slotted
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@slotted
class Member:
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    subscribed_topic_regex: String | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, V(1)] = -1


@slotted
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Sequence[Member] = ()
    authorized_operations: Int32 = -2_147_483_648


@slotted
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()
