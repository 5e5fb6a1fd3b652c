"""SyncGroup: from the wire to `Sync`, and back."""

from __future__ import annotations

from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.protocol.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse

_SLICE = 500
"""Assignments that are read at once."""


def handle(request: Request) -> Work:
    """Hands the sync to the group's coordinator."""
    message: SyncGroupRequest = request.message
    assignments: list[tuple[str, bytes]] = []
    for start in range(0, len(message.assignments), _SLICE):
        if start:
            yield
        some = message.assignments[start : start + _SLICE]
        assignments += [(a.member_id, a.assignment) for a in some]
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
    request.reply(
        SyncGroupResponse(
            0,
            result.error_code,
            result.protocol_type,
            result.protocol_name,
            result.assignment,
        )
    )
