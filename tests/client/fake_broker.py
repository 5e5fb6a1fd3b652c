"""A scripted broker: it knows ApiVersions; the test scripts all other answers."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ssl import SSLContext
from typing import Any, Self

from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatResponse
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeResponse
from kohort.protocol.apis.k18_api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.registry import API_VERSIONS, APIS, BY_KEY, BY_NAME, Api

Versions = tuple[int, int]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TOPIC_ID = bytes(range(16))
"""The id of every topic."""


class Asked:
    """A received request, and ways to answer it."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        api: Api,
        version: int,
        correlation_id: int,
        message: Any,
    ) -> None:
        self.writer = writer
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.message = message

    def frame(self, response: object) -> bytes:
        """Encodes a response."""
        tags = b"\0" if self.api.response_header_version(self.version) else b""
        body = tags + self.api.response(self.version).encode(response)
        return struct.pack(">ii", len(body) + 4, self.correlation_id) + body

    def reply(self, response: object) -> None:
        """Answers."""
        self.raw(self.frame(response))

    def raw(self, data: bytes) -> None:
        """Sends any bytes."""
        self.writer.write(data)

    def close(self) -> None:
        """Closes the connection after all is sent."""
        self.writer.close()


Answer = Callable[[Asked], None]


class FakeBroker:
    """Listens on 127.0.0.1.

    Args:
        answers: handlers of requests, by API name; other requests are only recorded.
        versions: restricted versions, by API name.
        features: the finalized features.
        tls: the context for TLS.

    Attributes:
        asked: the requests so far.
        opened: number of connections so far.
        gate: while it is not set, nothing is read.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        versions: Mapping[str, Versions] | None = None,
        features: Mapping[str, int] | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self.answers = dict(answers or {})
        self.versions = {api.name: (api.oldest, api.newest) for api in APIS}
        if versions is not None:
            self.versions = dict(versions)
        self.asked: list[Asked] = []
        self.opened = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.port = 0
        self.features = dict(features or {})
        self._tls = tls
        self._server: asyncio.Server
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        """Its address as a bootstrap server."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.gate.set()
        self.hang_up()
        await self.is_left_alone()

    def hang_up(self) -> None:
        """Closes all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def has_been_asked(self, count: int) -> None:
        """Returns when this many requests were received, without ApiVersions."""
        while len(self.asked) < count:
            await self._change()

    def of(self, api: str) -> list[Asked]:
        """The requests of an API so far."""
        return [asked for asked in self.asked if asked.api.name == api]

    async def has_got(self, api: str, count: int = 1) -> None:
        """Returns when this many requests of an API were received."""
        while len(self.of(api)) < count:
            await self._change()

    async def is_left_alone(self) -> None:
        """Returns when no connection is open."""
        while self._writers:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        self.opened += 1
        try:
            while True:
                await self.gate.wait()
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                self._take(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._changed.set()

    def _take(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        key, version, correlation_id, id_size = struct.unpack_from(">hhih", frame)
        api = BY_KEY[key]
        lowest, highest = self.versions.get(api.name, (0, -1))
        if api.key == API_VERSIONS:
            is_known = lowest <= version <= highest
            asked = Asked(writer, api, version if is_known else 0, correlation_id, None)
            code = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
            finalized = [FinalizedFeatureKey(*each) for each in self.features.items()]
            epoch = 0 if finalized else -1
            asked.reply(
                ApiVersionsResponse(code, self._rows(), 0, (), epoch, finalized)
            )
            return
        if api.name == "SaslHandshake" and api.name not in self.answers:
            # As a listener without SASL, which the client may ask.
            asked = Asked(writer, api, version, correlation_id, None)
            asked.reply(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
            return
        assert lowest <= version <= highest, f"{api.name} v{version}"
        start = 10 + max(id_size, 0)
        if api.is_flexible(version):
            start = skip_tags(frame, start)
        message, end = api.request(version).decode(frame, start, len(frame))
        assert end == len(frame)
        asked = Asked(writer, api, version, correlation_id, message)
        self.asked.append(asked)
        self._changed.set()
        answer = self.answers.get(api.name)
        if answer is not None:
            answer(asked)

    def _rows(self) -> list[ApiVersion]:
        return [
            ApiVersion(BY_NAME[name].key, *versions)
            for name, versions in self.versions.items()
        ]


def knows(*nodes: tuple[int, FakeBroker], partitions: int = 0) -> Answer:
    """Answers Metadata with these nodes, by id.

    The first is the controller, and leads this many partitions of each topic.
    """

    def answer(asked: Asked) -> None:
        rows = [MetadataResponseBroker(n, "127.0.0.1", fake.port) for n, fake in nodes]
        first = nodes[0][0]
        led = [
            MetadataResponsePartition(0, number, first, 0, [first], [first])
            for number in range(partitions)
        ]
        topics = [
            MetadataResponseTopic(0, topic.name, TOPIC_ID, False, led)
            for topic in asked.message.topics or ()
        ]
        asked.reply(MetadataResponse(0, rows, "fake", first, topics))

    return answer


def coordinates(fake: FakeBroker) -> Answer:
    """Answers FindCoordinator with node 1 for all groups, in any version."""

    def answer(asked: Asked) -> None:
        place = 1, "127.0.0.1", fake.port
        rows = [Coordinator(key, *place) for key in asked.message.coordinator_keys]
        asked.reply(FindCoordinatorResponse(0, 0, "", *place, rows))

    return answer


def alive(asked: Asked) -> None:
    """Answers Heartbeat."""
    asked.reply(HeartbeatResponse())


@contextlib.asynccontextmanager
async def alone(**options: Any) -> AsyncIterator[FakeBroker]:
    """A fake broker that is its own cluster, and coordinates all groups."""
    async with FakeBroker(**options) as fake:
        ours = {"Metadata": knows((1, fake)), "FindCoordinator": coordinates(fake)}
        fake.answers = ours | fake.answers
        yield fake


@contextlib.asynccontextmanager
async def peer(serve: Serve, tls: SSLContext | None = None) -> AsyncIterator[str]:
    """A listener that is not a broker: the address."""
    tasks: set[asyncio.Task[None]] = set()

    async def until_the_end(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(until_the_end, "127.0.0.1", 0, ssl=tls)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
