"""LeaveGroup: one member before v3, several from then on (KIP-345)."""

from __future__ import annotations

from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.request import Request
from kohort.protocol.apis.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)


def handle(request: Request) -> None:
    """Hands the leave to the group's coordinator."""
    message: LeaveGroupRequest = request.message
    if request.version < 3:
        members = [LeavingMember(message.member_id, None, None)]
    else:
        members = [
            LeavingMember(m.member_id, m.group_instance_id, m.reason)
            for m in message.members
        ]
    request.node.groups.submit(Leave(request, message.group_id, members))


def respond(request: Request, result: LeaveResult) -> None:
    """Answers the request; before v3 the member's error is the request's."""
    error_code, members = result.error_code, result.members
    if request.version < 3 and not error_code and members:
        error_code = members[0][2]
    request.reply(
        LeaveGroupResponse(0, error_code, [MemberResponse(*m) for m in members])
    )
