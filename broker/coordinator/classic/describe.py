"""DescribeGroups: the state and the members of a group."""

from __future__ import annotations

from kohort.broker.coordinator.appends import GroupAppends, committed_group
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.effects import DescribeGroupResult
from kohort.broker.coordinator.events import DescribeGroup
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.state import DEAD, STABLE
from kohort.protocol.errors import ErrorCode


def describe(
    appends: GroupAppends, groups: Groups, event: DescribeGroup
) -> DescribeGroupResult:
    """One group; an unknown one, or one of another protocol, is Dead without an error.

    Only Stable has metadata and a protocol: those of the current generation.
    """
    group = committed_group(appends, groups, event.group_id)
    if type(group) is not ClassicGroup:
        why = "not found" if group is None else "is not a classic group"
        return DescribeGroupResult(
            ErrorCode.NONE,
            event.group_id,
            DEAD,
            why_dead=f"Group {event.group_id} {why}.",
        )
    protocol_name = group.protocol_name if group.state is STABLE else None
    return DescribeGroupResult(
        ErrorCode.NONE,
        event.group_id,
        group.state,
        group.protocol_type or "",
        protocol_name or "",
        [member.describe(protocol_name) for member in group.ordered()],
    )
