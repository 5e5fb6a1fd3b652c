"""From one generation to the next: the join phase and its timers.

The initial windows (KIP-134) as Kafka has them: the first join to an Empty group opens
one of the full delay. If a member joined meanwhile, another one follows, as long as the
delay or the rest of the rebalance timeout, whichever is less.
"""

from __future__ import annotations

from kohort.broker.coordinator.classic import notices, sessions, waiting
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.classic.removal import remove
from kohort.broker.coordinator.effects import MemberRows, SyncResult
from kohort.broker.coordinator.notices import group_state
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Who
from kohort.broker.runtime.events import TimerKey
from kohort.protocol.errors import ErrorCode

_SHORTEST_RETRY_MS = 10
"""A join phase without any join starts again after the rebalance timeout, which may be
0 for static members: Kafka then retries without a pause."""

_SYNC_AGAIN = SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def prepare_or_complete(turn: Turn, group: ClassicGroup, cause: Cause) -> None:
    """Starts a rebalance, or tries to complete the one in progress."""
    if group.state is PREPARING_REBALANCE:
        try_complete_join(turn, group)
    else:
        prepare(turn, group, cause)


def prepare(turn: Turn, group: ClassicGroup, cause: Cause) -> None:
    """Starts a rebalance: from now on the group waits for joins."""
    if group.state is COMPLETING_REBALANCE:
        give_up_syncs(turn, group, _SYNC_AGAIN)
    _end_sync_phase(turn, group)
    is_initial = group.state is EMPTY
    turn.lasting.count_rebalance(group.group_id)
    notices.rebalance_started(turn, group, cause)
    group.transition(PREPARING_REBALANCE, turn.now)
    group_state(turn, group)
    if is_initial:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        _open_window(turn, group, delay_ms, remaining_ms, "first")
    elif group.has_all_members_joined() and not _is_kept(turn, group):
        complete_join(turn, group, "all_joined")
    else:
        _arm_join(turn, group, group.rebalance_timeout_ms() / 1000)


def try_complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Ends the join phase if all members have joined; initial windows stay open.

    A held group without members does not wait for the end of its window, which stands
    still.
    """
    is_open = group.previous_state is EMPTY and (
        bool(group.members) or not turn.is_held(group)
    )
    if (
        group.state is PREPARING_REBALANCE
        and not is_open
        and group.has_all_members_joined()
    ):
        complete_join(turn, group, "all_joined")


def complete_join(turn: Turn, group: ClassicGroup, cause: str) -> None:
    """Ends the join phase, for a cause, and starts the next generation.

    A held group with members stays in its join phase.
    """
    if _is_kept(turn, group):
        return
    if not group.members:
        cause = "nobody_left"
    if group.join_deadline is not None:
        group.join_deadline = None
        turn.disarm(("join", group.group_id))
    group.rest = None
    group.window_ms = None
    _remove_late_members(turn, group)
    _keep_within_max_size(turn, group)
    previous_leader = group.leader
    if group.members and not group.elect_leader(of_generation=True):
        # Only late static members are left. They stay until their sessions end, and a
        # generation needs a leader that has joined.
        timeout_ms = group.rebalance_timeout_ms()
        _arm_join(turn, group, max(timeout_ms, _SHORTEST_RETRY_MS) / 1000)
        return
    before = group.rows
    listed = group.next_generation(turn.now)
    group.completed = turn.now
    notices.leader_chosen(turn, group, "late", previous_leader)
    notices.join_completed(turn, group, cause, before)
    group_state(turn, group)
    if not listed:
        turn.append(group.record())
        return
    _answer_joins(turn, group, listed)
    _arm_sync(turn, group, group.rebalance_timeout_ms() / 1000)


def _is_kept(turn: Turn, group: ClassicGroup) -> bool:
    """Returns whether a hold keeps the state; a group without members becomes Empty."""
    return bool(group.members) and turn.is_held(group)


def _answer_joins(turn: Turn, group: ClassicGroup, listed: MemberRows) -> None:
    """Answers every join with the new generation; the leader's lists all members."""
    leader, now = group.leader, turn.now
    result = group.followers_result()
    tokens: list[object] = []
    member_ids: list[str] = []
    for member in group.ordered():
        token = member.join_token
        if token is not None:
            if member.member_id == leader:
                turn.reply_alike(result, tokens, member_ids)
                tokens, member_ids = [], []
                turn.reply(token, group.join_result(member, listed))
            else:
                tokens.append(token)
                member_ids.append(member.member_id)
            member.join_token = None
        member.is_new = False
        member.told_at = now
    turn.reply_alike(result, tokens, member_ids)
    sessions.keep_all_alive(turn, group.ordered())
    group.pending_sync.update(group.members)
    group.awaiting_join = 0


def _remove_late_members(turn: Turn, group: ClassicGroup) -> None:
    """Removes members that have not rejoined in time; static ones may be late.

    In Kafka a group can therefore outgrow group.max.size, when others take the places
    of static members that are away. With helpful strictness the limit of KIP-389 holds:
    late static members are removed until the group is within it.
    """
    if group.awaiting_join == len(group.members):
        return
    late = [m for m in group.ordered() if not m.has_joined]
    surplus = len(group.members) - turn.max_size(group)
    for member in late:
        if member.group_instance_id is None:
            _kick(turn, group, member, "did_not_join_in_time")
            surplus -= 1
    for member in late if _keeps_limit(turn, group) else ():
        if surplus > 0 and member.group_instance_id is not None:
            _kick(turn, group, member, "did_not_join_in_time")
            surplus -= 1


def _keep_within_max_size(turn: Turn, group: ClassicGroup) -> None:
    """Removes members above a limit lowered while joins waited. Kafka keeps them."""
    if not _keeps_limit(turn, group):
        return
    surplus = len(group.members) - turn.max_size(group)
    if surplus > 0:
        for member in [*group.ordered()][-surplus:]:
            code = ErrorCode.GROUP_MAX_SIZE_REACHED
            _kick(turn, group, member, "group_over_max_size", code)


def _keeps_limit(turn: Turn, group: ClassicGroup) -> bool:
    """Returns whether the limit is strict; a group's own limit always is."""
    return turn.settings.is_helpful or group.group_id in turn.lasting.max_sizes


def _kick(
    turn: Turn,
    group: ClassicGroup,
    member: Member,
    cause: str,
    code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    heard = sessions.last_heard(turn, member)
    notices.member_kicked(turn, group, member.identity, cause, heard)
    remove(turn, group, member, code)


# -- timers


def wait_for_sync(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """Waits for a member's sync again, for the full time if all have synced."""
    group.pending_sync.add(member.member_id)
    if group.sync_deadline is None and group.rest is None:
        _arm_sync(turn, group, group.rebalance_timeout_ms() / 1000)


def stop_timer(turn: Turn, group: ClassicGroup) -> None:
    """Stops the timer of a group that is now held; keeps the time left."""
    deadline = group.join_deadline or group.sync_deadline
    if deadline is not None:
        kind = "sync" if group.join_deadline is None else "join"
        turn.disarm((kind, group.group_id))
        group.join_deadline = group.sync_deadline = None
        group.rest = max(0.0, deadline - turn.now)


def go_on(turn: Turn, group: ClassicGroup) -> None:
    """Lets a held group go on: its timer runs for the time that was left."""
    rest, group.rest = group.rest, None
    if rest is None:
        return
    if group.state is PREPARING_REBALANCE:
        _arm_join(turn, group, rest)
    else:
        _arm_sync(turn, group, rest)


def _arm_join(turn: Turn, group: ClassicGroup, seconds: float) -> None:
    if turn.is_held(group):
        group.rest = seconds
        return
    group.join_deadline = turn.now + seconds
    turn.arm(("join", group.group_id), group.join_deadline)


def _arm_sync(turn: Turn, group: ClassicGroup, seconds: float) -> None:
    if turn.is_held(group):
        group.rest = seconds
        return
    group.sync_deadline = turn.now + seconds
    turn.arm(("sync", group.group_id), group.sync_deadline)


def _open_window(
    turn: Turn, group: ClassicGroup, window_ms: int, remaining_ms: int, cause: str
) -> None:
    group.window_ms, group.remaining_ms = window_ms, remaining_ms
    _arm_join(turn, group, window_ms / 1000)
    notices.window_opened(turn, group, cause)


def join_expired(turn: Turn, group: ClassicGroup, key: TimerKey) -> None:
    """Ends the time for joins, or an initial window."""
    deadline = group.join_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(key, deadline)
        return
    group.join_deadline = None
    if group.window_ms is not None and group.remaining_ms and group.new_member_added:
        # If no time remains, new_member_added stays set and doubles the first window of
        # the group's next life, as in Kafka.
        group.new_member_added = False
        next_ms = min(turn.settings.initial_rebalance_delay_ms, group.remaining_ms)
        remaining_ms = max(group.remaining_ms - group.window_ms, 0)
        _open_window(turn, group, next_ms, remaining_ms, "extended")
        return
    is_initial = group.window_ms is not None
    complete_join(turn, group, "initial_delay" if is_initial else "rebalance_timeout")


def sync_expired(turn: Turn, group: ClassicGroup, key: TimerKey) -> None:
    """Removes members that have not synced in time; the others rebalance."""
    deadline = group.sync_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(key, deadline)
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


# -- the end of the sync phase by a rebalance


def give_up_syncs(turn: Turn, group: ClassicGroup, result: SyncResult) -> None:
    """Drops assignments; answers waiting syncs."""
    for member in group.ordered():
        member.assignment = b""
        if waiting.answer_sync(turn, member, result):
            sessions.keep_alive(turn, member, member.session_timeout)


def _end_sync_phase(turn: Turn, group: ClassicGroup) -> None:
    group.pending_sync.clear()
    group.rest = group.parked = None
    if group.sync_deadline is not None:
        group.sync_deadline = None
        turn.disarm(("sync", group.group_id))
