"""ListGroups: the groups of this node, by state and type."""

from __future__ import annotations

from kohort.broker.coordinator.effects import ListGroupsResult
from kohort.broker.coordinator.events import ListGroups
from kohort.broker.request import Request
from kohort.protocol.apis.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(request: Request) -> None:
    """Asks the coordinator."""
    message: ListGroupsRequest = request.message
    request.node.groups.submit(
        ListGroups(request, message.states_filter, message.types_filter)
    )


def respond(request: Request, result: ListGroupsResult) -> None:
    """Answers the request."""
    request.reply(ListGroupsResponse(0, 0, [ListedGroup(*g) for g in result.groups]))
