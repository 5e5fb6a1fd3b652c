"""SyncGroup: from the wire to `Sync`, and back."""

from __future__ import annotations

from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.request import Request
from kohort.protocol.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse


def handle(request: Request) -> None:
    """Hands the sync to the group's coordinator."""
    message: SyncGroupRequest = request.message
    request.node.groups.submit(
        Sync(
            request,
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            message.protocol_type,
            message.protocol_name,
            request.version >= 5,
            [(a.member_id, a.assignment) for a in message.assignments],
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
