"""Sessions of members: only heartbeats are signs of life."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import configs
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import NEVER, Member
from kohort.broker.coordinator.turn import Turn


def keep_alive(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Restarts a member's session, unless it is muted.

    A member that uses the classic protocol has its own timeout. The armed timer may
    fire early; it is replaced only if it would fire late.
    """
    classic = member.says.classic
    timeout_ms = configs.session_timeout_ms(turn.settings, group.group_id)
    if classic is not None:
        timeout_ms = classic[0]
    restart(turn, member, timeout_ms)


def restart(turn: Turn, member: Member, timeout_ms: int) -> None:
    """Restarts a member's session with a timeout, unless it is muted."""
    if member.is_muted:
        return
    member.session_timeout = timeout_ms / 1000
    member.deadline = turn.now + member.session_timeout
    if member.deadline < member.armed:
        member.armed = member.deadline
        turn.arm(member.session_key, member.deadline)


def last_heard(turn: Turn, member: Member) -> float:
    """The time of a member's last heartbeat, in seconds since the epoch.

    It is in the future for a member that is credited with signs of life.
    """
    if member.deadline == NEVER:  # it has just come, with its group
        return turn.now
    return member.deadline - member.session_timeout


def end(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Ends the session of a member id: its timers, and a mute."""
    if member.is_muted:
        member.is_muted = False
        turn.lasting.unmute(group.group_id, member.member_id)
    turn.lasting.release_member(group.group_id, member.member_id)
    if member.armed != NEVER:
        member.armed = NEVER
        turn.disarm(member.session_key)
    if member.revoke_by is not None:
        member.revoke_by = None
        turn.disarm(("revoke", group.group_id, member.member_id))
    has_rejoined(turn, group, member)
    has_synced(turn, group, member)


# -- classic members in a group that migrates


def wait_for_rejoin(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Gives a member its rebalance timeout to join again, if it has none yet."""
    if member.rejoin_by is None:
        member.rejoin_by = turn.now + member.says.rebalance_timeout_ms / 1000
        turn.arm(("join", group.group_id, member.member_id), member.rejoin_by)


def has_rejoined(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Notes that a member need not join again."""
    if member.rejoin_by is not None:
        member.rejoin_by = None
        turn.disarm(("join", group.group_id, member.member_id))


def wait_for_sync(
    turn: Turn, group: ConsumerGroup, member: Member, timeout_ms: int
) -> None:
    """Gives a member that has joined its rebalance timeout to sync.

    As in Kafka, it is that of the request: -1 is over at once.
    """
    member.sync_by = turn.now + max(0, timeout_ms) / 1000
    turn.arm(("sync", group.group_id, member.member_id), member.sync_by)


def has_synced(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """Notes that a member need not sync."""
    if member.sync_by is not None:
        member.sync_by = None
        turn.disarm(("sync", group.group_id, member.member_id))


# -- the end of a session, and of its end


def resume(turn: Turn, group: ConsumerGroup) -> None:
    """Starts the sessions of members that are back: their removal was undone."""
    for member in group.members.values():
        if member.armed == NEVER:
            keep_alive(turn, group, member)
        if member.armed == NEVER:
            # A muted one: its session goes on.
            member.armed = member.deadline = max(turn.now, member.deadline)
            turn.arm(member.session_key, member.armed)
