"""JoinGroup: from the wire to `Join`, and back."""

from __future__ import annotations

from kohort.broker.coordinator.effects import JoinResult
from kohort.broker.coordinator.events import Join
from kohort.broker.request import Request
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.protocol.errors import ErrorCode

_LONGEST = 32_767 - len("-00000000-0000-0000-0000-000000000000")
"""Bytes of a client id, or an instance id, that a member id can be made of."""
_LONG = _LONGEST // 4
"""Characters that fit into `_LONGEST` bytes in any case."""


def handle(request: Request) -> None:
    """Hands the join to the group's coordinator."""
    message: JoinGroupRequest = request.message
    version = request.version
    prefix = message.group_instance_id or request.client.id
    is_new = not message.member_id
    if is_new and len(prefix) > _LONG and len(prefix.encode()) > _LONGEST:
        # Its member id begins with this, and the wire has no room for that. In Kafka
        # the response cannot be made.
        respond(request, JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, ""))
        return
    rebalance_timeout_ms = message.rebalance_timeout_ms
    if version == 0:
        # v0 has no field for the rebalance timeout (KIP-62).
        rebalance_timeout_ms = message.session_timeout_ms
    request.node.submit_group_event(
        Join(
            request,
            message.group_id,
            message.member_id,
            message.group_instance_id,
            request.client,
            message.session_timeout_ms,
            rebalance_timeout_ms,
            message.protocol_type,
            [(protocol.name, protocol.metadata) for protocol in message.protocols],
            message.reason,
            version >= 4,
            version >= 9,
        )
    )


def respond(request: Request, result: JoinResult) -> None:
    """Answers the request."""
    # As in Kafka, "" and null are the same name: null where the version has it.
    name = result.protocol_name or (None if request.version >= 7 else "")
    request.reply(
        JoinGroupResponse(
            0,
            result.error_code,
            result.generation_id,
            result.protocol_type,
            name,
            result.leader,
            result.skip_assignment,
            result.member_id,
            [JoinGroupResponseMember(*member) for member in result.members],
        )
    )
