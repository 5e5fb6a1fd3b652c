"""A client of a broker's HTTP port, for scenes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
from tests.broker.test_cluster import until
from tests.patience import PATIENCE_S

from kohort.broker.clock import Mode
from kohort.broker.server import Broker
from kohort.control.http.server import Control

TOKEN = "open sesame"
FAST: Mapping[str, object] = {"group.initial.rebalance.delay.ms": 0}


class Asking:
    """A client of the HTTP port.

    Attributes:
        broker: the broker that it is asking about.
        control: the server.
    """

    def __init__(
        self, broker: Broker, control: Control, session: aiohttp.ClientSession
    ) -> None:
        self.broker = broker
        self.control = control
        self._session = session

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """(status, JSON) of a GET of a path."""
        async with self._session.get(path, headers=headers) as answer:
            return answer.status, await answer.json()

    async def delete(self, path: str, **headers: str) -> tuple[int, Any]:
        """(status, JSON) of a removal, without a body, as curl sends it."""
        async with self._session.delete(path, headers=headers) as answer:
            return answer.status, await answer.json()

    async def post(
        self, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """(status, JSON) of a change; the body is bytes as they are, or JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} | headers
        async with self._session.post(
            path, data=b"" if body is None else data, headers=sent
        ) as answer:
            return answer.status, await answer.json()

    async def waits(self, count: int) -> None:
        """Returns once this many requests wait for conditions."""
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: len(self.control.polls) == count)

    async def raw(self, request: bytes) -> int:
        """The status of the answer to these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.control.port)
        writer.write(request)
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])

    async def refusal(self, path: str, body: object, status: int) -> str:
        """The sentence of a change that is refused with this status."""
        found, answer = await self.post(path, body)
        assert found == status, answer
        assert list(answer) == ["error"]
        sentence = answer["error"]
        assert isinstance(sentence, str)
        return sentence

    def is_running(self, node_id: int) -> bool:
        """True if a node's port accepts connections."""
        node = self.broker.cluster.nodes[node_id]
        with contextlib.closing(socket.socket()) as peer:
            return peer.connect_ex((node.host, node.port)) == 0

    def leader(self, topic: str, index: int) -> int:
        """The leader of a partition, as the broker has it."""
        return self.broker.cluster.topics.by_name[topic].leaders[index]


@contextlib.asynccontextmanager
async def asking(
    *,
    nodes: int = 1,
    host: str = "127.0.0.1",
    token: str | None = None,
    clock: Mode = "real",
    config: Mapping[str, object] = FAST,
    watch_fetches: bool = False,
) -> AsyncIterator[Asking]:
    """A broker with this number of nodes, with HTTP, and a client of it."""
    async with (
        Broker(config, nodes=nodes, clock=clock, watch_fetches=watch_fetches) as broker,
        Control(broker, host, token=token) as control,
        aiohttp.ClientSession(f"http://127.0.0.1:{control.port}") as session,
    ):
        yield Asking(broker, control, session)
