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
    """Asks the coordinator. Kafka trims the names of states, and not those of types."""
    message: ListGroupsRequest = request.message
    states = [state.strip(_TRIMMED) for state in message.states_filter]
    request.node.groups.submit(ListGroups(request, states, message.types_filter))


_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes off: control characters and the blank."""


def respond(request: Request, result: ListGroupsResult) -> None:
    """Answers the request."""
    request.reply(ListGroupsResponse(0, 0, [ListedGroup(*g) for g in result.groups]))
