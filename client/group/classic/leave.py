"""The end of a membership: the member leaves, loses it, or fails."""

from __future__ import annotations

from kohort.client.group import ending
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import (
    ENDED,
    LEAVING,
    PREPARING_REBALANCE,
    UNJOINED,
)
from kohort.client.group.turn import Turn
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

REMOVED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    KIP_389_GROUP_MAX_SIZE_REACHED,
}
"""Errors that say that the member is not, or no longer, in the group."""

LONGEST_REASON = 255
"""Characters of a reason, as in the Java client (KIP-800)."""

_ID_GRACE = 1.0
"""Seconds that a leaving member waits for its member id (KIP-394), to leave with it.
Otherwise rebalances would wait for the pending member."""


# -- leaving


def leave(turn: Turn, member: ClassicMember) -> None:
    """Revokes all partitions, then sends LeaveGroup."""
    if member.state is LEAVING:
        return
    if ending.revokes_all(turn, member):
        return
    leaves = ending.wishes_to_leave(member)
    if leaves is None:
        leaves = member.config.group_instance_id is None
    may_get_id = not member.member_id and member.awaits("JoinGroup")
    if leaves and may_get_id and _awaits_id(turn, member):
        return
    turn.cancel(member)
    if not leaves or not member.member_id:
        left(turn, member)
        return
    reason = "the consumer has unsubscribed"
    if member.closed is not None:
        reason = member.closed.reason
    elif member.has_failed:
        reason = "the consumer has failed"
    member.transition(LEAVING)
    send(turn, member, reason)


def _awaits_id(turn: Turn, member: ClassicMember) -> bool:
    if member.leave_deadline is None:
        member.leave_deadline = turn.now + _ID_GRACE
        turn.arm("leave", member.leave_deadline)
    return turn.now < member.leave_deadline


def send(turn: Turn, member: ClassicMember, reason: str) -> int:
    """Sends LeaveGroup; returns its token."""
    config = member.config
    identity = MemberIdentity(
        member.member_id, config.group_instance_id, reason[:LONGEST_REASON]
    )
    # The id twice: up to v2, LeaveGroup has one member and no list.
    request = LeaveGroupRequest(member.group_id, member.member_id, [identity])
    turn.notice(member, "left", reason=reason)
    return turn.send(member, "LeaveGroup", request, config.request_timeout_ms)


def left(turn: Turn, member: ClassicMember) -> None:
    """Ends the membership, even if LeaveGroup was refused."""
    member.member_id = ""
    member.follow()
    member.leave_deadline = None
    if ending.left(turn, member):
        member.transition(ENDED)
        return
    member.transition(UNJOINED)
    is_subscribed = member.subscription is not None
    member.rejoin_reason = "the consumer subscribes" if is_subscribed else None


# -- loss and failure


def lose(turn: Turn, member: ClassicMember, reason: str, *, keeps_id: bool) -> None:
    """Loses all partitions, and joins again."""
    ending.lose(turn, member, reason)
    if not keeps_id:
        member.member_id = ""
    member.follow()
    member.transition(UNJOINED)
    member.rejoin_for(reason)
    turn.retry(member, at_once=True)


def expelled(turn: Turn, member: ClassicMember, api: str, code: int) -> None:
    """Handles the error of a heartbeat, a sync or a commit about the membership."""
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        lose(turn, member, "the group does not know the member", keeps_id=False)
    elif code == ErrorCode.ILLEGAL_GENERATION:
        lose(turn, member, "the group is in another generation", keeps_id=True)
    else:
        fail(turn, member, api, code)


def fail(
    turn: Turn,
    member: ClassicMember,
    api: str,
    code: int,
    error: Exception | None = None,
) -> None:
    """Fails the membership: with an error code, or 0 and an exception."""
    ending.fail(turn, member, api, code, error)
    if code in REMOVED:
        lose(turn, member, "the group has refused the member", keeps_id=False)
    elif member.state is PREPARING_REBALANCE:
        member.transition(UNJOINED)
