"""Metrics over HTTP: ``/metrics`` for Prometheus, ``/metrics.json`` for programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeVar

from aiohttp import web

from kohort.control.http.json_http import json_response
from kohort.control.metrics.metrics import Metrics, Snapshot

PLAIN: Final = "text/plain"
OPEN_METRICS: Final = "application/openmetrics-text"

T = TypeVar("T")


def routes(metrics: Metrics) -> list[web.RouteDef]:
    """The routes of a broker's metrics."""

    async def text(format_: str) -> tuple[bytes, str]:
        snapshot = await metrics.snapshot()
        # Some thousand lines take a while to write, and the broker has other work.
        return await asyncio.to_thread(_written, snapshot, format_)

    texts = {kind: Shared(partial(text, kind)) for kind in (PLAIN, OPEN_METRICS)}
    snapshots: Shared[Snapshot] = Shared(metrics.snapshot)

    async def expose(request: web.Request) -> web.Response:
        accept = ",".join(request.headers.getall("Accept", []))
        body, content_type = await texts[chosen_format(accept)].get()
        return web.Response(
            body=body,
            headers={"Content-Type": content_type, "Cache-Control": "no-store"},
        )

    async def show(_: web.Request) -> web.Response:
        return json_response(await snapshots.get())

    return [web.get("/metrics", expose), web.get("/metrics.json", show)]


def _written(snapshot: Snapshot, format_: str) -> tuple[bytes, str]:
    """A snapshot as text; loads the Prometheus library on first use."""
    from kohort.control.metrics.prometheus import exposed

    return exposed(snapshot, format_)


def chosen_format(accept: str) -> str:
    """Chooses the format of a response: Prometheus' own, or OpenMetrics.

    Args:
        accept: the Accept header of the request (RFC 9110, 12.5.1).

    Returns:
        `OPEN_METRICS` if that is named, and not less wanted than `PLAIN`.
    """
    wanted = {PLAIN: 0.0, OPEN_METRICS: 0.0}
    for part in accept.split(","):
        kind, *parameters = (each.strip().lower() for each in part.split(";"))
        weight = 1.0
        for each in parameters:
            if each.startswith("q="):
                with contextlib.suppress(ValueError):
                    weight = float(each.removeprefix("q="))
        if kind in wanted:
            wanted[kind] = max(wanted[kind], weight)
    return OPEN_METRICS if wanted[OPEN_METRICS] >= (wanted[PLAIN] or 1e-9) else PLAIN


class Shared(Generic[T]):
    """Makes a value, once for all callers before it is begun, and one at a time.

    So a hundred scrapes at once cost as much as two, and each sees all events before
    its request.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """A value that is computed after the call, never an older one."""
        if self._next is None:
            self._next = asyncio.create_task(self._run())
        # A reader that is cancelled does not cancel it for the others.
        return await asyncio.shield(self._next)

    async def _run(self) -> T:
        async with self._lock:
            self._next = None
            return await self._make()
