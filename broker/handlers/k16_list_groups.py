"""ListGroups: the groups of this node, by state and type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kohort.broker.coordinator.coordinator import GROUP_TYPES
from kohort.broker.coordinator.events import ListGroups
from kohort.broker.coordinator.state import GroupState
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.protocol.apis.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 1
"""Cost of listing a group, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Asks all coordinators of the node. As in Kafka, none may be loading.

    Kafka trims the names of states, but not those of types.
    """
    message: ListGroupsRequest = request.message
    pace = Pace()
    states = yield from count_values(
        (state.strip(_TRIMMED).lower() for state in message.states_filter), pace
    )
    types = yield from count_values(
        (each.lower() for each in message.types_filter), pace
    )
    drivers = request.node.cluster.shards.drivers(request.node.id)
    if drivers is None:
        request.finish(ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    wanted = _known(states, GroupState)
    of_types = _known(types, GROUP_TYPES)
    groups = []
    for driver in drivers:
        slot = ResultSlot()
        driver.submit(ListGroups(slot, wanted, of_types))
        for row in slot.result.groups:
            groups.append(ListedGroup(*row))
            if pace.spend(_ROW_COST):
                yield
        if pace.spend(1):
            yield
    yield from request.finish_in_pieces(ListGroupsResponse(0, 0, groups))


def _known(filters: Counter[str], known: Iterable[str]) -> Sequence[str]:
    """The known names of a filter; without any, a name that no group matches."""
    found = [name for name in known if name.lower() in filters]
    return found or list(filters)[:1]


_TRIMMED = "".join(map(chr, range(0x21)))
"""Characters that Java's String.trim removes: control characters and the space."""
