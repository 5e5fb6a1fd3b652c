"""A stream of events that the test writes, behind the live page.

For states that a broker does not produce on demand: a clock that stands still, a gap,
a later version.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import Any, Self

from aiohttp import web
from tests.patience import PATIENCE_S
from tests.timeline.streams import Event

from kohort.broker.thread import LoopThread
from kohort.control.http.timeline_routes import routes


class Scripted:
    """Serves the page, and the test's events to all of its readers.

    Attributes:
        url: the address of the timeline.
        findings: those that the page is answered for each group.
    """

    def __init__(self) -> None:
        self._thread = LoopThread(contextlib.nullcontext())
        self._readers: list[asyncio.Queue[bytes | None]] = []
        self._said: list[bytes] = []
        self.findings: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop())
        self._thread.stop()

    def say(self, *events: Event) -> None:
        """These happen now."""
        for event in events:
            self._do(self._put(f"data: {json.dumps(event)}\n\n".encode()))

    def heard(self, time_ns: int, *members: tuple[str, str, int]) -> None:
        """The broker's time, and when these members were heard of last."""
        told = json.dumps({"time_ns": time_ns, "members": members})
        self._do(self._put(f"event: heard\ndata: {told}\n\n".encode()))

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        self._thread.submit(what).result(PATIENCE_S)

    async def _put(self, block: bytes) -> None:
        self._said.append(block)
        for reader in self._readers:
            reader.put_nowait(block)

    async def _start(self) -> None:
        app = web.Application()
        app.add_routes([*routes(), web.get("/events", self._follow)])
        app.router.add_get("/why.json", self._why)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/timeline"

    async def _stop(self) -> None:
        for reader in self._readers:
            reader.put_nowait(None)
        await self._runner.cleanup()

    async def _why(self, _: web.Request) -> web.Response:
        return web.json_response({"findings": self.findings})

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        reader: asyncio.Queue[bytes | None] = asyncio.Queue()
        for block in self._said:
            reader.put_nowait(block)
        self._readers.append(reader)
        while (said := await reader.get()) is not None:
            await response.write(said)
        return response
