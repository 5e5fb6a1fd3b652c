"""A broker by script: it knows ApiVersions, and says of the rest what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from ssl import SSLContext
from typing import Any, Self

from kohort.protocol.apis.k03_metadata import MetadataResponse, MetadataResponseBroker
from kohort.protocol.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.codegen import skip_tags
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import API_VERSIONS, APIS, BY_KEY, BY_NAME, Api

Versions = tuple[int, int]


class Asked:
    """A request that was received, and how it is answered."""

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
        """A response as it goes over the wire."""
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
        """Closes the connection once all is sent."""
        self.writer.close()


Answer = Callable[[Asked], None]


class FakeBroker:
    """Listens on 127.0.0.1.

    Args:
        answers: what is done about requests, by the API's name; others are kept
            and not answered.
        versions: those that it has in place of all, by the API's name.
        tls: for connections with TLS.

    Attributes:
        asked: the requests so far.
        opened: how many connections there have been.
        gate: while it is not set nothing is read.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        versions: Mapping[str, Versions] | None = None,
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
        """Ends all connections at once."""
        for writer in self._writers:
            writer.transport.abort()

    async def has_been_asked(self, count: int) -> None:
        """Returns when so many requests were received, ApiVersions not counted."""
        while len(self.asked) < count:
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
            asked.reply(ApiVersionsResponse(code, self._rows()))
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


def knows(fake: FakeBroker, *nodes: tuple[int, int]) -> Callable[[Asked], None]:
    """Answers Metadata with these (node id, port), or the fake alone."""

    def answer(asked: Asked) -> None:
        rows = [
            MetadataResponseBroker(node_id, "127.0.0.1", port)
            for node_id, port in nodes or [(1, fake.port)]
        ]
        asked.reply(MetadataResponse(0, rows, "fake", 1))

    return answer


@contextlib.asynccontextmanager
async def alone(**options: Any) -> AsyncIterator[FakeBroker]:
    """A fake that is a cluster of its own."""
    async with FakeBroker(**options) as fake:
        fake.answers["Metadata"] = knows(fake)
        yield fake
