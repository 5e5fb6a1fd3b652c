"""Coordinators of groups: looked up once, kept until they prove wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kohort.client.errors import (
    CoordinatorNotAvailableError,
    KohortError,
    error_of,
)
from kohort.client.network.connection import Connection
from kohort.client.network.metadata import Node
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.errors import ErrorCode

API = "FindCoordinator"

_GROUP = 0
"""The key type of groups."""
_BATCHED = 4
"""The first version with several keys (KIP-699)."""


class Coordinators:
    """The cache of group coordinators.

    Args:
        connect: gives a connection to any node.

    Attributes:
        nodes: the nodes that were named, by id.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self.nodes: dict[int, Node] = {}
        self._connect = connect
        self._known: dict[str, int] = {}

    def get(self, group: str) -> int | None:
        """The id of a group's coordinator, where it is known."""
        return self._known.get(group)

    def forget(self, group: str) -> None:
        """Has a group's coordinator looked up the next time."""
        self._known.pop(group, None)

    def forget_node(self, node_id: int | None) -> None:
        """Has the coordinator of this node's groups looked up the next time."""
        for group in [g for g, known in self._known.items() if known == node_id]:
            del self._known[group]

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()
        self.nodes.clear()

    async def for_groups(self, groups: Sequence[str]) -> dict[str, int | KohortError]:
        """The nodes that coordinate some groups, or why that is not known.

        One request for all that are not known yet, if the broker can (KIP-699).

        Raises:
            KohortError: no broker answers.
        """
        # They may be forgotten while the others are looked up.
        found: dict[str, int | KohortError] = {
            group: self._known[group] for group in groups if group in self._known
        }
        missing = [group for group in groups if group not in found]
        if missing:
            found |= await self._find(missing)
        return {group: found[group] for group in groups}

    async def _find(self, groups: Sequence[str]) -> dict[str, int | KohortError]:
        connection = await self._connect()
        version = connection.version(API)
        rows: list[tuple[str, Any]] = []
        if version >= _BATCHED:
            request = FindCoordinatorRequest("", _GROUP, groups)
            response = await connection.send(API, version, request)
            rows = [(row.key, row) for row in response.coordinators]
        else:
            for group in groups:
                request = FindCoordinatorRequest(group, _GROUP)
                rows.append((group, await connection.send(API, version, request)))
        found: dict[str, int | KohortError] = {
            group: CoordinatorNotAvailableError(
                "the answer does not name it",
                api=API,
                broker=connection.name,
                group=group,
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
            for group in groups
        }
        found |= {group: self._read(group, row, connection) for group, row in rows}
        return found

    def _read(self, group: str, row: Any, connection: Connection) -> int | KohortError:
        if row.error_code:
            return error_of(
                row.error_code,
                api=API,
                broker=connection.name,
                group=group,
                message=row.error_message,
            )
        node_id: int = row.node_id
        self._known[group] = node_id
        self.nodes[node_id] = Node(node_id, row.host, row.port)
        return node_id
