"""How members go: by LeaveGroup, by an admin, or by silence."""

from __future__ import annotations

from kohort.broker.coordinator import rebalance
from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import NEVER, Member
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.protocol.errors import ErrorCode


def leave(turn: Turn, groups: dict[str, Group], event: Leave) -> None:
    """Takes members out, and rebalances once for all of them."""
    if not event.group_id:
        turn.reply(event.token, LeaveResult(ErrorCode.INVALID_GROUP_ID))
        return
    group = groups.get(event.group_id)
    results = []
    gone = []
    for leaving in event.members:
        code = int(ErrorCode.UNKNOWN_MEMBER_ID)
        if group is not None:
            code = int(_go(turn, group, leaving))
        if not code:
            gone.append(leaving)
        results.append((leaving.member_id, leaving.group_instance_id, code))
    if group is not None and gone and group.state is not EMPTY:
        names = ", ".join(m.member_id or m.group_instance_id or "" for m in gone)
        cause = Cause("member_left", names, gone[0].reason)
        rebalance.prepare_or_complete(turn, group, cause)
    turn.reply(event.token, LeaveResult(ErrorCode.NONE, results))


def _go(turn: Turn, group: Group, leaving: LeavingMember) -> int:
    """Takes one member out; the error code where it cannot go."""
    member_id, instance = leaving.member_id, leaving.group_instance_id
    if not member_id:
        # Admins name static members by instance id alone.
        if instance is None or instance not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[instance]
    elif member_id in group.pending_members:
        group.remove(member_id)
        turn.disarm(("session", group.group_id, member_id))
    else:
        error = group.validate_member(member_id, instance)
        if error:
            return error
    member = group.members.get(member_id)
    if member is not None:
        turn.remove(group, member)
    if turn.listening:
        turn.notice(
            "member_left",
            group.group_id,
            member_id=member_id,
            group_instance_id=member.group_instance_id if member else None,
            reason=leaving.reason,
        )
    return ErrorCode.NONE


# -- silence


def session_expired(turn: Turn, group: Group, member_id: str) -> None:
    """A session's timer fired; signs of life may have come since it was armed."""
    pending = group.pending_members.get(member_id)
    if pending is not None:
        if turn.now < pending:
            turn.arm(("session", group.group_id, member_id), pending)
        else:
            _forget_pending(turn, group, member_id)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    member.armed = NEVER
    if turn.now < member.deadline:
        member.armed = member.deadline
        turn.arm(member.session_key, member.deadline)
    elif not member.satisfies_heartbeat:
        _expire(turn, group, member)


def _forget_pending(turn: Turn, group: Group, member_id: str) -> None:
    group.remove(member_id)
    if turn.listening:
        turn.notice(
            "session_expired",
            group.group_id,
            member_id=member_id,
            group_instance_id=None,
            pending=True,
        )
    _complete_without(turn, group)


def _expire(turn: Turn, group: Group, member: Member) -> None:
    turn.remove(group, member)
    if turn.listening:
        turn.notice(
            "session_expired",
            group.group_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            pending=False,
        )
    if group.state in (STABLE, COMPLETING_REBALANCE):
        cause = Cause("session_expired", member.member_id)
        rebalance.prepare(turn, group, cause)
    else:
        _complete_without(turn, group)


def _complete_without(turn: Turn, group: Group) -> None:
    """Ends the join phase if only the one that expired was missing.

    That ends initial windows early, too. Leaving does not, in Kafka either.
    """
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined():
        rebalance.complete_join(turn, group)
