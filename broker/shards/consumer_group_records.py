"""Records of consumer groups (KIP-848) as keys and values of the log, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kohort.broker.coordinator.effects import (
    ClassicProtocols,
    ConsumerGroupRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    EpochPartitions,
    PartitionMetadataTombstone,
    RegularExpressionRecord,
    TargetAssignmentRecord,
    TargetMemberRecord,
)
from kohort.protocol.consumer_groups_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupValue,
    CurrentMemberAssignmentKey,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberKey,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataKey,
    TargetAssignmentMetadataValue,
    TargetTopicPartitions,
)


def to_log(
    record: ConsumerRecord,
) -> tuple[ConsumerGroupKey, ConsumerGroupValue | None]:
    """Returns the key and the value of a record; None for a tombstone."""
    if isinstance(record, PartitionMetadataTombstone):
        return ConsumerGroupPartitionMetadataKey(record.group_id), None
    key, value_of = _WRITERS[type(record)]
    value = None if record.value is None else value_of(record.value)
    return key(record), value


def from_log(
    key: ConsumerGroupKey, value: ConsumerGroupValue | None
) -> ConsumerRecord | None:
    """Returns the record of a key and a value; None for type 4, which says nothing."""
    if isinstance(key, ConsumerGroupPartitionMetadataKey):
        return None
    make, content = _READERS[type(key)]
    return make(key, None if value is None else content(value))


# -- writing


def _member_value(member: ConsumerMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        member.group_instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.subscribed_topics,
        member.subscribed_regex,
        member.rebalance_timeout_ms,
        member.server_assignor,
        None if member.classic is None else _classic_value(member.classic),
    )


def _classic_value(classic: ClassicProtocols) -> ClassicMemberMetadata:
    session_timeout_ms, protocols = classic
    return ClassicMemberMetadata(
        session_timeout_ms, [ClassicProtocol(*protocol) for protocol in protocols]
    )


def _target_value(
    rows: Sequence[tuple[bytes, Sequence[int]]],
) -> TargetAssignmentMemberValue:
    return TargetAssignmentMemberValue([TargetTopicPartitions(*row) for row in rows])


def _current_value(current: CurrentAssignment) -> CurrentMemberAssignmentValue:
    return CurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_member_epoch,
        current.state,
        [CurrentTopicPartitions(*row) for row in current.assigned],
        [CurrentTopicPartitions(*row) for row in current.pending_revocation],
    )


_WRITERS: Final[
    dict[
        type[ConsumerRecord],
        tuple[
            Callable[[Any], ConsumerGroupKey],
            Callable[[Any], ConsumerGroupValue],
        ],
    ]
] = {
    ConsumerGroupRecord: (
        lambda record: ConsumerGroupMetadataKey(record.group_id),
        lambda value: ConsumerGroupMetadataValue(*value),
    ),
    ConsumerMemberRecord: (
        lambda record: ConsumerGroupMemberMetadataKey(
            record.group_id, record.member_id
        ),
        _member_value,
    ),
    TargetAssignmentRecord: (
        lambda record: TargetAssignmentMetadataKey(record.group_id),
        lambda value: TargetAssignmentMetadataValue(*value),
    ),
    TargetMemberRecord: (
        lambda record: TargetAssignmentMemberKey(record.group_id, record.member_id),
        _target_value,
    ),
    CurrentAssignmentRecord: (
        lambda record: CurrentMemberAssignmentKey(record.group_id, record.member_id),
        _current_value,
    ),
    RegularExpressionRecord: (
        lambda record: RegularExpressionKey(record.group_id, record.regex),
        lambda value: RegularExpressionValue(*value),
    ),
}


# -- reading


def _member(value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    return ConsumerMember(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        (*value.subscribed_topic_names,),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        None
        if value.classic_member_metadata is None
        else _classic(value.classic_member_metadata),
    )


def _classic(value: ClassicMemberMetadata) -> ClassicProtocols:
    rows = [(each.name, each.metadata) for each in value.supported_protocols]
    return value.session_timeout_ms, (*rows,)


def _current(value: CurrentMemberAssignmentValue) -> CurrentAssignment:
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _with_epochs(value.assigned_partitions, value.member_epoch),
        _with_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _with_epochs(
    rows: Sequence[CurrentTopicPartitions], member_epoch: int
) -> EpochPartitions:
    """Partitions and epochs; Kafka before 4.3 has written no epochs."""
    made = []
    for row in rows:
        epochs: Sequence[int] | None = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [max(member_epoch, 0)] * len(row.partitions)
        made.append((row.topic_id, row.partitions, epochs))
    return made


_READERS: Final[
    dict[
        type[ConsumerGroupKey],
        tuple[Callable[[Any, Any], ConsumerRecord], Callable[[Any], Any]],
    ]
] = {
    ConsumerGroupMetadataKey: (
        lambda key, value: ConsumerGroupRecord(key.group_id, value),
        lambda value: (value.epoch, value.metadata_hash),
    ),
    ConsumerGroupMemberMetadataKey: (
        lambda key, value: ConsumerMemberRecord(key.group_id, key.member_id, value),
        _member,
    ),
    TargetAssignmentMetadataKey: (
        lambda key, value: TargetAssignmentRecord(key.group_id, value),
        lambda value: (value.assignment_epoch, value.assignment_timestamp),
    ),
    TargetAssignmentMemberKey: (
        lambda key, value: TargetMemberRecord(key.group_id, key.member_id, value),
        lambda value: [
            (row.topic_id, row.partitions) for row in value.topic_partitions
        ],
    ),
    CurrentMemberAssignmentKey: (
        lambda key, value: CurrentAssignmentRecord(key.group_id, key.member_id, value),
        _current,
    ),
    RegularExpressionKey: (
        lambda key, value: RegularExpressionRecord(
            key.group_id, key.regular_expression, value
        ),
        lambda value: (value.topics, value.version, value.timestamp),
    ),
}
