"""Removes classic members of a consumer group that do not join or sync in time."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import leave, notices
from kohort.broker.coordinator.consumer.cause import Cause
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.events import TimerKey


def join_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Removes a member that has not joined again."""
    member = None if len(key) < 3 else group.members.get(key[2])
    if member is None or member.rejoin_by is None:
        return
    if turn.now < member.rejoin_by:
        turn.arm(key, member.rejoin_by)
        return
    member.rejoin_by = None
    notices.member_kicked(turn, group, member, "did_not_join_in_time")
    cause = Cause("revocation_timeout", member.identity)
    leave.remove(turn, {group.group_id: group}, group, [member], cause)


def sync_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Removes a member that has joined, and has not synced."""
    member = None if len(key) < 3 else group.members.get(key[2])
    if member is None or member.sync_by is None:
        return
    if turn.now < member.sync_by:
        turn.arm(key, member.sync_by)
        return
    member.sync_by = None
    notices.member_kicked(turn, group, member, "did_not_sync_in_time")
    cause = Cause("sync_timeout", member.identity)
    leave.remove(turn, {group.group_id: group}, group, [member], cause)
