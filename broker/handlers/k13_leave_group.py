"""LeaveGroup: one member before v3, several from then on (KIP-345)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.handlers.result_slot import Results
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.protocol.apis.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_MEMBER_COST = 5
"""Cost of removing one member, as `Pace` counts."""
_MOST_AT_ONCE = 1000
"""Members that leave at once. In Kafka all members of a request leave at once; a larger
group goes through the same states, with one more cause."""


def handle(request: Request) -> Work | None:
    """Passes the leave to the group's coordinator."""
    message: LeaveGroupRequest = request.message
    if request.version < 3:
        members = [LeavingMember(message.member_id, None, None)]
    elif len(message.members) > _MOST_AT_ONCE:
        return _in_parts(request)
    else:
        members = _leaving(message.members)
    request.node.submit_group_event(Leave(request, message.group_id, members))
    return None


def _leaving(members: Sequence[MemberIdentity]) -> list[LeavingMember]:
    return [LeavingMember(m.member_id, m.group_instance_id, m.reason) for m in members]


def _in_parts(request: Request) -> Work:
    """Removes very many members, some at a time."""
    message: LeaveGroupRequest = request.message
    pace, results = Pace(), Results(request)
    for start in range(0, len(message.members), _MOST_AT_ONCE):
        members = _leaving(message.members[start : start + _MOST_AT_ONCE])
        event = Leave(results.token(), message.group_id, members)
        request.node.submit_group_event(event)
        if pace.spend(_MEMBER_COST * len(members)):
            yield
    results.then(partial(_reply, request))


def _reply(request: Request, results: list[LeaveResult]) -> Work:
    """Answers with the rows of all parts, or with the first error."""
    error = next((each.error_code for each in results if each.error_code), 0)
    members = (m for each in results for m in each.members)
    rows = yield from map_in_pieces(lambda m: MemberResponse(*m), members, Pace())
    answer = LeaveGroupResponse(0, error, () if error else rows)
    yield from request.finish_in_pieces(answer)


def respond(request: Request, result: LeaveResult) -> None:
    """Answers the request; before v3 the member's error is the request's."""
    error_code, members = result.error_code, result.members
    if request.version < 3 and not error_code and members:
        error_code = members[0][2]
    request.finish(
        LeaveGroupResponse(0, error_code, [MemberResponse(*m) for m in members])
    )
