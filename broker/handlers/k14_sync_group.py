"""SyncGroup: from the wire to `Sync`, and back."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.broker.template import Template
from kohort.protocol.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import Api

MOST = 50_000
"""Assignments of a request: more than a group has members. The coordinator takes them
all at once, in 10 ms."""
_SLICE = 500
"""Assignments that are read at once."""


def handle(request: Request) -> Work | None:
    """Passes the sync to the group's coordinator."""
    message: SyncGroupRequest = request.message
    request.node.note_member(
        request.client.connection or 0, message.group_id, message.member_id
    )
    if message.assignments:
        return _with_assignments(request)
    _submit(request, ())
    return None


def _with_assignments(request: Request) -> Work:
    """Reads the leader's assignments, some at a time."""
    message: SyncGroupRequest = request.message
    if len(message.assignments) > MOST:
        request.finish(SyncGroupResponse(0, ErrorCode.INVALID_REQUEST))
        return
    assignments: list[tuple[str, bytes]] = []
    for start in range(0, len(message.assignments), _SLICE):
        if start:
            yield
        some = message.assignments[start : start + _SLICE]
        assignments += [(a.member_id, a.assignment) for a in some]
    _submit(request, assignments)


def _submit(request: Request, assignments: Sequence[tuple[str, bytes]]) -> None:
    message: SyncGroupRequest = request.message
    request.node.submit_group_event(
        Sync(
            request,
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            message.protocol_type,
            message.protocol_name,
            request.version >= 5,
            assignments,
        )
    )


def respond(request: Request, result: SyncResult) -> None:
    """Answers the request."""
    request.finish(SyncGroupResponse(0, *result))


def template(api: Api, version: int, result: SyncResult) -> Template:
    """The response to members: all but the assignment."""
    body = api.response(version).encode(SyncGroupResponse(0, *result))
    # Behind the assignment: no tagged fields.
    behind, width = (1, 0) if api.is_flexible(version) else (0, 4)
    return Template(body, behind, width)
