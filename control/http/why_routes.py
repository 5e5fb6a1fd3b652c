"""Explanations of rebalances over HTTP, from the remembered events.

GET /why.json?group=G             sentences by rebalance, and findings
GET /why.json?group=G&full=true   the output of ``kohort why --json``

A rebalance is named by its ``rebalance_started``: "run/node/sequence".
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from kohort.broker.events.render import ns
from kohort.broker.server import Broker
from kohort.control.http.json_http import json_response


def routes(broker: Broker) -> list[web.RouteDef]:
    """The routes of explanations."""

    async def explain(request: web.Request) -> web.Response:
        group = request.query.get("group")
        if group is None:
            raise web.HTTPBadRequest(text="which group? ask for /why.json?group=NAME")
        # The first question loads it: brokers start sooner.
        from kohort.control.why.history import history

        now_ns = ns(broker.cluster.clock.now())
        seen = broker.events.seen(group)
        is_full = request.query.get("full", "false") == "true"

        def explained() -> dict[str, Any]:
            found = history((each.event for each in seen), group, now_ns)
            if is_full:
                return found.as_json()
            findings = [each.as_json() for each in found.findings]
            return {"sentences": found.sentences(), "findings": findings}

        # A third of a second for 20,000 events, and the broker has other work.
        return json_response(await asyncio.to_thread(explained))

    return [web.get("/why.json", explain)]
