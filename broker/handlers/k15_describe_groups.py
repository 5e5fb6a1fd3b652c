"""DescribeGroups: what each group is doing, and who is in it."""

from __future__ import annotations

from kohort.broker.coordinator.effects import DescribeGroupResult
from kohort.broker.coordinator.events import DescribeGroup
from kohort.broker.handlers import operations
from kohort.broker.handlers.gather import Gather
from kohort.broker.request import Request
from kohort.protocol.apis.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Asks the coordinator of each group."""
    message: DescribeGroupsRequest = request.message

    def done(results: list[DescribeGroupResult]) -> None:
        described = [_described(request, result) for result in results]
        request.reply(DescribeGroupsResponse(0, described))

    gather = Gather(len(message.groups), done)
    for i, group_id in enumerate(message.groups):
        request.node.groups.submit(DescribeGroup(gather.slot(i), group_id))


def _described(request: Request, result: DescribeGroupResult) -> DescribedGroup:
    error_code, error_message = result.error_code, None
    allowed = operations.NOT_ASKED_FOR
    if request.version >= 6 and not error_code and result.state == "Dead":
        # Before v6 an unknown group was a dead one without an error (KIP-1043).
        error_code = ErrorCode.GROUP_ID_NOT_FOUND
        error_message = f"Group {result.group_id} not found."
    elif not error_code and request.message.include_authorized_operations:
        allowed = operations.GROUP
    return DescribedGroup(
        error_code,
        error_message,
        result.group_id,
        result.state,
        result.protocol_type,
        result.protocol_name,
        [
            DescribedGroupMember(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.metadata,
                m.assignment,
            )
            for m in result.members
        ],
        allowed,
    )
