"""Heartbeats: nearly all only keep their member alive (`hear`)."""

from __future__ import annotations

from kohort.broker.coordinator.classic import notices
from kohort.broker.coordinator.classic.group import (
    HEARTBEAT_RESULTS,
    ClassicGroup,
    find,
)
from kohort.broker.coordinator.effects import HeartbeatResult
from kohort.broker.coordinator.events import Heartbeat
from kohort.broker.coordinator.room import Coordinating, Groups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def hear(
    coordinator: Coordinating, event: Heartbeat, now: float
) -> HeartbeatResult | None:
    """Handles a heartbeat that only keeps its member alive."""
    group = coordinator.groups.get(event.group_id)
    if (
        type(group) is not ClassicGroup
        or coordinator.appends.waiting
        or _validate(group, event)
        or not group.members[event.member_id].stay_alive(now)
    ):
        return None
    if group.waits:
        notices.note_told(group, event.member_id, now)
    return group.heartbeat_result


def heartbeat(turn: Turn, groups: Groups, event: Heartbeat) -> None:
    """Handles any heartbeat."""
    group = find(groups, event.group_id)
    error = _validate(group, event)
    if error or group is None:
        turn.reply(event.token, HEARTBEAT_RESULTS[error])
        if group is not None and error == ErrorCode.FENCED_INSTANCE_ID:
            notices.member_fenced(turn, group, event)
        return
    group.members[event.member_id].keep_alive(turn.now, turn.effects)
    if group.waits:
        notices.note_told(group, event.member_id, turn.now)
    turn.reply_after_appends(event.token, group.heartbeat_result)


def noticed_heartbeat(turn: Turn, groups: Groups, event: Heartbeat) -> None:
    """Handles a heartbeat and makes a notice, for listeners that asked for them."""
    group = find(groups, event.group_id)
    code = _validate(group, event)
    if not code and group is not None:
        code = group.heartbeat_result.error_code
    notices.heartbeat(turn, group, event, code)
    heartbeat(turn, groups, event)


def _validate(group: ClassicGroup | None, event: Heartbeat) -> int:
    if not event.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(event.member_id, event.group_instance_id)
    if not error and event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error
