"""JoinGroup: from the wire to `Join`, and back."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kohort.broker.coordinator.effects import JoinResult
from kohort.broker.coordinator.events import Join
from kohort.broker.request import Request
from kohort.broker.template import Encoded, Template, length_of
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import codec
from kohort.protocol.registry import Api

_LONGEST = 32_767 - len("-00000000-0000-0000-0000-000000000000")
"""Bytes of a client id, or an instance id, that a member id can be made of."""
_LONG = _LONGEST // 4
"""Characters that fit into `_LONGEST` bytes in any case."""

MOST_PROTOCOLS = 10_000
"""Protocols of a member, for its assignors: clients have up to three. The coordinator
takes them all at once, in 10 ms."""

_latest: list[tuple[Sequence[JoinGroupRequestProtocol], Sequence[tuple[str, bytes]]]]
_latest = [((), ())]
"""The protocols of the latest join, as in its message and as in its event; the messages
of members that join alike share them: see `kohort.protocol.alike`."""


def handle(request: Request) -> None:
    """Passes the join to the group's coordinator."""
    message: JoinGroupRequest = request.message
    version = request.version
    if not message.member_id and _is_too_long(
        message.group_instance_id or request.client.id
    ):
        # The member id begins with it, and would be too long for the wire. In Kafka
        # encoding the response fails.
        respond(request, JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, ""))
        return
    protocols = message.protocols
    if len(protocols) > MOST_PROTOCOLS:
        respond(request, JoinResult(ErrorCode.INVALID_REQUEST, message.member_id))
        return
    latest, offer = _latest[0]
    if protocols is not latest or not protocols:
        offer = tuple([(each.name, each.metadata) for each in protocols])
        _latest[0] = protocols, offer
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
            offer,
            message.reason,
            version >= 4,
            version >= 9,
        )
    )


def _is_too_long(prefix: str) -> bool:
    return len(prefix) > _LONG and len(prefix.encode()) > _LONGEST


def respond(request: Request, result: JoinResult) -> None:
    """Answers the request."""
    version = request.version
    if result.members:
        _respond_to_leader(request, result)
    else:
        request.finish(_response(version, result))


def _response(version: int, result: JoinResult) -> JoinGroupResponse:
    # In Kafka "" and null are the same name: null if the version allows it.
    name = result.protocol_name or (None if version >= 7 else "")
    return JoinGroupResponse(
        0,
        result.error_code,
        result.generation_id,
        result.protocol_type,
        name,
        result.leader,
        result.skip_assignment,
        result.member_id,
    )


def _respond_to_leader(request: Request, result: JoinResult) -> None:
    """Answers the leader; most rows of members differ only in their ids."""
    version = request.version
    is_flexible = request.api.is_flexible(version)
    parts: list[bytes] = []
    encode = codec(JoinGroupResponseMember, version, flexible=is_flexible).encode
    width = 0 if is_flexible else 2
    latest, behind = None, b""
    for member_id, instance, metadata in result.members:
        if latest != (instance, metadata):
            latest = instance, metadata
            row = JoinGroupResponseMember("", instance, metadata)
            behind = encode(row)[width or 1 :]
        name = member_id.encode()
        parts += length_of(name, width), name, behind
    rows, body = b"".join(parts), request.encode(_response(version, result))
    if is_flexible:
        # It ends with the array, and no tagged fields.
        count = uvarint(len(result.members) + 1)
        answer: list[Buffer] = [body[:-2], count, rows, body[-1:]]
    else:
        answer = [body[:-4], struct.pack(">i", len(result.members)), rows]
    request.finish(Encoded(answer, frozenset()))


def template(api: Api, version: int, result: JoinResult) -> Template:
    """The response to followers: all but the member id."""
    body = api.response(version).encode(_response(version, result))
    is_flexible = api.is_flexible(version)
    # Behind the member id: no members, no tagged fields.
    behind, width = (2, 0) if is_flexible else (4, 2)
    return Template(body, behind, width)
