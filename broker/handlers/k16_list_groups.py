"""ListGroups: the groups of this node, by state and type."""

from __future__ import annotations

from kohort.broker.coordinator.effects import ListGroupsResult
from kohort.broker.coordinator.events import ListGroups
from kohort.broker.handlers.gather import Gather
from kohort.broker.request import Request
from kohort.protocol.apis.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Asks all coordinators of the node. As in Kafka, none may be loading.

    Kafka trims the names of states, and not those of types.
    """
    message: ListGroupsRequest = request.message
    states = [state.strip(_TRIMMED) for state in message.states_filter]
    drivers = request.node.groups.drivers()
    if drivers is None:
        request.reply(ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return

    def done(results: list[ListGroupsResult]) -> None:
        groups = [ListedGroup(*row) for result in results for row in result.groups]
        request.reply(ListGroupsResponse(0, 0, groups))

    gather = Gather(len(drivers), done)
    for i, driver in enumerate(drivers):
        driver.submit(ListGroups(gather.slot(i), states, message.types_filter))


_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes off: control characters and the blank."""
