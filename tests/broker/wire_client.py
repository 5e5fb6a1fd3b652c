"""A client that speaks messages: it neither retries nor judges."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any

from kohort.broker.server import Broker
from kohort.protocol.codegen import skip_tags
from kohort.protocol.registry import BY_NAME

CLIENT_ID = "wire-client"


class WireClient:
    """One connection.

    Args:
        reader: of the connection.
        writer: of the connection.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
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
        """Sends a request; `response` takes the answers in this order."""
        api = BY_NAME[api_name]
        self._correlation_id += 1
        client_id = CLIENT_ID.encode()
        head = struct.pack(
            ">hhih", api.key, version, self._correlation_id, len(client_id)
        )
        tags = b"\0" if api.is_flexible(version) else b""
        frame = head + client_id + tags + api.request(version).encode(message)
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        await self._writer.drain()

    async def response(self, api_name: str, version: int) -> Any:
        """The next response, which has to be whole and of that API and version."""
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(size)
        api = BY_NAME[api_name]
        start = 4
        if api.response_header_version(version) >= 1:
            start = skip_tags(frame, start)
        message, end = api.response(version).decode(frame, start, size)
        assert end == size, f"{size - end} bytes behind the response"
        return message


@contextlib.asynccontextmanager
async def connected(
    broker: Broker, node_id: int | None = None
) -> AsyncIterator[WireClient]:
    """A connection to one of the broker's nodes: the first unless told otherwise."""
    nodes = broker.cluster.nodes
    node = nodes[min(nodes) if node_id is None else node_id]
    async with connected_to(broker.host, node.port) as client:
        yield client


@contextlib.asynccontextmanager
async def connected_to(host: str, port: int) -> AsyncIterator[WireClient]:
    """A connection to whoever listens there."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield WireClient(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(**config: object) -> AsyncIterator[WireClient]:
    """A broker of its own and a connection to it; keys with ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with Broker(settings) as broker, connected(broker) as client:
        yield client
