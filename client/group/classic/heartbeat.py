"""Heartbeats, the session timeout, and max.poll.interval.ms."""

from __future__ import annotations

from kohort.client.group import application
from kohort.client.group.classic import leave
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import (
    COMPLETING_REBALANCE,
    LEAVING,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.client.group.turn import COORDINATOR_AWAY, Turn
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.errors import ErrorCode

_STANDSTILL = 0.1
"""A timer later than this shows that the whole process was suspended, and could
neither send heartbeats nor read responses."""


# -- heartbeats


def send(turn: Turn, member: ClassicMember) -> None:
    """Sends a heartbeat, unless one is under way."""
    config = member.config
    is_in = member.state in (COMPLETING_REBALANCE, STABLE)
    if not is_in or member.awaits("Heartbeat"):
        return
    request = member.heartbeat
    if (
        request is None
        or request.generation_id != member.generation_id
        or request.member_id != member.member_id
    ):
        request = member.heartbeat = HeartbeatRequest(
            member.group_id,
            member.generation_id,
            member.member_id,
            config.group_instance_id,
        )
    member.heartbeat_sent = turn.now
    # Leaves time for another attempt if the response is lost.
    timeout_ms = min(config.request_timeout_ms, config.session_timeout_ms // 2)
    turn.send(member, "Heartbeat", request, timeout_ms)


def answered(turn: Turn, member: ClassicMember, response: HeartbeatResponse) -> None:
    """Handles the response to a heartbeat."""
    code = response.error_code
    if not code or code == ErrorCode.REBALANCE_IN_PROGRESS:
        # Counts from the send: the broker cannot have received it earlier.
        keep_alive(turn, member, member.heartbeat_sent)
        passed_ms = (turn.now - member.heartbeat_sent) * 1000
        turn.arm_heartbeat(max(member.config.heartbeat_interval_ms - passed_ms, 0))
        if code and member.state is STABLE:
            member.rejoin_for("the group rebalances")
    elif code in COORDINATOR_AWAY:
        failed(turn, member)
    else:
        leave.expelled(turn, member, "Heartbeat", code)


def failed(turn: Turn, member: ClassicMember) -> None:
    """Sends another heartbeat soon, to the coordinator at that time."""
    turn.forget_coordinator()
    turn.arm_heartbeat(member.config.retry_backoff_ms)


# -- session.timeout.ms


def keep_alive(turn: Turn, member: ClassicMember, since: float) -> None:
    """Restarts the session timeout at the time of a request that the broker got."""
    if member.generation_id < 0:
        return
    member.session_deadline = since + member.config.session_timeout_ms / 1000
    member.stood_still = False
    watch_session(turn, member)


def watch_session(turn: Turn, member: ClassicMember) -> None:
    """Arms the session's timer, unless it already fires early enough.

    A timer that fires early does no harm, so most signs of life arm none.
    """
    armed = member.session_armed
    at = max(member.session_deadline, turn.now)
    if armed is None or at < armed:
        member.session_armed = at
        turn.arm("session", at)


def session_expired(turn: Turn, member: ClassicMember) -> None:
    """Loses the membership: other members may own the partitions by now.

    A join that waits is a sign of life, however long it takes. If the process
    itself stood still, one more heartbeat asks whether the member was removed.
    """
    armed, member.session_armed = member.session_armed, None
    is_elsewhere = member.state in (PREPARING_REBALANCE, LEAVING)
    if member.generation_id < 0 or is_elsewhere:
        return
    if turn.now < member.session_deadline:
        watch_session(turn, member)
        return
    is_late = armed is not None and turn.now - armed >= _STANDSTILL
    if is_late and not member.stood_still:
        member.stood_still = True
        interval = member.config.heartbeat_interval_ms / 1000
        member.session_deadline = turn.now + interval
        watch_session(turn, member)
        send(turn, member)
        return
    turn.forget_coordinator()
    reason = "the session timed out without a response"
    leave.lose(turn, member, reason, keeps_id=True)


# -- max.poll.interval.ms (KIP-62)


def poll_expired(turn: Turn, member: ClassicMember) -> None:
    """Leaves the group, as the application or its listener is stuck.

    Static members only stop their heartbeats, and keep their place until their
    session times out (KIP-345).
    """
    reason = application.poll_expired(turn, member)
    if reason is None:
        return
    if member.member_id and member.config.group_instance_id is None:
        # Not awaited: the member continues without the response.
        member.settle(leave.send(turn, member, reason))
    leave.lose(turn, member, reason, keeps_id=False)
