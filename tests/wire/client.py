"""An asyncio client that sends messages and bytes, without retries or checks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.wire import frames

from kohort.broker.server import Broker
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest


class WireClient:
    """One connection.

    Args:
        reader: of the connection.
        writer: of the connection.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    async def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request and waits for its response.

        Args:
            api_name: Kafka's name of the API, as in ``CreateTopics``.
            version: of the request.
            message: the request, of that API's `request_class`.

        Returns:
            The response, of the API's `response_class`.
        """
        await self.send(api_name, version, message)
        return await self.response(api_name, version)

    async def send(self, api_name: str, version: int, message: object) -> None:
        """Sends a request; `response` returns the responses in this order."""
        self._correlation_id += 1
        data = frames.request(api_name, version, message, self._correlation_id)
        self.writer.write(data)
        await self.writer.drain()

    async def response(self, api_name: str, version: int) -> Any:
        """Returns the next response, which must be whole, of that API and version."""
        return frames.response(api_name, version, await self.next_frame())

    async def next_frame(self) -> bytes:
        """The next response without its size."""
        size = frames.size_of(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def next_correlation_id(self) -> int:
        """The correlation id of the next response."""
        return frames.correlation_id_of(await self.next_frame())

    async def is_served(self) -> None:
        """Sends a request, and checks that its response comes next."""
        data = frames.request("ApiVersions", 3, ApiVersionsRequest("tests", "1"), 77)
        self.writer.write(data)
        assert await self.next_correlation_id() == 77

    async def is_closed(self) -> None:
        """Waits for the end of the stream, with no byte before it."""
        with contextlib.suppress(ConnectionError):
            assert await self.reader.read() == b""


@contextlib.asynccontextmanager
async def connected(
    broker: Broker, node_id: int | None = None
) -> AsyncIterator[WireClient]:
    """A connection to a node of the broker, by default to the first one."""
    port = broker.port if node_id is None else broker.cluster.nodes[node_id].port
    async with connected_to(broker.host, port) as client:
        yield client


@contextlib.asynccontextmanager
async def connections(broker: Broker, count: int) -> AsyncIterator[list[WireClient]]:
    """Several connections to the broker's first node."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(broker)) for _ in range(count)]


@contextlib.asynccontextmanager
async def connected_to(host: str, port: int) -> AsyncIterator[WireClient]:
    """A connection to an address."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield WireClient(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(**config: object) -> AsyncIterator[WireClient]:
    """A new broker and a connection to it; keys have ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with Broker(settings) as broker, connected(broker) as client:
        yield client
