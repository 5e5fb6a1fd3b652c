"""Sessions of members: signs of life, and the end of a member id."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator.classic.member import NEVER, Member
from kohort.broker.coordinator.turn import Turn


def keep_alive(turn: Turn, member: Member, timeout: float) -> None:
    """Restarts a member's session, for `timeout` seconds.

    The armed timer may fire early; it is replaced only if it would fire late. That
    makes a sign of life one assignment. The session of a muted member is not
    restarted.
    """
    if member.is_muted:
        return
    deadline = member.deadline = turn.now + timeout
    if deadline < member.armed:
        member.armed = deadline
        turn.arm(member.session_key, deadline)


def keep_all_alive(turn: Turn, members: Iterable[Member]) -> None:
    """Restarts the sessions of members with their own timeouts; see `keep_alive`.

    One loop: it runs twice for each member of a rebalance.
    """
    now = turn.now
    for member in members:
        if not member.is_muted:
            deadline = member.deadline = now + member.session_timeout
            if deadline < member.armed:
                member.armed = deadline
                turn.arm(member.session_key, deadline)


def last_heard(turn: Turn, member: Member) -> float:
    """The time of a member's last sign of life, in seconds since the epoch.

    A member whose request waits counts as alive, unless it is new: only its
    JoinGroup has been heard. For a member that is credited with signs of life the
    time is in the future (`leave.credited`).
    """
    if member.is_new:
        timeout_ms = turn.settings.new_member_join_timeout_ms
        return member.deadline - timeout_ms / 1000
    if member.satisfies_heartbeat:
        return turn.now
    return member.deadline - member.session_timeout


def end_session(turn: Turn, member: Member) -> None:
    """Ends the session of this member id: its timer, and a mute."""
    if member.is_muted:
        turn.lasting.unmute(member.session_key[1], member.member_id)
    if member.armed != NEVER:
        member.armed = NEVER
        turn.disarm(member.session_key)
