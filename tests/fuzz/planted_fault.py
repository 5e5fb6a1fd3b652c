"""A target with a fault that is hard to find by chance, to test the fuzzing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.target import Target

from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_NAME

_HEARTBEAT = BY_NAME["Heartbeat"]


class PlantedError(Exception):
    """The fault."""


def planted(data: bytes) -> None:
    """Fails for a heartbeat of no group and no member, with an instance id."""
    try:
        message, _ = _HEARTBEAT.request(4).decode(data, 0, len(data))
    except WireError:
        return
    ids = message.group_id, message.member_id
    if ids == ("", "") and message.group_instance_id:
        raise PlantedError("the fault")


def _seeds() -> Iterator[bytes]:
    yield _HEARTBEAT.request(4).encode(HeartbeatRequest("group", 1, "member", None))


PLANTED = Target(planted, _seeds)
