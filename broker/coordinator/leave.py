"""How members go: by LeaveGroup, by an admin, or by silence."""

from __future__ import annotations

from kohort.broker.coordinator import rebalance
from kohort.broker.coordinator.effects import LeaveResult, Who
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
    gone: list[Who] = []
    reasons = []
    for leaving in event.members:
        code = int(ErrorCode.UNKNOWN_MEMBER_ID)
        if group is not None:
            who = _go(turn, group, leaving)
            if isinstance(who, tuple):
                gone.append(who)
                reasons.append(leaving.reason)
                code = int(ErrorCode.NONE)
            else:
                code = int(who)
        results.append((leaving.member_id, leaving.group_instance_id, code))
    if group is not None and gone and group.state is not EMPTY:
        culprits = [who[0] or "" for who in gone]
        cause = Cause("member_left", gone[0], reasons[0], culprits)
        rebalance.prepare_or_complete(turn, group, cause)
    turn.reply(event.token, LeaveResult(ErrorCode.NONE, results))


def _go(turn: Turn, group: Group, leaving: LeavingMember) -> Who | int:
    """Takes one member out, and says who it was; an error code if it cannot go."""
    member_id, instance = leaving.member_id, leaving.group_instance_id
    if not member_id:
        # Admins name static members by instance id alone.
        if instance is None or instance not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[instance]
    elif member_id in group.pending_members:
        turn.disarm(("session", group.group_id, member_id))
        fields = _left(leaving, was_pending=True)
        return turn.remove_pending(group, member_id, "member_left", **fields)
    else:
        error = group.validate_member(member_id, instance)
        if error:
            return error
    member = group.members[member_id]
    turn.remove(group, member, "member_left", **_left(leaving, was_pending=False))
    return member.identity


def _left(leaving: LeavingMember, *, was_pending: bool) -> dict[str, object]:
    cause = "left" if leaving.member_id else "removed"
    return {"cause": cause, "reason": leaving.reason, "was_pending": was_pending}


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
    turn.remove_pending(group, member_id, "pending_member_expired")
    _complete_without(turn, group)


def _expire(turn: Turn, group: Group, member: Member) -> None:
    timeout = member.session_timeout
    if member.is_new:
        timeout = turn.settings.new_member_join_timeout_ms / 1000
    turn.remove(group, member, "member_expired", heard=member.deadline - timeout)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        cause = Cause("session_expired", member.identity)
        rebalance.prepare(turn, group, cause)
    else:
        _complete_without(turn, group)


def _complete_without(turn: Turn, group: Group) -> None:
    """Ends the join phase if only the one that expired was missing.

    That ends initial windows early, too. Leaving does not, in Kafka either.
    """
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined():
        rebalance.complete_join(turn, group, "all_joined")
