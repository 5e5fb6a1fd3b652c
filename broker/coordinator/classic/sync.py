"""The sync phase: the leader brings assignments, the others fetch theirs.

1. `sync` checks the request in Kafka's order. In Stable it is answered at once. In
   CompletingRebalance it waits in its member (`sync_token`).
2. The leader's request brings the assignments. They are parked in the group, and
   `store_assignments` appends the group's record with them, unless the group is held
   or the leader muted: then the release or unmute does it.
3. When the record is in the log, `assigned` makes the group Stable, and answers all
   syncs. If the log refused it, `not_assigned` answers them with the error, and
   rebalances.
4. `has_synced` counts the members that have synced. If some are missing when the timer
   ("sync", group) fires, `rebalance.sync_expired` removes them.
"""

from __future__ import annotations

from typing import Literal

from kohort.broker.coordinator.classic import notices, rebalance, sessions, waiting
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup, find
from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.coordinator.room import Coordinating, Groups
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted


@slotted
class Assigned:
    """The leader's SyncGroup: the group is Stable once its record is written."""

    group_id: str
    generation_id: int
    leader: str
    assignments: dict[str, bytes]
    """Assignments of all members; empty bytes for those that the leader left out."""


_ERRORS = {int(code): SyncResult(int(code)) for code in ErrorCode}


def only_wait(coordinator: Coordinating, event: Sync, _: float) -> Literal[True] | None:
    """Lets a sync wait if that is all it does; None if `sync` has to handle it.

    That of a follower, while another member's is still to come.
    """
    group = coordinator.groups.get(event.group_id)
    if (
        type(group) is not ClassicGroup
        or group.state is not COMPLETING_REBALANCE
        or event.member_id == group.leader
        or len(group.pending_sync) < 2
        or _validate(group, event)
    ):
        return None
    member = group.members[event.member_id]
    if member.sync_token is not None or member.is_muted:
        return None
    member.sync_token = event.token
    group.pending_sync.discard(event.member_id)
    return True


def sync(turn: Turn, groups: Groups, event: Sync) -> None:
    """Answers a SyncGroup, or lets it wait for the leader's."""
    group = find(groups, event.group_id)
    error = _validate(group, event)
    if error or group is None:
        turn.reply(event.token, _ERRORS[error])
        return
    member = group.members[event.member_id]
    if not member.is_muted:
        has_synced(turn, group, event.member_id)
    if group.state is STABLE:
        turn.reply_alike(group.sync_result(), [event.token], [member.assignment])
        notices.member_synced(turn, group, member)
        return
    if member.sync_token is not None:
        # A client that asks again has given up its first request. Kafka never answers
        # that one; the helpful answer is the code that every client follows by joining
        # again.
        again = _ERRORS[ErrorCode.REBALANCE_IN_PROGRESS]
        waiting.give_up_sync(
            turn, member, again, "the member has sent another SyncGroup"
        )
    member.sync_token = event.token
    if group.leader == event.member_id:
        given = dict(event.assignments)
        group.parked = {each: given.get(each, b"") for each in group.members}
        store_assignments(turn, group)


def _validate(group: ClassicGroup | None, event: Sync) -> int:
    if event.protocol_required and None in (event.protocol_type, event.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not event.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(event.member_id, event.group_instance_id)
    if error:
        return error
    if event.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if event.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if event.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return 0


def has_synced(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Notes that a member has synced; after the last one, stops the timer."""
    group.pending_sync.discard(member_id)
    if group.pending_sync:
        return
    if group.state is COMPLETING_REBALANCE:
        group.rest = None
    if group.sync_deadline is not None:
        group.sync_deadline = None
        turn.disarm(("sync", group.group_id))


def store_assignments(turn: Turn, group: ClassicGroup) -> None:
    """Writes the assignments that the leader has sent, unless a hold prevents it.

    Members that the leader left out get empty bytes. A hold, or a muted leader, leaves
    the assignments parked. Until they are written the group stays in
    CompletingRebalance, and a rebalance that begins there makes them void.
    """
    assignments, leader = group.parked, group.members[group.leader or ""]
    if assignments is None or leader.is_muted or turn.is_held(group):
        return
    group.parked = None
    completion = Assigned(
        group.group_id, group.generation_id, leader.member_id, assignments
    )
    turn.append(group.record(assignments), completion, opens_window=True)


def assigned(turn: Turn, groups: Groups, done: Assigned) -> None:
    """Makes the group Stable and answers the waiting syncs: the record is written."""
    group = _current(groups, done)
    if group is None:
        return
    if turn.is_held(group):
        # The hold began while the record was being written; it will be written again.
        group.parked = done.assignments
        return
    group.transition(STABLE, turn.now)
    size, synced = 0, []
    tokens: list[object] = []
    assignments: list[bytes] = []
    for member in group.ordered():
        assignment = done.assignments[member.member_id]
        member.assignment = assignment
        size += len(assignment)
        if member.sync_token is not None:
            tokens.append(member.sync_token)
            assignments.append(assignment)
            member.sync_token = None
            synced.append(member)
    turn.reply_alike(group.sync_result(), tokens, assignments)
    # While their syncs waited, the ends of their sessions may have been ignored.
    sessions.keep_all_alive(turn, synced)
    notices.assignment_made(turn, group, size, synced)


def not_assigned(turn: Turn, groups: Groups, failed: Assigned, error: int) -> None:
    """Answers waiting syncs with the error and rebalances: the record was refused."""
    group = _current(groups, failed)
    if group is not None:
        rebalance.give_up_syncs(turn, group, _ERRORS[error])
        leader = group.members[failed.leader]
        cause = Cause("assignment_not_stored", leader.identity)
        rebalance.prepare(turn, group, cause)


def _current(groups: Groups, completion: Assigned) -> ClassicGroup | None:
    """Returns the group if it still waits for these assignments."""
    group = find(groups, completion.group_id)
    if (
        group is None
        or group.state is not COMPLETING_REBALANCE
        or group.generation_id != completion.generation_id
    ):
        return None
    return group
