"""Removes members from their group, for any reason."""

from __future__ import annotations

from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.classic import notices, sessions, waiting
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.effects import JoinResult, SyncResult
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def remove(
    turn: Turn,
    group: ClassicGroup,
    member: Member,
    code: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
) -> None:
    """Removes a member from its group, and answers its waiting requests with `code`.

    UNKNOWN_MEMBER_ID makes a client that is still alive join as a new member. Kafka
    leaves a waiting sync without an answer.
    """
    waiting.answer_join(turn, group, member, JoinResult(code, ""))
    waiting.give_up_sync(turn, member, SyncResult(code), "the member was removed")
    sessions.end_session(turn, member)
    leader = group.leader
    group.remove(member)
    notices.wait_ended(turn, group, member.member_id, came=False)
    notices.partitions_gone(turn, group, member)
    notices.leader_chosen(turn, group, "gone", leader)


def remove_pending(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Removes a pending member (KIP-394)."""
    del group.pending_members[member_id]
    notices.wait_ended(turn, group, member_id, came=False)


def undone(turn: Turn, group: ClassicGroup, change: GroupChange, error: int) -> None:
    """Ends a group whose first record the log refused; its joins get the error."""
    if not change.was_made:
        return
    for member in [*group.members.values()]:
        waiting.answer_join(turn, group, member, JoinResult(error, ""))
        sessions.end_session(turn, member)
    for key in group.stop_timers():
        turn.disarm(key)
    if group.join_deadline is not None:
        turn.disarm(("join", group.group_id))
