"""LeaveGroup to a consumer group: of classic members, or by an admin."""

from __future__ import annotations

from kohort.broker.coordinator.consumer import leave as consumer
from kohort.broker.coordinator.consumer import notices
from kohort.broker.coordinator.consumer.cause import Cause
from kohort.broker.coordinator.consumer.group import ConsumerGroup, find
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def leave(turn: Turn, groups: Groups, event: Leave) -> None:
    """Removes members of any protocol at once."""
    group = find(groups, event.group_id)
    assert group is not None
    results = []
    gone: dict[str, Member] = {}
    reasons: list[str | None] = []
    for leaving in event.members:
        found = _find(group, leaving)
        code = int(ErrorCode.NONE)
        if isinstance(found, int):
            code = found
        elif found.member_id not in gone:
            gone[found.member_id] = found
            reasons.append(leaving.reason)
            notices.member_left(turn, group, found)
        results.append((leaving.member_id, leaving.group_instance_id, code))
    if gone:
        members = [*gone.values()]
        cause = Cause("member_left", members[0].identity, reasons[0], [*gone])
        consumer.remove(turn, groups, group, members, cause)
    turn.reply_after_appends(event.token, LeaveResult(ErrorCode.NONE, results))


def _find(group: ConsumerGroup, leaving: LeavingMember) -> Member | int:
    """Returns a member, or an error code. Admins name static ones by instance alone."""
    if leaving.group_instance_id is None:
        member = group.members.get(leaving.member_id)
    else:
        member = group.static_member(leaving.group_instance_id)
        if member is not None and leaving.member_id not in ("", member.member_id):
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member
