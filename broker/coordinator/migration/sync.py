"""SyncGroup of a classic member in a consumer group: brings its partitions."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import sessions
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.member import Member, MemberState
from kohort.broker.coordinator.effects import SyncResult
from kohort.broker.coordinator.events import Sync
from kohort.broker.coordinator.migration import assignments
from kohort.broker.coordinator.migration.members import classic_member
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode


def sync(turn: Turn, groups: Groups, event: Sync) -> None:
    """Answers a member with the partitions of its step to the target assignment."""
    group = find(groups, event.group_id)
    assert group is not None
    if event.protocol_required and None in (event.protocol_type, event.protocol_name):
        turn.reply(event.token, SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    member = classic_member(group, event)
    if not isinstance(member, Member):
        turn.reply(event.token, SyncResult(member))
        return
    error = _validate(turn, group, member, event)
    if error:
        turn.reply(event.token, SyncResult(error))
        return
    sessions.has_synced(turn, group, member)
    sessions.keep_alive(turn, group, member)
    _, metadata = protocol_of(member)
    assignment = assignments.encoded(member.assigned, group.topics, metadata)
    result = SyncResult(0, event.protocol_type, event.protocol_name, assignment)
    turn.reply_after_appends(event.token, result)


def protocol_of(member: Member) -> tuple[str, bytes]:
    """Returns the name and metadata of the protocol that a classic member uses.

    It is the first one that it supports: the coordinator assigns by itself.
    """
    assert member.says.classic is not None
    return member.says.classic[1][0]


def _validate(turn: Turn, group: ConsumerGroup, member: Member, event: Sync) -> int:
    name, _ = protocol_of(member)
    if event.protocol_type not in (None, PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if event.protocol_name not in (None, name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if (
        group.assignment_epoch > member.epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        sessions.wait_for_rejoin(turn, group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return 0
