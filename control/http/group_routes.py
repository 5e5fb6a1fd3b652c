"""Power over groups, over HTTP: `kohort.control.group` has the same in Python."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Final, cast

from aiohttp import web
from msgspec import UNSET

from kohort.broker.coordinator.state import GroupState
from kohort.broker.long_work import Pace
from kohort.broker.server import Broker
from kohort.control.conditions import IsSettled, wait
from kohort.control.group import (
    Group,
    no_group,
)
from kohort.control.group_members import GroupShown
from kohort.control.group_verbs import GroupVerbs
from kohort.control.group_views import lags
from kohort.control.http.group_types import (
    DeliveryQuery,
    DeliveryShown,
    GroupList,
    GroupOffsets,
    GroupPath,
    GroupRow,
    GroupsQuery,
    OffsetRow,
)
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.operations import Operation, in_turns
from kohort.control.http.verb_routes import condition_operations, verb_operations

_OFFSET_COST: Final = 1
"""Cost of one partition's offsets, as `Pace` counts."""


def operations(broker: Broker, polls: LongPolls) -> list[Operation]:
    """The operations on a broker's groups.

    Args:
        broker: the broker.
        polls: the requests that wait.
    """

    def handle(path: GroupPath) -> Group:
        return Group(broker, path.group)

    do = _Handlers(broker, polls)
    group = "/v1/groups/{group}"
    return [
        Operation("GET", "/v1/groups", do.list_groups),
        Operation("GET", group, do.show_group, (404, 503)),
        Operation("GET", f"{group}/offsets", do.show_offsets, (404, 503)),
        Operation("GET", f"{group}/delivery", do.show_delivery, (404, 409, 503, 504)),
        *condition_operations(GroupVerbs, GroupPath, handle, polls, answer=GroupShown),
        *verb_operations(GroupVerbs, GroupPath, handle, answer=GroupShown),
    ]


class _Handlers:
    """The handlers of the operations."""

    def __init__(self, broker: Broker, polls: LongPolls) -> None:
        self._broker = broker
        self._polls = polls

    async def list_groups(self, query: GroupsQuery) -> GroupList:
        """Lists groups."""
        shards = self._broker.cluster.shards
        found = (
            (shard, group)
            for shard in shards
            for group in shard.groups.values()
            if query.state in {UNSET, group.state}
        )
        rows: list[GroupRow] = [
            {
                "group": group.group_id,
                "state": group.state.value,
                "generation": group.generation_id,
                "protocol": group.protocol_name,
                "members": len(group.members),
                "coordinator": shard.node_id,
            }
            for shard, group in islice(found, query.limit)
        ]
        return {"groups": rows, "total": sum(shard.group_count for shard in shards)}

    async def show_group(self, path: GroupPath) -> GroupShown:
        """Shows a group and its members."""
        return self._known(path).show()

    def _known(self, path: GroupPath) -> Group:
        """A group that exists, or is held or limited in advance; otherwise 404.

        While its shard is loaded, the answer is 503: the group may exist.
        """
        group = Group(self._broker, path.group)
        if group.state == GroupState.DEAD and not (group.held or group.max_size):
            shards = self._broker.cluster.shards
            if len(shards) and (why := shards.for_id(path.group).refusal):
                raise web.HTTPServiceUnavailable(text=why)
            known = (each.group_id for each in shards.groups())
            raise web.HTTPNotFound(text=no_group(path.group, known))
        return group

    async def show_offsets(self, path: GroupPath) -> GroupOffsets:
        """Shows the committed offsets of a group, and its lag.

        There are the partitions that have a committed offset, and all partitions of the
        topics that the members subscribe to.
        """
        return {"offsets": await in_turns(self._offsets(self._known(path)))}

    def _offsets(self, group: Group) -> Generator[None, None, list[OffsetRow]]:
        committed = group.committed()
        rows: list[OffsetRow] = []
        pace = Pace()
        for (topic, index), end, lag in lags(self._broker, group.group_id):
            rows.append(
                {
                    "topic": topic,
                    "partition": index,
                    "committed": committed.get((topic, index)),
                    "end": end,
                    "lag": lag.records,
                }
            )
            if pace.spend(_OFFSET_COST):
                yield
        return rows

    async def show_delivery(
        self, path: GroupPath, query: DeliveryQuery
    ) -> DeliveryShown:
        """Shows the account of delivery of a group.

        It has the records that were received, sent again, skipped and not committed,
        and the commits that went back. The answer waits until each partition that moved
        was fetched by its new owner, so that no number depends on when it is read. The
        account begins with the broker's start: `kohort serve --http` keeps it.
        """
        group = Group(self._broker, path.group)
        # Not all of a long queue in this turn of the loop.
        await self._broker.events.accounts_made()
        accounting = self._broker.events.accounting
        if accounting is None or path.group not in accounting.deliveries.groups:
            self._known(path)
        try:
            found = group.peek_delivery()
        except RuntimeError as error:
            raise web.HTTPConflict(text=str(error)) from None
        if not query.peek and not found.is_settled:
            await self._polls.wait(wait(IsSettled(group), query.timeout))
            found = group.peek_delivery()
        return cast(DeliveryShown, found.as_json())
