"""Heartbeat: the hot path of every group."""

from __future__ import annotations

from kohort.broker.cluster.cluster import Node
from kohort.broker.coordinator.effects import HeartbeatResult
from kohort.broker.coordinator.events import Client, Heartbeat
from kohort.broker.request import Request
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.registry import BY_NAME

_bodies: dict[tuple[int, int], bytes] = {}
"""Encoded responses by (version, error code), which are all they contain."""


REPEATS = True
"""`answer_at_once` may answer a request that is equal to the one before."""


def answer_at_once(
    node: Node, _: Client, version: int, message: HeartbeatRequest
) -> bytes | None:
    """Returns the encoded response to a heartbeat that changes nothing else.

    None for any other one, which `handle` passes to the coordinator.
    """
    result = node.hear(
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
    )
    return None if result is None else _body(version, result.error_code)


def handle(request: Request) -> None:
    """Passes the heartbeat to the group's coordinator."""
    message: HeartbeatRequest = request.message
    request.node.submit_group_event(
        Heartbeat(
            request,
            message.group_id,
            message.generation_id,
            message.member_id,
            message.group_instance_id,
            request.client,
        )
    )


def respond(request: Request, result: HeartbeatResult) -> None:
    """Answers the request."""
    request.reply(_body(request.version, result.error_code))


def _body(version: int, error_code: int) -> bytes:
    body = _bodies.get((version, error_code))
    if body is None:
        response = HeartbeatResponse(0, error_code)
        body = BY_NAME["Heartbeat"].response(version).encode(response)
        _bodies[version, error_code] = body
    return body
