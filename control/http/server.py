"""The HTTP server of a broker: its routes behind one guard; errors as JSON.

The routes of each part are in a module of their own, for example
`kohort.control.http.cluster_routes`.
"""

from __future__ import annotations

from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler

from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.control.http import cluster_routes, event_stream, why_routes
from kohort.control.http.guard import check_door, guard
from kohort.control.http.json_http import json_response
from kohort.control.http.metrics_routes import routes as metrics_routes
from kohort.control.http.timeline_routes import routes as timeline_routes
from kohort.control.metrics.metrics import Metrics
from kohort.control.terminal import host_port

MAX_BODY_BYTES = 64 * 1024
"""The longest request: bodies are a name and a number or two."""
DRAIN_SECONDS = 1.0
"""Time that requests under way have when the server stops."""

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
        app = web.Application(
            middlewares=[_answer_errors, guard(host, token)],
            client_max_size=MAX_BODY_BYTES,
        )
        app.add_routes(cluster_routes.routes(broker))
        event_stream.add_to(app, broker)
        self._metrics = Metrics(broker)
        app.add_routes(metrics_routes(self._metrics))
        app.add_routes(why_routes.routes(broker))
        app.add_routes(timeline_routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=DRAIN_SECONDS,
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
        """Accepts no more, lets answers under way out, and closes all connections."""
        self._metrics.stop()
        await self._runner.cleanup()


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
            if request.path == "/":
                text += "; /timeline is for people, /v1/cluster for programs"
        return _error(error, text)
    except web.HTTPRequestEntityTooLarge as error:
        return _error(error, f"the body is longer than {MAX_BODY_BYTES} bytes")
    except web.HTTPException as error:
        return _error(error, error.text)
    except Exception:
        log.exception("request_failed", method=request.method, path=request.path)
        return json_response(
            {"error": "that is a fault of kohort's; its log has more"}, status=500
        )


def _error(error: web.HTTPException, sentence: str | None) -> web.Response:
    kept = {
        name: error.headers[name]
        for name in ("Allow", "WWW-Authenticate")
        if name in error.headers
    }
    return json_response({"error": sentence}, status=error.status, headers=kept)
