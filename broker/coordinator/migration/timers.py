"""Removes classic members of a consumer group that do not join or sync in time."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import leave, notices
from kohort.broker.coordinator.consumer.cause import Cause
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.events import TimerKey


def join_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Removes a member that has not joined again."""
    member = _member(group, key)
    if member is not None and _is_late(turn, key, member.rejoin_by):
        member.rejoin_by = None
        _remove(turn, group, member, "did_not_join_in_time", "revocation_timeout")


def sync_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Removes a member that has joined, and has not synced."""
    member = _member(group, key)
    if member is not None and _is_late(turn, key, member.sync_by):
        member.sync_by = None
        _remove(turn, group, member, "did_not_sync_in_time", "sync_timeout")


def _member(group: ConsumerGroup, key: TimerKey) -> Member | None:
    return None if len(key) < 3 else group.members.get(key[2])


def _is_late(turn: Turn, key: TimerKey, deadline: float | None) -> bool:
    """Returns whether a deadline has passed; arms the timer again if it moved."""
    if deadline is None:
        return False
    if turn.now < deadline:
        turn.arm(key, deadline)
        return False
    return True


def _remove(
    turn: Turn, group: ConsumerGroup, member: Member, kicked: str, cause: str
) -> None:
    notices.member_kicked(turn, group, member, kicked)
    why = Cause(cause, member.identity)
    leave.remove(turn, {group.group_id: group}, group, [member], why)
