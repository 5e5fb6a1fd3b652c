"""Connections of scenarios: pipelined, without retries.

A response is returned as it was received, whatever its contents.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from tests.conformance import kio_codec
from tests.patience import PATIENCE_S
from tests.wire import frames

from kohort.protocol.generated_calls import skip_tags


@dataclass
class Outcome:
    """The end of a request: status is reply, closed, timeout or undecodable."""

    status: str
    body: dict[str, Any] | None = None
    detail: str = ""
    elapsed: float = 0.0

    @property
    def ok(self) -> bool:
        """True if a response came."""
        return self.status == "reply"

    def __getitem__(self, key: str) -> Any:
        if self.body is None:
            raise ScenarioError(f"expected a response, got {self.status} {self.detail}")
        return self.body[key]


class ScenarioError(Exception):
    """A scenario cannot go on because the broker did something unexpected."""


class Call:
    """A request in flight."""

    def __init__(self, api: str, version: int) -> None:
        self.api = api
        self.version = version
        self.sent_at = asyncio.get_running_loop().time()
        self.future: asyncio.Future[Outcome] = (
            asyncio.get_running_loop().create_future()
        )

    @property
    def done(self) -> bool:
        """True if it ended."""
        return self.future.done()

    def finish(self, status: str, body: Any = None, detail: str = "") -> None:
        """Ends it, unless it has ended."""
        if not self.future.done():
            elapsed = asyncio.get_running_loop().time() - self.sent_at
            self.future.set_result(Outcome(status, body, detail, elapsed))

    async def wait(self, timeout: float = PATIENCE_S) -> Outcome:
        """Waits until it ends; an outcome `timeout` leaves it in flight."""
        try:
            return await asyncio.wait_for(asyncio.shield(self.future), timeout)
        except TimeoutError:
            now = asyncio.get_running_loop().time()
            return Outcome("timeout", elapsed=now - self.sent_at)


class Connection:
    """One TCP connection; requests may be pipelined."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self._next_correlation = 1
        self._calls: dict[int, Call] = {}
        self._unclaimed: list[bytes] = []
        self._held: list[bytes] | None = None
        self._closed = asyncio.Event()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._task: asyncio.Task[None]

    @classmethod
    async def open(
        cls, host: str, port: int, client_id: str | None = None
    ) -> Connection:
        """Connects."""
        self = cls(client_id)
        self._reader, self._writer = await asyncio.wait_for(
            asyncio.open_connection(host, port), PATIENCE_S
        )
        self._task = asyncio.create_task(self._receive())
        return self

    # -- sending

    async def send(
        self, api: str, version: int, fields: dict[str, Any], **header: Any
    ) -> Call:
        """Sends one request and returns without waiting for its response."""
        return await self.send_body(
            api, version, kio_codec.encode_body(api, version, fields), **header
        )

    async def send_body(
        self,
        api: str,
        version: int,
        body: bytes,
        *,
        header_version: int | None = None,
        client_id: Any = ...,
        tags: dict[int, bytes] | None = None,
        wire_version: int | None = None,
        wire_key: int | None = None,
    ) -> Call:
        """Sends a ready-made body.

        `wire_key` and `wire_version` replace the key and version in the header;
        the response is decoded by `api` and `version`.
        """
        if header_version is None:
            header_version = kio_codec.request_header_version(api, version)
        correlation_id, call = self.expect(api, version)
        header = frames.header(
            kio_codec.api_key(api) if wire_key is None else wire_key,
            version if wire_version is None else wire_version,
            correlation_id,
            self.client_id if client_id is ... else client_id,
            header_version,
            tags,
        )
        if self._closed.is_set():
            call.finish("closed")
        else:
            await self.send_raw(frames.frame(header + body))
        return call

    def expect(self, api: str, version: int) -> tuple[int, Call]:
        """Reserves a correlation id for a request that is sent as raw bytes."""
        correlation_id = self._next_correlation
        self._next_correlation += 1
        call = self._calls[correlation_id] = Call(api, version)
        return correlation_id, call

    async def send_raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        if self._held is not None:
            self._held.append(data)
            return
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, OSError):
            pass  # the reading side reports the close

    def hold(self) -> None:
        """Buffers all requests from now on until `release`."""
        self._held = []

    def release(self) -> None:
        """Sends the buffered bytes, without giving other tasks a turn."""
        held, self._held = self._held, None
        if held and not self._writer.is_closing():
            self._writer.write(b"".join(held))

    async def half_close(self) -> None:
        """Sends the end of the stream."""
        self._writer.write_eof()

    # -- receiving

    async def _receive(self) -> None:
        try:
            while True:
                size = frames.size_of(await self._reader.readexactly(4))
                self.received(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            self.lost()
            self._writer.close()

    def received(self, payload: bytes) -> None:
        """Takes a response without its size: the end of its request."""
        correlation_id = frames.correlation_id_of(payload)
        call = self._calls.pop(correlation_id, None)
        if call is None:
            self._unclaimed.append(payload)
            return
        try:
            offset = 4
            if kio_codec.response_header_version(call.api, call.version) >= 1:
                offset = skip_tags(payload, offset)
            body = kio_codec.decode_body(call.api, call.version, payload[offset:])
        except Exception as exc:
            detail = f"{type(exc).__name__}: {exc} in {payload[:200].hex()}"
            call.finish("undecodable", detail=detail)
        else:
            call.finish("reply", body)

    def lost(self) -> None:
        """Takes the end of the connection, which ends all requests."""
        self._closed.set()
        for call in self._calls.values():
            call.finish("closed")

    @property
    def is_closed(self) -> bool:
        """True if either end has closed it."""
        return self._closed.is_set()

    async def wait_closed(self, timeout: float) -> bool:
        """Returns whether the broker closes the connection in time."""
        try:
            await asyncio.wait_for(self._closed.wait(), timeout)
        except TimeoutError:
            return False
        return True

    @property
    def unclaimed(self) -> list[bytes]:
        """Frames with an unknown correlation id."""
        return self._unclaimed

    async def close(self) -> None:
        """Closes the connection from this side."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._writer.close()
