"""The HTTP server of a broker: its routes behind one guard; errors as JSON.

The routes of each part are in a separate module, for example
`kohort.control.http.cluster_routes`.
"""

from __future__ import annotations

from typing import Final, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.control.http import (
    clock_routes,
    cluster_routes,
    event_stream,
    fault_routes,
    group_routes,
    transaction_routes,
    why_routes,
)
from kohort.control.http.foreign import ServerLog
from kohort.control.http.guard import check_door, guard
from kohort.control.http.json_http import json_response
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.metrics_routes import routes as metrics_routes
from kohort.control.http.openapi import describing
from kohort.control.http.timeline_routes import PATH as TIMELINE
from kohort.control.http.timeline_routes import routes as timeline_routes
from kohort.control.metrics.metrics import Metrics
from kohort.control.terminal import host_port

MAX_BODY_BYTES = 64 * 1024
"""The longest request: bodies are a name and a number or two."""
MOST_URL_BYTES = 128 * 1024
"""The longest URL: five texts of `MOST_CHARACTERS`, of up to 12 bytes a character."""
DRAIN_SECONDS = 1.0
"""Time that requests under way have when the server stops."""

_START: Final = f"""\
{TIMELINE}          the groups of this broker, in a browser
/why.json?group=G  why a group rebalanced
/v1/groups         groups as JSON
/metrics           metrics for Prometheus
/v1/openapi.json   all other requests
"""
"""The pages that a user of ``GET /`` looks for."""

log = telemetry.Logger("control")


class Control:
    """An HTTP server that shows a broker, and changes it.

        async with Broker(nodes=3) as broker, Control(broker) as control:
            print(control.url)

    Args:
        broker: the broker, started, on the running loop.
        host: address to listen on.
        port: port to listen on; 0 for one that the system picks.
        token: required from requests that change something, as ``Authorization: Bearer
            TOKEN``; None, on loopback only, for no token.

    Attributes:
        app: its routes.
        polls: the requests that wait for conditions.

    Raises:
        ControlError: from the constructor; beyond loopback there is no token.
        OSError: from `start`; the address cannot be listened on.
    """

    def __init__(
        self,
        broker: Broker,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
    ) -> None:
        check_door(host, token)
        self.host = host
        self.port = port
        self.app = app = web.Application(
            middlewares=[_answer_errors, guard(host, token)],
            client_max_size=MAX_BODY_BYTES,
        )
        self.polls = LongPolls()
        app.on_shutdown.append(self.polls.close)
        operations = [
            *cluster_routes.operations(broker),
            *group_routes.operations(broker, self.polls),
            *clock_routes.operations(broker),
            *fault_routes.operations(broker),
            *transaction_routes.operations(broker, self.polls),
            *why_routes.operations(broker),
        ]
        operations.append(describing(operations, has_token=token is not None))
        app.add_routes(each.route() for each in operations)
        event_stream.add_to(app, broker)
        self._metrics = Metrics(broker)
        app.add_routes(metrics_routes(self._metrics))
        app.add_routes([*timeline_routes(), web.get("/", _show_start)])
        self._runner = web.AppRunner(
            app,
            access_log=None,
            max_line_size=MOST_URL_BYTES,
            handle_signals=False,
            shutdown_timeout=DRAIN_SECONDS,
            logger=ServerLog(broker),
            # A client that goes waits for nothing any more.
            handler_cancellation=True,
        )

    @property
    def url(self) -> str:
        """The URL of the server: "http://host:port"."""
        return f"http://{host_port(self.host, self.port)}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; when it returns, requests are answered."""
        await self._runner.setup()
        self._metrics.start()
        try:
            # Two servers on one port would share its connections without a word.
            await web.TCPSite(
                self._runner, self.host, self.port, reuse_port=False
            ).start()
        except BaseException:
            await self.stop()
            raise
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stops listening, finishes started responses, and closes all connections."""
        self._metrics.stop()
        await self._runner.cleanup()


async def _show_start(_request: web.Request) -> web.Response:
    """Leads a browser to the timeline page; its text names the other pages."""
    return web.Response(status=302, headers={"Location": TIMELINE}, text=_START)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers errors as a JSON object: {"error": a sentence}."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return _error(error, f"{request.path} takes {allowed}, not {request.method}")
    except web.HTTPNotFound as error:
        text = error.text
        if text == web.HTTPNotFound().text:  # the router's, which names no path
            text = f"there is no {request.path}"
        return _error(error, text)
    except web.HTTPRequestEntityTooLarge as error:
        return _error(error, f"the body is longer than {MAX_BODY_BYTES} bytes")
    except web.HTTPException as error:
        return _error(error, error.text)
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return json_response(
            {"error": "internal error in kohort; see its log"}, status=500
        )


def _error(error: web.HTTPException, sentence: str | None) -> web.Response:
    kept = {
        name: error.headers[name]
        for name in ("Allow", "WWW-Authenticate")
        if name in error.headers
    }
    return json_response({"error": sentence}, status=error.status, headers=kept)
