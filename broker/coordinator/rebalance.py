"""From one generation to the next: the join phase and its timers.

The initial windows (KIP-134) as Kafka has them: the first join to an Empty group
opens one of the full delay. If a member joined meanwhile, another one follows, as
long as the delay or the rest of the rebalance timeout, whichever is less.
"""

from __future__ import annotations

from kohort.broker.coordinator import notices
from kohort.broker.coordinator.effects import MemberRows, SyncResult, Who
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import Member
from kohort.broker.coordinator.removal import remove
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
)
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.protocol.errors import ErrorCode

_SHORTEST_RETRY_MS = 10
"""A join phase in which no member has joined starts again after the rebalance timeout,
which may be 0 for static members: Kafka then tries without a pause."""

_SYNC_AGAIN = SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def prepare_or_complete(turn: Turn, group: Group, cause: Cause) -> None:
    """Starts a rebalance, or tries to complete the one under way."""
    if group.state is PREPARING_REBALANCE:
        try_complete_join(turn, group)
    else:
        prepare(turn, group, cause)


def prepare(turn: Turn, group: Group, cause: Cause) -> None:
    """Starts a rebalance: from now on joins are waited for."""
    if group.state is COMPLETING_REBALANCE:
        give_up_syncs(turn, group, _SYNC_AGAIN)
    _end_sync_phase(turn, group)
    is_initial = group.state is EMPTY
    notices.rebalance_started(turn, group, cause)
    group.transition(PREPARING_REBALANCE, turn.now)
    notices.group_state(turn, group)
    if is_initial:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        _open_window(turn, group, delay_ms, remaining_ms, "first")
    elif group.has_all_members_joined():
        complete_join(turn, group, "all_joined")
    else:
        _arm_join(turn, group, group.rebalance_timeout_ms())


def try_complete_join(turn: Turn, group: Group) -> None:
    """Ends the join phase if all members have joined; initial windows stay open."""
    if (
        group.state is PREPARING_REBALANCE
        and group.previous_state is not EMPTY
        and group.has_all_members_joined()
    ):
        complete_join(turn, group, "all_joined")


def complete_join(turn: Turn, group: Group, cause: str) -> None:
    """Ends the join phase, for a cause, and starts the next generation."""
    if not group.members:
        cause = "nobody_left"
    if group.join_deadline is not None:
        group.join_deadline = None
        turn.disarm(("join", group.group_id))
    group.window_ms = None
    _remove_late_members(turn, group)
    _keep_within_max_size(turn, group)
    previous_leader = group.leader
    if group.members and not group.elect_leader(of_generation=True):
        # Only static members that are late are left. They stay until their sessions
        # end, and a generation needs a leader that has joined.
        timeout_ms = group.rebalance_timeout_ms()
        _arm_join(turn, group, max(timeout_ms, _SHORTEST_RETRY_MS))
        return
    before = group.rows
    listed = group.next_generation(turn.now)
    group.completed = turn.now
    notices.leader_chosen(turn, group, "late", previous_leader)
    notices.join_completed(turn, group, cause, before)
    notices.group_state(turn, group)
    if not listed:
        turn.append(group.record())
        return
    _answer_joins(turn, group, listed)
    timeout_ms = group.rebalance_timeout_ms()
    group.sync_deadline = turn.now + timeout_ms / 1000
    turn.arm(("sync", group.group_id), group.sync_deadline)


def _answer_joins(turn: Turn, group: Group, listed: MemberRows) -> None:
    """Answers every join by the new generation; the leader's lists all members."""
    leader = group.leader
    for member in group.ordered():
        if member.join_token is not None:
            members = listed if member.member_id == leader else ()
            turn.reply(member.join_token, group.join_result(member, members))
            member.join_token = None
        member.is_new = False
        member.told_at = turn.now
        turn.keep_alive(member, member.session_timeout)
        group.pending_sync.add(member.member_id)
    group.awaiting_join = 0


def _remove_late_members(turn: Turn, group: Group) -> None:
    """Removes members that have not rejoined in time; static ones may be late.

    That way Kafka lets a group grow beyond group.max.size, when others take the
    room of static members that are away. With helpful strictness the limit of KIP-389
    holds: as many of those go as there are members too many.
    """
    late = [m for m in group.ordered() if m.join_token is None]
    surplus = len(group.members) - turn.settings.max_size
    for member in late:
        if member.group_instance_id is None:
            _kick(turn, group, member, "did_not_join_in_time")
            surplus -= 1
    for member in late if turn.settings.is_helpful else ():
        if surplus > 0 and member.group_instance_id is not None:
            _kick(turn, group, member, "did_not_join_in_time")
            surplus -= 1


def _keep_within_max_size(turn: Turn, group: Group) -> None:
    """Removes members above a limit lowered while joins waited. Kafka keeps them."""
    if not turn.settings.is_helpful:
        return
    surplus = len(group.members) - turn.settings.max_size
    if surplus > 0:
        for member in [*group.ordered()][-surplus:]:
            code = ErrorCode.GROUP_MAX_SIZE_REACHED
            _kick(turn, group, member, "group_over_max_size", code)


def _kick(
    turn: Turn,
    group: Group,
    member: Member,
    cause: str,
    code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    heard = turn.last_heard(member)
    notices.member_kicked(turn, group, member.identity, cause, heard)
    remove(turn, group, member, code)


# -- timers


def _arm_join(turn: Turn, group: Group, timeout_ms: int) -> None:
    group.join_deadline = turn.now + timeout_ms / 1000
    turn.arm(("join", group.group_id), group.join_deadline)


def _open_window(
    turn: Turn, group: Group, window_ms: int, remaining_ms: int, cause: str
) -> None:
    group.window_ms, group.remaining_ms = window_ms, remaining_ms
    _arm_join(turn, group, window_ms)
    notices.window_opened(turn, group, cause)


def join_expired(turn: Turn, group: Group) -> None:
    """The time for joins, or an initial window, is over."""
    deadline = group.join_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(("join", group.group_id), deadline)
        return
    group.join_deadline = None
    if group.window_ms is not None and group.remaining_ms and group.new_member_added:
        # Where nothing remains, new_member_added stays, and doubles the first window
        # of the group's next life, as in Kafka.
        group.new_member_added = False
        next_ms = min(turn.settings.initial_rebalance_delay_ms, group.remaining_ms)
        remaining_ms = max(group.remaining_ms - group.window_ms, 0)
        _open_window(turn, group, next_ms, remaining_ms, "extended")
        return
    is_initial = group.window_ms is not None
    complete_join(turn, group, "initial_delay" if is_initial else "rebalance_timeout")


def sync_expired(turn: Turn, group: Group) -> None:
    """Removes members that have not synced in time; the others rebalance."""
    deadline = group.sync_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(("sync", group.group_id), deadline)
        return
    group.sync_deadline = None
    missing = sorted(group.pending_sync)
    # pending_sync may still hold the old id of a replaced static member. It keeps the
    # deadline, as in Kafka, but is a culprit only if no other member is missing.
    late = [group.members[each] for each in missing if each in group.members]
    whose = [member.identity for member in late] or [Who(each) for each in missing]
    for member in late:
        _kick(turn, group, member, "did_not_sync_in_time")
    culprits = [who.member_id for who in whose]
    prepare(turn, group, Cause("sync_timeout", whose[0], None, culprits))


# -- the sync phase, as far as a rebalance ends it


def give_up_syncs(turn: Turn, group: Group, result: SyncResult) -> None:
    """Drops assignments; answers waiting syncs."""
    for member in group.ordered():
        member.assignment = b""
        if turn.answer_sync(member, result):
            turn.keep_alive(member, member.session_timeout)


def _end_sync_phase(turn: Turn, group: Group) -> None:
    group.pending_sync.clear()
    if group.sync_deadline is not None:
        group.sync_deadline = None
        turn.disarm(("sync", group.group_id))
