"""Describing, listing and deleting groups."""

from __future__ import annotations

from kohort.broker.coordinator import offsets
from kohort.broker.coordinator.appends import (
    Appends,
    committed_group,
    committed_groups,
)
from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.classic.state import DEAD, EMPTY, STABLE
from kohort.broker.coordinator.effects import (
    DeleteGroupResult,
    DescribeGroupResult,
    ListGroupsResult,
)
from kohort.broker.coordinator.events import DeleteGroup, DescribeGroup, ListGroups
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode

GROUP_TYPE = "classic"


def describe(
    appends: Appends, groups: dict[str, Group], event: DescribeGroup
) -> DescribeGroupResult:
    """One group; an unknown one is Dead, without an error.

    Only Stable has metadata and a protocol: those of the current generation.
    """
    group = committed_group(appends, groups, event.group_id)
    if group is None:
        return DescribeGroupResult(ErrorCode.NONE, event.group_id, DEAD)
    protocol_name = group.protocol_name if group.state is STABLE else None
    return DescribeGroupResult(
        ErrorCode.NONE,
        event.group_id,
        group.state,
        group.protocol_type or "",
        protocol_name or "",
        [member.describe(protocol_name) for member in group.ordered()],
    )


def list_groups(
    appends: Appends, groups: dict[str, Group], event: ListGroups
) -> ListGroupsResult:
    """Lists groups by state and type; no filter means all, case does not matter."""
    states = {state.lower() for state in event.states}
    types = {each.lower() for each in event.types}
    if types and GROUP_TYPE not in types:
        return ListGroupsResult(())
    return ListGroupsResult(
        [
            (group.group_id, group.protocol_type or "", group.state, GROUP_TYPE)
            for group in committed_groups(appends, groups).values()
            if not states or group.state.lower() in states
        ]
    )


def delete(turn: Turn, groups: dict[str, Group], event: DeleteGroup) -> None:
    """Deletes a group without members; pending members do not count."""
    group = groups.get(event.group_id)
    code = ErrorCode.NONE
    if group is None:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not EMPTY:
        code = ErrorCode.NON_EMPTY_GROUP
    else:
        offsets.bury(turn, groups, group)
    turn.reply_after_appends(event.token, DeleteGroupResult(code))
