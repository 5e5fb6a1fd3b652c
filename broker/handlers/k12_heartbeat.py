"""Heartbeat: the hot path of every group."""

from __future__ import annotations

from kohort.broker.coordinator.effects import HeartbeatResult
from kohort.broker.coordinator.events import Heartbeat
from kohort.broker.request import Request
from kohort.broker.template import Encoded, with_error
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.registry import BY_NAME

_answers: dict[tuple[int, int], bytes | Encoded] = {}
"""Responses by (version, error code), which are all they contain."""


def event(request: Request) -> Heartbeat:
    """The event of a heartbeat; a member repeats the same one, see `Connection`."""
    message: HeartbeatRequest = request.message
    return Heartbeat(
        request,
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        request.client,
    )


def handle(request: Request) -> None:
    """Passes the heartbeat to the group's coordinator."""
    request.node.submit_group_event(event(request))


def respond(request: Request, result: HeartbeatResult) -> None:
    """Answers the request."""
    key = request.version, result.error_code
    request.finish(_answers.get(key) or _answer(*key))


def _answer(version: int, error_code: int) -> bytes | Encoded:
    response = HeartbeatResponse(0, error_code)
    body = BY_NAME["Heartbeat"].response(version).encode(response)
    answer = _answers[version, error_code] = with_error(body, error_code)
    return answer
