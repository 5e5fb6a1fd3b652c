"""Removes members from their group, for any reason; takes back changes of groups."""

from __future__ import annotations

from kohort.broker.coordinator import notices
from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import Member
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def remove(
    turn: Turn,
    group: Group,
    member: Member,
    code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    """Takes a member out of its group, and answers its requests that wait by `code`.

    UNKNOWN_MEMBER_ID makes a client that is still there join as a new member. Kafka
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
    """Forgets a pending member (KIP-394)."""
    del group.pending_members[member_id]
    notices.wait_ended(turn, group, member_id, came=False)


def take_back(
    turn: Turn, groups: dict[str, Group], change: GroupChange, error: int
) -> None:
    """Restores a group as it was before records that the log refused.

    The joins that wait in a group that is not made after all get the error.
    """
    group = change.group
    for key, entry, expire_ms in reversed(change.offsets):
        if entry is None:
            group.offsets.pop(key, None)
        else:
            group.offsets[key] = entry
        if expire_ms is None:
            group.expire_ms.pop(key, None)
        else:
            group.expire_ms[key] = expire_ms
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
        del groups[group.group_id]
