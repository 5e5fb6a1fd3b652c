"""Listing and deleting groups."""

from __future__ import annotations

from kohort.broker.coordinator import offsets
from kohort.broker.coordinator.appends import (
    GroupAppends,
    committed_groups,
)
from kohort.broker.coordinator.effects import DeleteGroupResult, ListGroupsResult
from kohort.broker.coordinator.events import DeleteGroup, ListGroups
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.state import EMPTY
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.errors import ErrorCode


def list_groups(
    appends: GroupAppends, groups: dict[str, Group], event: ListGroups
) -> ListGroupsResult:
    """Lists groups by state and type; no filter means all, case does not matter."""
    states = {state.lower() for state in event.states}
    types = {each.lower() for each in event.types}
    return ListGroupsResult(
        [
            (group.group_id, group.protocol_type or "", group.state, group.type)
            for group in committed_groups(appends, groups).values()
            if (not states or group.state.lower() in states)
            and (not types or group.type in types)
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
