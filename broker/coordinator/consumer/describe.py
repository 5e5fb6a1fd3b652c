"""ConsumerGroupDescribe: the epochs and the members of a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.broker.coordinator.appends import GroupAppends, committed_group
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.effects import (
    ConsumerMemberDescription,
    DescribeConsumerGroupResult,
)
from kohort.broker.coordinator.events import DescribeConsumerGroup
from kohort.broker.coordinator.room import Groups
from kohort.broker.runtime.java_hash import in_timeline
from kohort.protocol.errors import ErrorCode

_Rows = Sequence[tuple[bytes, str, Sequence[int]]]


def describe(
    appends: GroupAppends, groups: Groups, event: DescribeConsumerGroup
) -> DescribeConsumerGroupResult:
    """Describes a group as the log has it; a classic group is unknown."""
    group_id = event.group_id
    if not group_id:
        return DescribeConsumerGroupResult(ErrorCode.INVALID_GROUP_ID, group_id)
    group = committed_group(appends, groups, group_id)
    if type(group) is not ConsumerGroup:
        message = f"Group {group_id} not found."
        if group is not None:
            message = f"Group {group_id} is not a consumer group."
        code = ErrorCode.GROUP_ID_NOT_FOUND
        return DescribeConsumerGroupResult(code, group_id, message)
    return DescribeConsumerGroupResult(
        ErrorCode.NONE,
        group_id,
        None,
        group.state,
        group.generation_id,
        group.assignment_epoch,
        group.assignor(),
        [
            _member(group, group.members[member_id])
            for member_id in in_timeline(group.members, group.most_members)
        ],
    )


def _member(group: ConsumerGroup, member: Member) -> ConsumerMemberDescription:
    says = member.says
    held: dict[bytes, list[int]] = {}
    for topic_id, partition in member.holds():
        held.setdefault(topic_id, []).append(partition)
    return ConsumerMemberDescription(
        member.member_id,
        says.group_instance_id,
        says.rack_id,
        member.epoch,
        says.client_id,
        says.client_host,
        [*says.subscribed_topics],
        says.subscribed_regex,
        _rows(group, held.items()),
        _rows(group, group.targets.get(member.member_id, ())),
        0 if member.is_classic else 1,
    )


def _rows(
    group: ConsumerGroup, partitions: Iterable[tuple[bytes, Sequence[int]]]
) -> _Rows:
    """Adds the names of topics; deleted ones are left out."""
    rows = []
    for topic_id, numbers in partitions:
        image = group.topics.with_id(topic_id)
        if image is not None:
            rows.append((topic_id, image.name, sorted(numbers)))
    return rows
