"""The sync phase: the leader brings assignments, the others fetch theirs."""

from __future__ import annotations

from kohort.broker.coordinator import notices, rebalance
from kohort.broker.coordinator.appends import Assigned
from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.protocol.errors import ErrorCode

_ERRORS = {int(code): SyncResult(int(code)) for code in ErrorCode}


def sync(turn: Turn, groups: dict[str, Group], event: Sync) -> None:
    """Answers a SyncGroup, or lets it wait for the leader's."""
    group = groups.get(event.group_id)
    error = _validate(group, event)
    if error or group is None:
        turn.reply(event.token, _ERRORS[error])
        return
    member = group.members[event.member_id]
    _has_synced(turn, group, event.member_id)
    if group.state is STABLE:
        turn.reply(event.token, group.sync_result(member))
        notices.member_synced(turn, group, member)
        return
    # A client that asks again has given up its first request. Kafka forgets that one;
    # the helpful answer is the code that every client follows by joining again.
    again = _ERRORS[ErrorCode.REBALANCE_IN_PROGRESS]
    turn.give_up_sync(member, again, "the member has sent another SyncGroup")
    member.sync_token = event.token
    if group.leader == event.member_id:
        _store_assignments(turn, group, event)


def _validate(group: Group | None, event: Sync) -> int:
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


def _has_synced(turn: Turn, group: Group, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync and group.sync_deadline is not None:
        group.sync_deadline = None
        turn.disarm(("sync", group.group_id))


def _store_assignments(turn: Turn, group: Group, event: Sync) -> None:
    """Writes the group's record; members that the leader left out get empty bytes.

    Until it is written the group stays in CompletingRebalance, and anything that begins
    a rebalance there makes these assignments void.
    """
    given = dict(event.assignments)
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    completion = Assigned(
        group.group_id, group.generation_id, event.member_id, assignments
    )
    turn.append(group.record(assignments), completion=completion)


def assigned(turn: Turn, groups: dict[str, Group], done: Assigned) -> None:
    """The record is written: makes the group Stable, and answers the waiting syncs."""
    group = _current(groups, done)
    if group is None:
        return
    group.transition(STABLE, turn.now)
    size, synced = 0, []
    for member in group.ordered():
        assignment = done.assignments[member.member_id]
        member.assignment = assignment
        size += len(assignment)
        if member.sync_token is not None:
            turn.answer_sync(member, group.sync_result(member))
            # While its sync waited its session may have ended unheeded.
            turn.keep_alive(member, member.session_timeout)
            synced.append(member)
    notices.assignment_made(turn, group, size, synced)


def not_assigned(
    turn: Turn, groups: dict[str, Group], failed: Assigned, error: int
) -> None:
    """The record was refused: answers waiting syncs by the error, and rebalances."""
    group = _current(groups, failed)
    if group is not None:
        rebalance.give_up_syncs(turn, group, _ERRORS[error])
        leader = group.members[failed.leader]
        cause = Cause("assignment_not_stored", leader.identity)
        rebalance.prepare(turn, group, cause)


def _current(groups: dict[str, Group], completion: Assigned) -> Group | None:
    """Returns the group if it still waits for these assignments."""
    group = groups.get(completion.group_id)
    if (
        group is None
        or group.state is not COMPLETING_REBALANCE
        or group.generation_id != completion.generation_id
    ):
        return None
    return group
