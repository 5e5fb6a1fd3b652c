"""DeleteGroups: deletes groups without members, with their offsets."""

from __future__ import annotations

from functools import partial

from kohort.broker.coordinator.effects import DeleteGroupResult
from kohort.broker.coordinator.events import DeleteGroup
from kohort.broker.handlers.result_slot import Results
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.protocol.apis.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

_GROUP_COST = 20
"""Cost of deleting a group, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each group, once if a name is repeated."""
    message: DeleteGroupsRequest = request.message
    pace, results = Pace(), Results(request)
    names: dict[str, None] = {}
    for name in message.groups_names:
        if name not in names:
            names[name] = None
            request.node.submit_group_event(DeleteGroup(results.token(), name))
        if pace.spend(_GROUP_COST):
            yield
    results.then(partial(_reply, request, [*names]))


def _reply(
    request: Request, names: list[str], results: list[DeleteGroupResult]
) -> Work:
    rows = yield from map_in_pieces(
        lambda row: DeletableGroupResult(row[0], row[1].error_code),
        zip(names, results, strict=True),
        Pace(),
    )
    yield from request.finish_in_pieces(DeleteGroupsResponse(0, rows))
