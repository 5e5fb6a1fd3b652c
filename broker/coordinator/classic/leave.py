"""Members that leave: by LeaveGroup, removed by an admin, or by an expired session."""

from __future__ import annotations

from kohort.broker.coordinator.classic import notices, rebalance
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup, find
from kohort.broker.coordinator.classic.member import NEVER, Member
from kohort.broker.coordinator.classic.removal import remove, remove_pending
from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Credited, Leave, LeavingMember
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Who
from kohort.broker.runtime.events import TimerKey
from kohort.protocol.errors import ErrorCode

_MUTED = "a test had muted it"
"""The reason of a rebalance caused by the end of a muted member's session."""


def leave(turn: Turn, groups: Groups, event: Leave) -> None:
    """Removes members, and rebalances once for all of them."""
    if not event.group_id:
        turn.reply(event.token, LeaveResult(ErrorCode.INVALID_GROUP_ID))
        return
    group = find(groups, event.group_id)
    results = []
    gone: list[Who] = []
    reasons = []
    for leaving in event.members:
        code = int(ErrorCode.UNKNOWN_MEMBER_ID)
        if group is not None:
            code = _validate(group, leaving)
            if not code:
                gone.append(_remove(turn, group, leaving))
                reasons.append(leaving.reason)
        results.append((leaving.member_id, leaving.group_instance_id, code))
    if group is not None and gone and group.state is not EMPTY:
        culprits = [who.member_id or "" for who in gone]
        cause = Cause("member_left", gone[0], reasons[0], culprits)
        rebalance.prepare_or_complete(turn, group, cause)
    turn.reply_after_appends(event.token, LeaveResult(ErrorCode.NONE, results))


def _validate(group: ClassicGroup, leaving: LeavingMember) -> int:
    """Returns the error code for a member that is unknown or fenced; 0 for others."""
    if leaving.member_id in group.pending_members:
        return ErrorCode.NONE
    if leaving.member_id:
        return group.validate_member(leaving.member_id, leaving.group_instance_id)
    # Admins name static members by instance id alone.
    if leaving.group_instance_id in group.static_members:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID


def _remove(turn: Turn, group: ClassicGroup, leaving: LeavingMember) -> Who:
    """Removes a member, or a pending member; returns its identity."""
    member_id = leaving.member_id
    pending = group.pending_members.get(member_id)
    if pending is not None:
        turn.disarm(("session", group.group_id, member_id))
        notices.member_left(turn, group, pending.identity, leaving, was_pending=True)
        remove_pending(turn, group, member_id)
        return pending.identity
    if not member_id:
        member_id = group.static_members[leaving.group_instance_id or ""]
    member = group.members[member_id]
    notices.member_left(turn, group, member.identity, leaving, was_pending=False)
    remove(turn, group, member)
    return member.identity


# -- sessions


def credited(_: Turn, groups: Groups, event: Credited) -> None:
    """Extends members' sessions, as if heartbeats had arrived until then.

    The clock is moved ahead: clients are alive, but had no time to send a heartbeat. A
    pending member would have joined. A new member sends no heartbeats while its join
    waits: as in Kafka, its time is limited. A muted one gets no credit.
    """
    group = find(groups, event.group_id)
    assert group is not None
    for member_id in event.member_ids:
        member = group.members.get(member_id)
        if member is None:
            pending = group.pending_members[member_id]
            deadline = event.until + pending.session_timeout
            pending = pending._replace(deadline=deadline)
            group.pending_members[member_id] = pending
        elif not (member.is_new or member.is_muted):
            member.deadline = max(member.deadline, event.until + member.session_timeout)


def session_expired(turn: Turn, group: ClassicGroup, key: TimerKey) -> None:
    """Handles a session's timer; signs of life may have arrived since it was armed."""
    member_id = key[2]
    pending = group.pending_members.get(member_id)
    if pending is not None:
        if turn.now < pending.deadline:
            turn.arm(("session", group.group_id, member_id), pending.deadline)
        else:
            expire_pending(turn, group, pending.identity)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    member.armed = NEVER
    if turn.now < member.deadline:
        member.armed = member.deadline
        turn.arm(member.session_key, member.deadline)
    elif not (member.satisfies_heartbeat or _waits_in_hold(turn, group, member)):
        expire(turn, group, member)


def _waits_in_hold(turn: Turn, group: ClassicGroup, member: Member) -> bool:
    """Returns whether a hold keeps a new member's join waiting beyond its session."""
    return member.has_joined and turn.is_held(group)


def expire_pending(turn: Turn, group: ClassicGroup, who: Who) -> None:
    """Removes a pending member that has not joined in time."""
    notices.pending_member_expired(turn, group, who)
    remove_pending(turn, group, who.member_id or "")
    _complete_without(turn, group)


def expire(
    turn: Turn, group: ClassicGroup, member: Member, reason: str | None = None
) -> None:
    """Ends a member's session, because of silence unless `reason` is given."""
    if member.is_muted and reason is None:
        reason = _MUTED
    notices.member_expired(turn, group, member, "commanded" if reason else "silent")
    remove(turn, group, member)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        cause = Cause("session_expired", member.identity, reason)
        rebalance.prepare(turn, group, cause)
    else:
        _complete_without(turn, group)


def _complete_without(turn: Turn, group: ClassicGroup) -> None:
    """Ends the join phase if only the expired member was missing.

    That ends initial windows early, too. A LeaveGroup does not, nor does it in Kafka.
    """
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined():
        rebalance.complete_join(turn, group, "all_joined")
