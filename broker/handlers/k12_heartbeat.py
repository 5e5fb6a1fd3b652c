"""Heartbeat: the hot path of every group."""

from __future__ import annotations

from kohort.broker.coordinator.effects import HeartbeatResult
from kohort.broker.coordinator.events import Heartbeat
from kohort.broker.request import Request
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

_bodies: dict[tuple[int, int], bytes] = {}
"""Encoded responses by (version, error code): there is nothing else in them."""


def handle(request: Request) -> None:
    """Hands the heartbeat to the group's coordinator."""
    message: HeartbeatRequest = request.message
    request.node.submit_group_event(
        Heartbeat(
            request,
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
        )
    )


def respond(request: Request, result: HeartbeatResult) -> None:
    """Answers the request."""
    key = request.version, result.error_code
    body = _bodies.get(key)
    if body is None:
        response = HeartbeatResponse(0, result.error_code)
        body = request.api.response(request.version).encode(response)
        _bodies[key] = body
    request.reply(body)
