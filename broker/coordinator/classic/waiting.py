"""Requests that wait for an answer in their member."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.effects import Forget, JoinResult, SyncResult
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.effects import Reply
from kohort.protocol.errors import ErrorCode


def refused(group: ClassicGroup) -> Iterator[Reply]:
    """Refuses the requests that wait in a group: its coordinator moves."""
    error = ErrorCode.NOT_COORDINATOR
    for member in group.ordered():
        if member.join_token is not None:
            yield Reply(member.join_token, JoinResult(error, member.member_id))
        if member.sync_token is not None:
            yield Reply(member.sync_token, SyncResult(error))


def answer_join(
    turn: Turn, group: ClassicGroup, member: Member, result: JoinResult
) -> None:
    """Answers the waiting join, if any."""
    if member.join_token is not None:
        turn.reply(member.join_token, result)
        group.drop_join(member)


def give_up_join(
    turn: Turn, group: ClassicGroup, member: Member, result: JoinResult
) -> None:
    """Ends the wait of a join that another one replaces."""
    token = member.join_token
    if token is None or turn.settings.is_helpful:
        answer_join(turn, group, member, result)
        return
    turn.effects.append(Forget(token, "the member has sent another JoinGroup"))
    group.drop_join(member)


def give_up_sync(turn: Turn, member: Member, result: SyncResult, why: str) -> None:
    """Ends the wait of a sync that Kafka never answers; Kafka has no mutes."""
    token = member.sync_token
    if token is None or turn.settings.is_helpful or member.is_muted:
        answer_sync(turn, member, result)
        return
    turn.effects.append(Forget(token, why))
    member.sync_token = None


def answer_sync(turn: Turn, member: Member, result: SyncResult) -> bool:
    """Answers the waiting sync; False if there is none."""
    if member.sync_token is None:
        return False
    turn.reply(member.sync_token, result)
    member.sync_token = None
    return True
