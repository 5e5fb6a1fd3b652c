"""Requests to a cluster that is killed and moved: repeated until one is answered.

Kohort's own producer and consumer are not used: their retries could hide a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from tests.long_runs import RunError
from tests.patience import PATIENCE_S

from kohort.client.config import CommonConfig
from kohort.client.errors import KohortError
from kohort.client.network.connection import Connection
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.errors import ErrorCode

Answer = TypeVar("Answer")
Address = tuple[str, int]

GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.003, 0.1
ELSEWHERE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
}
"""Errors after which leaders and coordinators are looked up again."""
LATER = ELSEWHERE | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
"""Errors after which a request is repeated."""


class LaterError(Exception):
    """The request is to be repeated."""


class RefusedError(RunError):
    """An error that a repetition would not change."""

    def __init__(self, api_name: str, code: int) -> None:
        super().__init__(f"{api_name}: {ErrorCode(code).name}")
        self.code = code


class GaveUpError(RunError):
    """No answer within PATIENCE_S."""


class Wire:
    """The connections of one client, one to each node.

    Args:
        name: the client id.
        bootstrap: addresses of nodes.
    """

    def __init__(self, name: str, bootstrap: Sequence[Address]) -> None:
        self.name = name
        self._config = CommonConfig(client_id=name)
        self._bootstrap = bootstrap
        self._addresses: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._coordinators: dict[tuple[str, int], Any] = {}

    async def close(self) -> None:
        """Closes all connections; a further call opens new ones."""
        for connection in self._connections.values():
            connection.abort()
            await connection.wait_closed()
        self._connections.clear()
        self._leaders.clear()
        self._coordinators.clear()

    async def until(self, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeats a request until it is answered.

        Raises:
            GaveUpError: not within PATIENCE_S.
            RefusedError: from `ask`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except LaterError as later:
                if loop.time() > deadline:
                    raise GaveUpError(f"{self.name}: {what}: {later}") from None
            await asyncio.sleep(pause)  # nothing announces that a broker is ready
            pause = min(LONGEST_PAUSE_S, pause * 2)

    def check(self, api_name: str, code: int) -> None:
        """Returns if there is no error.

        Raises:
            LaterError: for one after which the request is to be repeated.
            RefusedError: for another one.
        """
        if code == ErrorCode.NONE:
            return
        if code in ELSEWHERE:
            self._leaders.clear()
            self._coordinators.clear()
        if code in LATER:
            raise LaterError(ErrorCode(code).name)
        raise RefusedError(api_name, code)

    async def call(
        self, address: Address, api_name: str, version: int, message: object
    ) -> Any:
        """Sends a request once, and returns its response.

        Raises:
            LaterError: there is none.
        """
        try:
            connection = await self._connection(address)
            return await connection.send(api_name, version, message)
        except KohortError as error:
            self._leaders.clear()
            self._coordinators.clear()
            raise LaterError(str(error)) from None

    async def _connection(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is None or not known.is_open:
                known = await Connection.open(self._config, *address)
                self._connections[address] = known
            return known

    async def anyone(self, api_name: str, version: int, message: object) -> Any:
        """The response of the first node that answers."""
        for address in self._bootstrap[:-1]:
            try:
                return await self.call(address, api_name, version, message)
            except LaterError:
                continue
        return await self.call(self._bootstrap[-1], api_name, version, message)

    async def leader(self, topic: str, partition: int) -> Address:
        """The address of a partition's leader.

        Raises:
            LaterError: it is not known.
        """
        if (topic, partition) not in self._leaders:
            request = MetadataRequest([MetadataRequestTopic(name=topic)])
            answer = await self.anyone("Metadata", 9, request)
            self._addresses = {
                each.node_id: (each.host, each.port) for each in answer.brokers
            }
            (about,) = answer.topics
            self.check("Metadata", about.error_code)
            for each in about.partitions:
                if each.leader_id in self._addresses:
                    self._leaders[topic, each.partition_index] = each.leader_id
        leader = self._leaders.get((topic, partition))
        if leader is None:
            raise LaterError(f"{topic}-{partition} has no leader")
        return self._addresses[leader]

    async def coordinated(
        self, kind: int, key: str, api_name: str, version: int, message: object
    ) -> Any:
        """Sends a request once, to the coordinator of a group or a transactional id.

        Raises:
            LaterError: it is not known, or does not answer.
        """
        found = await self.coordinator(kind, key)
        address = found.host, found.port
        return await self.call(address, api_name, version, message)

    async def coordinator(self, kind: int, key: str) -> Any:
        """The response to FindCoordinator, or the last one.

        Raises:
            LaterError: there is no coordinator yet.
        """
        found = self._coordinators.get((key, kind))
        if found is None:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            found = await self.anyone("FindCoordinator", 3, request)
            self.check("FindCoordinator", found.error_code)
            self._coordinators[key, kind] = found
        return found

    def forget_coordinators(self) -> None:
        """Looks them up again."""
        self._coordinators.clear()
