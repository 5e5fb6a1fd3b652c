"""Coordinators of groups and transactions, cached until an error shows a move."""

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

GROUP = 0
"""The key type of groups."""
TRANSACTION = 1
"""The key type of transactional ids."""
_BATCHED = 4
"""The first version with several keys (KIP-699)."""


class Coordinators:
    """The cache of coordinators.

    Args:
        connect: returns a connection to any node.

    Attributes:
        nodes: the coordinators' nodes, by id.
    """

    __slots__ = ("_connect", "_known", "nodes")

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self.nodes: dict[int, Node] = {}
        self._connect = connect
        self._known: dict[tuple[int, str], int] = {}

    def get(self, key: str, kind: int = GROUP) -> int | None:
        """The id of a coordinator; None if unknown.

        Args:
            key: a group id or a transactional id.
            kind: `GROUP` or `TRANSACTION`.
        """
        return self._known.get((kind, key))

    def forget(self, key: str, kind: int = GROUP) -> None:
        """Forgets a coordinator."""
        self._known.pop((kind, key), None)

    def forget_node(self, node_id: int | None) -> None:
        """Forgets all that a node coordinates."""
        for place in [p for p, known in self._known.items() if known == node_id]:
            del self._known[place]

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()
        self.nodes.clear()

    async def find(
        self, keys: Sequence[str], kind: int = GROUP
    ) -> dict[str, int | KohortError]:
        """The coordinator of each key, or the error of its look-up.

        One request for all unknown ones, if the broker supports it (KIP-699).

        Raises:
            KohortError: no broker responds.
        """
        # Cached ones may be forgotten while the others are looked up.
        found: dict[str, int | KohortError] = {
            key: self._known[kind, key] for key in keys if (kind, key) in self._known
        }
        missing = [key for key in keys if key not in found]
        if missing:
            found |= await self._find(missing, kind)
        return {key: found[key] for key in keys}

    async def _find(
        self, keys: Sequence[str], kind: int
    ) -> dict[str, int | KohortError]:
        connection = await self._connect()
        version = connection.version(API)
        rows: list[tuple[str, Any]] = []
        if version >= _BATCHED:
            request = FindCoordinatorRequest("", kind, keys)
            response = await connection.send(API, version, request)
            rows = [(row.key, row) for row in response.coordinators]
        else:
            for key in keys:
                request = FindCoordinatorRequest(key, kind)
                rows.append((key, await connection.send(API, version, request)))
        found: dict[str, int | KohortError] = {
            key: CoordinatorNotAvailableError(
                "the response does not contain it",
                api=API,
                broker=connection.name,
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                **place_of(key, kind),
            )
            for key in keys
        }
        found |= {key: self._read(key, kind, row, connection) for key, row in rows}
        return found

    def _read(
        self, key: str, kind: int, row: Any, connection: Connection
    ) -> int | KohortError:
        if row.error_code:
            return error_of(
                row.error_code,
                api=API,
                broker=connection.name,
                message=row.error_message,
                **place_of(key, kind),
            )
        node_id: int = row.node_id
        self._known[kind, key] = node_id
        self.nodes[node_id] = Node(node_id, row.host, row.port)
        return node_id


def place_of(key: str, kind: int) -> dict[str, Any]:
    """The key as an attribute of `KohortError`."""
    return {"group" if kind == GROUP else "transactional_id": key}
