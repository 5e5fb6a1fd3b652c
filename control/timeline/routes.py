"""The live page, as a route of the broker's HTTP port."""

from __future__ import annotations

from aiohttp import web

PATH = "/timeline"


def routes() -> list[web.RouteDef]:
    """What the page is got by: GET /timeline. It reads /events, beside it."""
    return [web.get(PATH, _show)]


async def _show(_request: web.Request) -> web.Response:
    # What it is made with loads when it is asked for, not when a broker starts.
    from kohort.control.timeline.page import live_page  # noqa: PLC0415

    page = live_page()
    return web.Response(
        text=page.html,
        content_type="text/html",
        headers={**page.headers, "Cache-Control": "no-cache"},
    )
