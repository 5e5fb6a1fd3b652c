"""Heartbeats of classic members in a consumer group: tell them when to join again."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import notices, sessions
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.member import Member, MemberState
from kohort.broker.coordinator.effects import HeartbeatResult
from kohort.broker.coordinator.events import Heartbeat
from kohort.broker.coordinator.migration.members import classic_member
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def heartbeat(
    turn: Turn, groups: Groups, event: Heartbeat, *, is_noticed: bool
) -> None:
    """Keeps a member alive; a member that has to join again gets time to do so."""
    group = find(groups, event.group_id)
    assert group is not None
    member = classic_member(group, event)
    if isinstance(member, Member):
        sessions.keep_alive(turn, group, member)
        code = int(ErrorCode.NONE)
        if _has_to_rejoin(group, member):
            sessions.wait_for_rejoin(turn, group, member)
            code = ErrorCode.REBALANCE_IN_PROGRESS
        turn.reply_after_appends(event.token, HeartbeatResult(code))
    else:
        code = member
        turn.reply(event.token, HeartbeatResult(code))
    if is_noticed:
        notices.heartbeat(turn, group, event, code)


def _has_to_rejoin(group: ConsumerGroup, member: Member) -> bool:
    """Returns whether the member's next step to the target assignment is due."""
    state = member.state
    return (
        member.epoch < group.assignment_epoch
        or state is MemberState.UNREVOKED_PARTITIONS
        or (
            state is MemberState.UNRELEASED_PARTITIONS
            and not group.waits_for_partitions(member)
        )
    )
