"""Members that leave, or are removed: by a heartbeat, a timer, or a command."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.consumer import notices, sessions, validation
from kohort.broker.coordinator.consumer.cause import Cause, Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.member import (
    AWAY,
    NEVER,
    Member,
    rows_of,
)
from kohort.broker.coordinator.consumer.reconcile import time_revocation
from kohort.broker.coordinator.effects import ConsumerHeartbeatResult
from kohort.broker.coordinator.events import ConsumerHeartbeat, Credited
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.events import TimerKey
from kohort.protocol.errors import ErrorCode

_MUTED = "a test had muted it"
"""The reason of a rebalance caused by the end of a muted member's session."""


def leave(
    turn: Turn, groups: Groups, event: ConsumerHeartbeat
) -> ConsumerHeartbeatResult | Refusal:
    """Handles a heartbeat of a member that leaves."""
    group = find(groups, event.group_id)
    if group is None:
        is_known = event.group_id in groups
        message = f"Group {event.group_id} not found."
        if is_known:
            message = f"Group {event.group_id} is not a consumer group."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if event.group_instance_id is None:
        member = group.members.get(event.member_id)
        if member is None:
            message = (
                f"Member {event.member_id} is not a member of group {group.group_id}."
            )
            return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
    else:
        member = group.static_member(event.group_instance_id)
        refusal = validation.check_static(member, event)
        if refusal is not None:
            return refusal
        assert member is not None
    if event.member_epoch == AWAY:
        _go_away(turn, groups, group, member)
    else:
        notices.member_left(turn, group, member)
        remove(turn, groups, group, [member], Cause("member_left", member.identity))
    return ConsumerHeartbeatResult(
        ErrorCode.NONE, None, event.member_id, event.member_epoch
    )


def _go_away(turn: Turn, groups: Groups, group: ConsumerGroup, member: Member) -> None:
    """Keeps the partitions of a static member that will come back.

    Nobody gets them before its session ends. Partitions that it had to give up are
    free.
    """
    change = Change(turn, groups, group)
    kept = [(topic, dict.fromkeys(each, 0)) for topic, each in member.assigned.items()]
    held = frozenset(member.holds())
    at = member.at._replace(
        member_epoch=AWAY, assigned=rows_of(dict(kept)), pending_revocation=()
    )
    change.move(member.member_id, at)
    time_revocation(turn, group, member)
    notices.reconciled(turn, group, member, held)
    change.end()


def remove(
    turn: Turn,
    groups: Groups,
    group: ConsumerGroup,
    members: Sequence[Member],
    cause: Cause,
) -> None:
    """Removes members, and starts a new group epoch.

    If they are the last of the consumer protocol, the group may become a classic one.
    """
    downgrade = group.downgrade
    if downgrade is not None and downgrade(turn, group, members, cause):
        return
    change = Change(turn, groups, group)
    patterns = [member.regex for member in members if member.regex is not None]
    for member in members:
        sessions.end(turn, group, member)
        held = frozenset(member.holds())
        change.remove(member.member_id)
        notices.partitions_gone(turn, group, member, held)
    change.forget_patterns(patterns)
    change.bump(cause)
    if not group.members:
        notices.emptied(turn, group)
    change.end()


# -- timers


def expire(
    turn: Turn,
    groups: Groups,
    group: ConsumerGroup,
    member: Member,
    reason: str | None = None,
) -> None:
    """Ends a member's session, because of silence unless `reason` is given."""
    if member.is_muted and reason is None:
        reason = _MUTED
    notices.member_expired(turn, group, member, "commanded" if reason else "silent")
    cause = Cause("session_expired", member.identity, reason)
    remove(turn, groups, group, [member], cause)


def session_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Handles a session's timer; heartbeats may have arrived since it was armed."""
    member = group.members.get(key[2])
    if member is None:
        return
    member.armed = NEVER
    if turn.now < member.deadline:
        member.armed = member.deadline
        turn.arm(member.session_key, member.deadline)
    else:
        expire(turn, {group.group_id: group}, group, member)


def revocation_expired(turn: Turn, group: ConsumerGroup, key: TimerKey) -> None:
    """Removes a member that has not given up its partitions in time."""
    member = group.members.get(key[2])
    if member is None or member.revoke_by is None:
        return
    if turn.now < member.revoke_by:
        turn.arm(key, member.revoke_by)
        return
    member.revoke_by = None
    if member.has_to_revoke:
        notices.member_kicked(turn, group, member, "did_not_revoke_in_time")
        cause = Cause("revocation_timeout", member.identity)
        remove(turn, {group.group_id: group}, group, [member], cause)


def credited(_: Turn, groups: Groups, event: Credited) -> None:
    """Extends members' sessions, as if heartbeats had arrived until then.

    The clock is moved ahead: clients are alive, but had no time to send a heartbeat. A
    muted member gets no credit.
    """
    group = find(groups, event.group_id)
    assert group is not None
    for member_id in event.member_ids:
        member = group.members[member_id]
        if not member.is_muted:
            deadline = event.until + member.session_timeout
            member.deadline = max(member.deadline, deadline)
