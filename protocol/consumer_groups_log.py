"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, as Kafka 4.3.

`offsets_log` encodes and decodes them. A group has a record of its epoch and one of the
epoch of its target assignment; each member has three: what it told of itself, its
target, and the state in which it is. All values are of version 0, which is flexible;
fields that came later are tagged.

Kafka before 4.1 wrote the metadata of the subscribed topics, too (type 4). Kafka 4.3
reads those records and ignores them, and so does kohort.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from kohort.protocol.fields import (
    ZERO_UUID,
    Bytes,
    Int8,
    Int32,
    Int64,
    String,
    Uuid,
    V,
)
from kohort.protocol.slotted import slotted

CONSUMER_GROUP_METADATA: Final = 3
CONSUMER_GROUP_PARTITION_METADATA: Final = 4
CONSUMER_GROUP_MEMBER_METADATA: Final = 5
TARGET_ASSIGNMENT_METADATA: Final = 6
TARGET_ASSIGNMENT_MEMBER: Final = 7
CURRENT_MEMBER_ASSIGNMENT: Final = 8
REGULAR_EXPRESSION: Final = 16


@slotted
class ConsumerGroupMetadataKey:
    """The key of type 3."""

    group_id: String = ""


@slotted
class ConsumerGroupMetadataValue:
    """A group's epoch.

    `metadata_hash` is the hash of the topics that its members subscribe to.
    """

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, V(tag=0)] = 0


@slotted
class ConsumerGroupPartitionMetadataKey:
    """The key of type 4, which is ignored."""

    group_id: String = ""


@slotted
class ConsumerGroupMemberMetadataKey:
    """The key of type 5."""

    group_id: String = ""
    member_id: String = ""


@slotted
class ClassicProtocol:
    """A protocol that a member of the classic protocol supports."""

    name: String = ""
    metadata: Bytes = b""


@slotted
class ClassicMemberMetadata:
    """What a member of the classic protocol has besides; its session timeout in ms."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Sequence[ClassicProtocol] = ()


@slotted
class ConsumerGroupMemberMetadataValue:
    """A member, as it described itself; its rebalance timeout in ms.

    `classic_member_metadata` is None for a member of the consumer protocol.
    """

    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    subscribed_topic_regex: String | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, V(tag=0)] = (
        ClassicMemberMetadata()
    )


@slotted
class TargetAssignmentMetadataKey:
    """The key of type 6."""

    group_id: String = ""


@slotted
class TargetAssignmentMetadataValue:
    """The epoch of a target assignment.

    `assignment_timestamp` is the time when it was computed, in ms since the epoch.
    """

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, V(tag=0)] = 0


@slotted
class TargetAssignmentMemberKey:
    """The key of type 7."""

    group_id: String = ""
    member_id: String = ""


@slotted
class TargetTopicPartitions:
    """Partitions that a member is to have."""

    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()


@slotted
class TargetAssignmentMemberValue:
    """A member's target assignment."""

    topic_partitions: Sequence[TargetTopicPartitions] = ()


@slotted
class CurrentMemberAssignmentKey:
    """The key of type 8."""

    group_id: String = ""
    member_id: String = ""


@slotted
class CurrentTopicPartitions:
    """Partitions that a member has.

    `assignment_epochs` are those in which it got them, in the same order; None from
    Kafka before 4.3.
    """

    topic_id: Uuid = ZERO_UUID
    partitions: Sequence[Int32] = ()
    assignment_epochs: Annotated[Sequence[Int32] | None, V(tag=0)] = None


@slotted
class CurrentMemberAssignmentValue:
    """A member's epochs, state, and partitions; `state` is Kafka's MemberState."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Sequence[CurrentTopicPartitions] = ()
    partitions_pending_revocation: Sequence[CurrentTopicPartitions] = ()


@slotted
class RegularExpressionKey:
    """The key of type 16."""

    group_id: String = ""
    regular_expression: String = ""


@slotted
class RegularExpressionValue:
    """The topics that a pattern matches.

    `version` is that of the cluster's metadata, `timestamp` the time in ms since the
    epoch.
    """

    topics: Sequence[String] = ()
    version: Int64 = 0
    timestamp: Int64 = 0


ConsumerGroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | TargetAssignmentMetadataKey
    | TargetAssignmentMemberKey
    | CurrentMemberAssignmentKey
    | RegularExpressionKey
)
ConsumerGroupValue = (
    ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | TargetAssignmentMetadataValue
    | TargetAssignmentMemberValue
    | CurrentMemberAssignmentValue
    | RegularExpressionValue
)

KEYS: Final[dict[int, type[ConsumerGroupKey]]] = {
    CONSUMER_GROUP_METADATA: ConsumerGroupMetadataKey,
    CONSUMER_GROUP_PARTITION_METADATA: ConsumerGroupPartitionMetadataKey,
    CONSUMER_GROUP_MEMBER_METADATA: ConsumerGroupMemberMetadataKey,
    TARGET_ASSIGNMENT_METADATA: TargetAssignmentMetadataKey,
    TARGET_ASSIGNMENT_MEMBER: TargetAssignmentMemberKey,
    CURRENT_MEMBER_ASSIGNMENT: CurrentMemberAssignmentKey,
    REGULAR_EXPRESSION: RegularExpressionKey,
}
"""The keys by record type."""

VALUES: Final[dict[type[ConsumerGroupKey], type[ConsumerGroupValue]]] = {
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    TargetAssignmentMetadataKey: TargetAssignmentMetadataValue,
    TargetAssignmentMemberKey: TargetAssignmentMemberValue,
    CurrentMemberAssignmentKey: CurrentMemberAssignmentValue,
    RegularExpressionKey: RegularExpressionValue,
}
"""The values by key; that of type 4 is not read."""
