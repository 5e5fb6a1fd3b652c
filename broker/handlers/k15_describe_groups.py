"""DescribeGroups: the state and the members of groups."""

from __future__ import annotations

from collections.abc import Generator

from kohort.broker.coordinator.effects import DescribeGroupResult
from kohort.broker.coordinator.events import DescribeGroup
from kohort.broker.handlers import acl_bits
from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.errors import ErrorCode

_GROUP_COST = 5
"""Cost of describing a group, as `Pace` counts."""
_MEMBER_COST = 2
"""Cost of describing a member."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each group, once if it is repeated."""
    message: DescribeGroupsRequest = request.message
    pace = Pace()
    known: RepeatedRows[str, DescribedGroup] = RepeatedRows()
    described = []
    for group_id in message.groups:
        group = known.again(group_id)
        if group is None:
            slot = ResultSlot()
            request.node.submit_group_event(DescribeGroup(slot, group_id))
            group = yield from _described(request, slot.result, pace)
            known.keep(group_id, group, 1 + len(group.members))
        described.append(group)
        if pace.spend(_GROUP_COST):
            yield
    yield from request.finish_in_pieces(DescribeGroupsResponse(0, described))


def _described(
    request: Request, result: DescribeGroupResult, pace: Pace
) -> Generator[None, None, DescribedGroup]:
    error_code, error_message = result.error_code, None
    allowed = acl_bits.NOT_ASKED_FOR
    if request.version >= 6 and not error_code and result.state == "Dead":
        # Before v6 an unknown group was Dead, without an error (KIP-1043).
        error_code = ErrorCode.GROUP_ID_NOT_FOUND
        error_message = result.why_dead
    elif not error_code and request.message.include_authorized_operations:
        allowed = acl_bits.GROUP
    members = []
    for m in result.members:
        members.append(
            DescribedGroupMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.metadata,
                m.assignment,
            )
        )
        if pace.spend(_MEMBER_COST):
            yield
    return DescribedGroup(
        error_code,
        error_message,
        result.group_id,
        result.state,
        result.protocol_type,
        result.protocol_name,
        members,
        allowed,
    )
