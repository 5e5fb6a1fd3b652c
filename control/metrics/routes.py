"""Metrics over HTTP: ``/metrics`` for Prometheus, ``/metrics.json`` for ``kohort top``.

prometheus-client is loaded by the first request for its format: HTTP starts sooner.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from kohort.control.answers import json_response
from kohort.control.metrics.metrics import Metrics


def routes(metrics: Metrics) -> list[web.RouteDef]:
    """What can be asked of a broker's metrics."""

    async def expose(request: web.Request) -> web.Response:
        from kohort.control.metrics.prometheus import exposed  # noqa: PLC0415 - above

        snapshot = await metrics.snapshot()
        accept = request.headers.get("Accept", "")
        # Some thousand lines take a while to write, and the broker has other work.
        text, content_type = await asyncio.to_thread(exposed, snapshot, accept)
        return web.Response(
            body=text,
            headers={"Content-Type": content_type, "Cache-Control": "no-store"},
        )

    async def show(_: web.Request) -> web.Response:
        return json_response(await metrics.snapshot())

    return [web.get("/metrics", expose), web.get("/metrics.json", show)]
