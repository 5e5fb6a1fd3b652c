"""Removes members from their group, for any reason; undoes changes of groups."""

from __future__ import annotations

from kohort.broker.coordinator import notices
from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def remove(
    turn: Turn,
    group: Group,
    member: Member,
    code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    """Removes a member from its group, and answers its waiting requests with `code`.

    UNKNOWN_MEMBER_ID makes a client that is still alive join as a new member. Kafka
    leaves a waiting sync without an answer.
    """
    turn.answer_join(group, member, JoinResult(code, ""))
    turn.give_up_sync(member, SyncResult(code), "the member was removed")
    turn.end_session(member)
    leader = group.leader
    group.remove(member)
    notices.wait_ended(turn, group, member.member_id, came=False)
    notices.partitions_gone(turn, group, member)
    notices.leader_chosen(turn, group, "gone", leader)


def remove_pending(turn: Turn, group: Group, member_id: str) -> None:
    """Removes a pending member (KIP-394)."""
    del group.pending_members[member_id]
    notices.wait_ended(turn, group, member_id, came=False)


def take_back(
    turn: Turn, groups: dict[str, Group], change: GroupChange, error: int
) -> None:
    """Restores a group to its state before records that the log refused.

    Joins that wait in a group whose creation is undone get the error.
    """
    group = change.group
    _restore_offsets(change)
    if change.was_deleted:
        groups[group.group_id] = group
    if change.was_made:
        for member in [*group.members.values()]:
            turn.answer_join(group, member, JoinResult(error, ""))
            turn.end_session(member)
        for member_id in group.pending_members:
            turn.disarm(("session", group.group_id, member_id))
        if group.join_deadline is not None:
            turn.disarm(("join", group.group_id))
        turn.lasting.rebalances.pop(group.group_id, None)
        del groups[group.group_id]


def _restore_offsets(change: GroupChange) -> None:
    group = change.group
    expire_before = change.expire_ms or (None,) * len(change.keys)
    before = zip(change.keys, change.entries, expire_before, strict=True)
    # Latest first: a commit may have a partition twice.
    for key, entry, expire_ms in reversed([*before]):
        if entry is None:
            group.offsets.pop(key, None)
        else:
            group.offsets[key] = entry
        if expire_ms is None:
            group.expire_ms.pop(key, None)
        else:
            group.expire_ms[key] = expire_ms
    if change.pending:
        for key, pending in reversed([*zip(change.keys, change.pending, strict=True)]):
            if pending is None:
                group.pending.pop(key, None)
            else:
                group.pending[key] = pending
