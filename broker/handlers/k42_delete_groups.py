"""DeleteGroups: groups without members go, with their offsets."""

from __future__ import annotations

from kohort.broker.coordinator.effects import DeleteGroupResult
from kohort.broker.coordinator.events import DeleteGroup
from kohort.broker.handlers.gather import Gather
from kohort.broker.request import Request
from kohort.protocol.apis.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(request: Request) -> None:
    """Asks the coordinator of each group; a name that is repeated counts once."""
    message: DeleteGroupsRequest = request.message
    names = list(dict.fromkeys(message.groups_names))

    def done(results: list[DeleteGroupResult]) -> None:
        request.reply(
            DeleteGroupsResponse(
                0,
                [
                    DeletableGroupResult(name, result.error_code)
                    for name, result in zip(names, results, strict=True)
                ],
            )
        )

    gather = Gather(len(names), done)
    for i, name in enumerate(names):
        request.node.groups.submit(DeleteGroup(gather.slot(i), name))
