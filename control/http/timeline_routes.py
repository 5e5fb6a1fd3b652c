"""The live page, as a route of the broker's HTTP port."""

from __future__ import annotations

from aiohttp import web

PATH = "/timeline"


def routes() -> list[web.RouteDef]:
    """The route of the page, GET /timeline. The page reads /events."""
    return [web.get(PATH, _show)]


async def _show(_request: web.Request) -> web.Response:
    # Loaded by the first request: brokers start sooner.
    from kohort.control.timeline.page import live_page

    page = live_page()
    return web.Response(
        text=page.html,
        content_type="text/html",
        headers={**page.headers, "Cache-Control": "no-cache"},
    )
