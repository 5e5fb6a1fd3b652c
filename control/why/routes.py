"""Explanations over HTTP, of what the broker remembers.

GET /why.json?group=G             sentences, by the event a rebalance began with
GET /why.json?group=G&full=true   all that ``kohort why --json`` prints
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from kohort.broker.events.render import ns
from kohort.broker.server import Broker
from kohort.control.answers import json_response
from kohort.control.why.history import history


def routes(broker: Broker) -> list[web.RouteDef]:
    """What can be asked about the causes of rebalances."""

    async def explain(request: web.Request) -> web.Response:
        group = request.query.get("group")
        if group is None:
            raise web.HTTPBadRequest(text="which group? ask for /why.json?group=NAME")
        now_ns = ns(broker.cluster.clock.now())
        events = broker.events.recent(group)
        is_full = request.query.get("full", "false") == "true"

        def told() -> dict[str, Any]:
            found = history(events, group, now_ns)
            return found.as_json() if is_full else found.sentences()

        # A third of a second for 20,000 events, and the broker has other work.
        return json_response(await asyncio.to_thread(told))

    return [web.get("/why.json", explain)]
