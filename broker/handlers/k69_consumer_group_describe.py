"""ConsumerGroupDescribe: the epochs and the members of consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kohort.broker.coordinator.effects import (
    ConsumerMemberDescription,
    DescribeConsumerGroupResult,
)
from kohort.broker.coordinator.events import DescribeConsumerGroup
from kohort.broker.handlers import acl_bits
from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kohort.protocol.errors import ErrorCode

_GROUP_COST = 5
"""Cost of describing a group, as `Pace` counts."""
_MEMBER_COST = 4
"""Cost of describing a member, and of a topic in its assignments."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each group, once if it is repeated."""
    message: ConsumerGroupDescribeRequest = request.message
    pace = Pace()
    known: RepeatedRows[str, DescribedGroup] = RepeatedRows()
    is_enabled = request.node.cluster.has_consumer_groups
    described = []
    for group_id in message.group_ids:
        group = known.again(group_id)
        if group is None:
            if is_enabled:
                slot = ResultSlot()
                request.node.submit_group_event(DescribeConsumerGroup(slot, group_id))
                group = yield from _described(request, slot.result, pace)
            else:
                error = ErrorCode.UNSUPPORTED_VERSION
                group = DescribedGroup(error, None, group_id)
            known.keep(group_id, group, 1 + len(group.members))
        described.append(group)
        if pace.spend(_GROUP_COST):
            yield
    yield from request.finish_in_pieces(ConsumerGroupDescribeResponse(0, described))


def _described(
    request: Request, result: DescribeConsumerGroupResult, pace: Pace
) -> Generator[None, None, DescribedGroup]:
    allowed = acl_bits.NOT_ASKED_FOR
    if not result.error_code and request.message.include_authorized_operations:
        allowed = acl_bits.GROUP
    members = []
    for each in result.members:
        members.append(_member(each))
        topics = len(each.assignment) + len(each.target_assignment)
        if pace.spend(_MEMBER_COST * (1 + topics)):
            yield
    return DescribedGroup(
        result.error_code,
        result.error_message,
        result.group_id,
        result.state,
        result.group_epoch,
        result.assignment_epoch,
        result.assignor,
        members,
        allowed,
    )


def _member(member: ConsumerMemberDescription) -> Member:
    return Member(
        member.member_id,
        member.group_instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.subscribed_topics,
        member.subscribed_regex,
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.member_type,
    )


def _assignment(rows: Sequence[tuple[bytes, str, Sequence[int]]]) -> Assignment:
    return Assignment([TopicPartitions(*row) for row in rows])
