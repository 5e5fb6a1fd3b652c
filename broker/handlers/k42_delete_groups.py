"""DeleteGroups: groups without members go, with their offsets."""

from __future__ import annotations

from kohort.broker.coordinator.events import DeleteGroup
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

_GROUP_COST = 20
"""Cost of deleting a group, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each group; a name that is repeated counts once."""
    message: DeleteGroupsRequest = request.message
    pace = Pace()
    results: dict[str, DeletableGroupResult] = {}
    for name in message.groups_names:
        if name not in results:
            slot = ResultSlot()
            request.node.submit_group_event(DeleteGroup(slot, name))
            results[name] = DeletableGroupResult(name, slot.result.error_code)
        if pace.spend(_GROUP_COST):
            yield
    answer = DeleteGroupsResponse(0, list(results.values()))
    yield from request.reply_in_pieces(answer)
