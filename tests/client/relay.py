"""A relay between clients and a broker, with TLS or broken connections."""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import Self

PRODUCE = 0
_CHUNK = 65_536


class Relay:
    """Takes connections and passes their bytes on.

    Args:
        context: for TLS with the clients; None for plaintext.

    Attributes:
        target: the broker's port.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.target = 0
        self._context = context
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Its address."""
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._context
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, requests: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        responses, to_broker = await asyncio.open_connection("127.0.0.1", self.target)
        broken = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.pass_requests(requests, to_broker, broken))
                group.create_task(self.pass_responses(responses, to_client, broken))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            to_client.transport.abort()
            to_broker.transport.abort()
            self._tasks.discard(task)

    async def pass_requests(
        self,
        requests: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        broken: asyncio.Event,
    ) -> None:
        """Relays requests; sets `broken` after the last."""
        while data := await requests.read(_CHUNK):
            to_broker.write(data)
            await to_broker.drain()
        raise ConnectionResetError

    async def pass_responses(
        self,
        responses: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        broken: asyncio.Event,
    ) -> None:
        """Relays responses until the connection is broken."""
        while (data := await responses.read(_CHUNK)) and not broken.is_set():
            to_client.write(data)
            await to_client.drain()
        raise ConnectionResetError


class LossyRelay(Relay):
    """Ends a connection in place of the response to every nth Produce request.

    So the client cannot know whether the records were written.

    Args:
        every: the n.

    Attributes:
        lost: responses that were lost.
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self.lost = 0
        self._every = every
        self._seen = 0

    async def pass_requests(
        self,
        requests: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
        broken: asyncio.Event,
    ) -> None:
        """Relays requests one by one."""
        while True:
            head = await requests.readexactly(6)
            size, key = struct.unpack(">ih", head)
            to_broker.write(head + await requests.readexactly(size - 2))
            if key == PRODUCE:
                self._seen += 1
                if self._seen % self._every == 0:
                    self.lost += 1
                    broken.set()
