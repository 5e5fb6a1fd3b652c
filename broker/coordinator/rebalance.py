"""How a group gets from one generation to the next: the join phase and its timers.

The initial windows (KIP-134) as Kafka has them: the first join to an Empty group
opens one of the full delay. When it is over and somebody arrived meanwhile,
another one follows, of the delay or of what remains of the rebalance timeout.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.effects import JoinResult, SyncResult, Who
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import Member
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    TRANSITIONS,
)
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.protocol.errors import ErrorCode

_SHORTEST_RETRY_MS = 10
"""A join phase that nobody has joined starts again after the rebalance timeout. Of
static members that is 0 if they say so: Kafka then tries without a pause."""

_SYNC_AGAIN = SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def prepare_or_complete(turn: Turn, group: Group, cause: Cause) -> None:
    """Starts a rebalance, or gets on with the one that is under way."""
    if PREPARING_REBALANCE in TRANSITIONS[group.state]:
        prepare(turn, group, cause)
    else:
        try_complete_join(turn, group)


def prepare(turn: Turn, group: Group, cause: Cause) -> None:
    """Starts a rebalance: from now on joins are waited for."""
    if group.state is COMPLETING_REBALANCE:
        _give_up_syncs(turn, group)
    _end_sync_phase(turn, group)
    is_initial = group.state is EMPTY
    if turn.listening:
        _notice_started(turn, group, cause)
    turn.transition(group, PREPARING_REBALANCE)
    if is_initial:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        _open_window(
            turn,
            group,
            (delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0)),
            "first",
        )
    elif group.has_all_members_joined():
        complete_join(turn, group, "all_joined")
    else:
        _arm_join(turn, group, group.rebalance_timeout_ms())


def try_complete_join(turn: Turn, group: Group) -> None:
    """Ends the join phase if nobody is missing; initial windows stay open."""
    if (
        group.state is PREPARING_REBALANCE
        and group.previous_state is not EMPTY
        and group.has_all_members_joined()
    ):
        complete_join(turn, group, "all_joined")


def complete_join(turn: Turn, group: Group, cause: str) -> None:
    """Ends the join phase, for a cause: who is in makes the next generation."""
    if not group.members:
        cause = "nobody_left"
    if group.join_deadline is not None:
        group.join_deadline = None
        turn.disarm(("join", group.group_id))
    group.window_ms = None
    _remove_late_members(turn, group)
    _keep_within_max_size(turn, group)
    previous_leader = group.leader
    if group.members and not group.elect_leader():
        # Static members that are away stay until their sessions end, and a
        # generation needs a leader that is there.
        timeout_ms = group.rebalance_timeout_ms()
        _arm_join(turn, group, max(timeout_ms, _SHORTEST_RETRY_MS))
        return
    before = group.rows
    listed = group.next_generation(turn.now)
    group.completed = turn.now
    if turn.listening:
        turn.notice_leader(group, "late", previous_leader)
        _notice_completed(turn, group, cause, before)
        turn.notice_state(group)
    if not listed:
        turn.append(group.record())
        return
    _answer_joins(turn, group, listed)
    timeout_ms = group.rebalance_timeout_ms()
    group.sync_deadline = turn.now + timeout_ms / 1000
    turn.arm(("sync", group.group_id), group.sync_deadline)


def _answer_joins(
    turn: Turn, group: Group, listed: list[tuple[str, str | None, bytes]]
) -> None:
    """Tells everybody about the generation; the leader also who is in it."""
    generation_id, leader = group.generation_id, group.leader
    protocol_type, protocol_name = group.protocol_type, group.protocol_name
    for member_id, member in group.members.items():
        if member.join_token is not None:
            result = JoinResult(
                ErrorCode.NONE,
                member_id,
                generation_id,
                protocol_type,
                protocol_name,
                leader or "",
                False,
                listed if member_id == leader else (),
            )
            turn.reply(member.join_token, result)
            member.join_token = None
        member.is_new = False
        member.told_at = turn.now
        turn.keep_alive(member, member.session_timeout)
        group.pending_sync.add(member_id)
    group.awaiting_join = 0


def _remove_late_members(turn: Turn, group: Group) -> None:
    """Takes out who has not joined in time; static members may be late.

    That way Kafka lets a group grow beyond group.max.size, when others take the
    room of static members that are away. Here the limit of KIP-389 holds: as
    many of those go as there are members too many.
    """
    late = [m for m in group.members.values() if m.join_token is None]
    surplus = len(group.members) - turn.settings.max_size
    for member in late:
        if member.group_instance_id is None:
            _remove(turn, group, member, "did_not_join_in_time")
            surplus -= 1
    for member in late:
        if surplus > 0 and member.group_instance_id is not None:
            _remove(turn, group, member, "did_not_join_in_time")
            surplus -= 1


def _keep_within_max_size(turn: Turn, group: Group) -> None:
    """Sends away who came last, where the limit was lowered while joins waited."""
    surplus = len(group.members) - turn.settings.max_size
    if surplus > 0:
        full = JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        for member in [*group.members.values()][-surplus:]:
            turn.answer_join(group, member, full)
            _remove(turn, group, member, "group_over_max_size")


def _remove(turn: Turn, group: Group, member: Member, cause: str) -> None:
    turn.remove(group, member, "member_kicked", cause=cause, was_pending=False)


# -- listeners


def _notice_started(turn: Turn, group: Group, cause: Cause) -> None:
    """Tells who is to join, and begins to note who is waited for, and how long."""
    members = [*group.members]
    group.started = turn.now
    group.waits = {}
    if group.state is not EMPTY:
        for member_id, member in group.members.items():
            if member.join_token is None:
                group.waits[member_id] = None
        for member_id in group.pending_members:
            group.waits[member_id] = None
    culprits = cause.culprits
    if not culprits and cause.who is not None:
        culprits = cause.who[:1]
    turn.notice(
        "rebalance_started",
        group,
        cause.who,
        1 + len(members) + len(culprits),
        cause=cause.kind,
        reason=cause.reason,
        culprits=culprits,
        previous_state=group.state.value,
        members=members,
    )


def _notice_completed(
    turn: Turn,
    group: Group,
    cause: str,
    before: Sequence[tuple[str, str | None, bytes]],
) -> None:
    waits, group.waits = group.waits, {}
    after = group.rows
    turn.notice(
        "join_completed",
        group,
        None,
        1 + len(before) + len(after) + len(waits),
        cause=cause,
        before=before,
        after=after,
        started=group.started,
        waits=waits,
        protocol=group.protocol_name,
        leader=group.leader if after else None,
    )


# -- timers


def _arm_join(turn: Turn, group: Group, timeout_ms: int) -> None:
    group.join_deadline = turn.now + timeout_ms / 1000
    turn.arm(("join", group.group_id), group.join_deadline)


def _open_window(
    turn: Turn, group: Group, window_ms: tuple[int, int], cause: str
) -> None:
    group.window_ms = window_ms
    delay_ms, remaining_ms = window_ms
    _arm_join(turn, group, delay_ms)
    if turn.listening and delay_ms:
        turn.notice(
            "window_opened",
            group,
            cause=cause,
            delay_ms=delay_ms,
            remaining_ms=remaining_ms,
        )


def join_expired(turn: Turn, group: Group) -> None:
    """The time for joins, or an initial window, is over."""
    deadline = group.join_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(("join", group.group_id), deadline)
        return
    group.join_deadline = None
    if group.window_ms is not None and group.new_member_added:
        delay_ms, remaining_ms = group.window_ms
        if remaining_ms:
            # Where nothing remains the note that somebody came is kept, and
            # makes the first window of the group's next life a double one, as
            # in Kafka.
            group.new_member_added = False
            next_ms = min(turn.settings.initial_rebalance_delay_ms, remaining_ms)
            window_ms = next_ms, max(remaining_ms - delay_ms, 0)
            _open_window(turn, group, window_ms, "extended")
            return
    is_initial = group.window_ms is not None
    complete_join(turn, group, "initial_delay" if is_initial else "rebalance_timeout")


def sync_expired(turn: Turn, group: Group) -> None:
    """The time for syncs is over: who has not synced is out, the rest rebalances."""
    deadline = group.sync_deadline
    if deadline is None:
        return
    if turn.now < deadline:
        turn.arm(("sync", group.group_id), deadline)
        return
    group.sync_deadline = None
    missing = sorted(group.pending_sync)
    # An id that was replaced before it synced is none of a member any more.
    late = [group.members[each] for each in missing if each in group.members]
    whose: list[Who] = [member.identity for member in late]
    whose += [(each, None, None, None) for each in missing]
    for member in late:
        _remove(turn, group, member, "did_not_sync_in_time")
    prepare(turn, group, Cause("sync_timeout", whose[0], None, missing))


# -- the sync phase, as far as a rebalance ends it


def _give_up_syncs(turn: Turn, group: Group) -> None:
    """Sends everybody who waits for an assignment back to join."""
    for member in group.members.values():
        member.assignment = b""
        if turn.answer_sync(member, _SYNC_AGAIN):
            turn.keep_alive(member, member.session_timeout)


def _end_sync_phase(turn: Turn, group: Group) -> None:
    group.pending_sync.clear()
    if group.sync_deadline is not None:
        group.sync_deadline = None
        turn.disarm(("sync", group.group_id))
