"""HTTP on a port of the broker: who may ask, and how errors are answered.

What can be asked for is in modules of their own, as `kohort.control.cluster`: each
has the routes of its part. This one is the door that all of them are behind.

A browser on the same machine reaches loopback, too, and any page may make it ask.
It cannot send JSON to somebody else without asking first (CORS), which nobody here
says yes to; so whatever changes something has to be JSON. And a page cannot reach
loopback under a name of its own that it has pointed there (DNS rebinding), because
on loopback only loopback's own names are answered.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.control import cluster, event_stream
from kohort.control.answers import json_response
from kohort.control.metrics.metrics import Metrics
from kohort.control.metrics.routes import routes as metrics_routes
from kohort.control.timeline.routes import routes as timeline_routes

MAX_BODY_BYTES = 64 * 1024
"""The longest request: bodies are a name and a number or two."""
DRAIN_SECONDS = 1.0
"""Time that requests under way have when the server stops."""
READING = frozenset({"GET", "HEAD"})

log = telemetry.get_logger("control")


class ControlError(ValueError):
    """Why the server is not opened like that; one line of text."""


class Control:
    """An HTTP server that shows a broker, and changes it.

        async with Broker(nodes=3) as broker, Control(broker) as control:
            print(control.url)

    Args:
        broker: the broker, started, on the running loop.
        host: address to listen on.
        port: port to listen on; 0 for one that the system picks.
        token: what requests that change something have to bring along, as
            ``Authorization: Bearer TOKEN``; None, which is for loopback only, if
            nothing is asked of them.

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
        self._is_local = is_loopback(host)
        self._token = token
        app = web.Application(
            middlewares=[_answer_errors, self._guard], client_max_size=MAX_BODY_BYTES
        )
        app.add_routes(cluster.routes(broker))
        event_stream.add_to(app, broker)
        self._metrics = Metrics(broker)
        app.add_routes(metrics_routes(self._metrics))
        app.add_routes(_why_routes(broker))
        app.add_routes(timeline_routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=DRAIN_SECONDS,
        )

    @property
    def url(self) -> str:
        """Where it is: "http://host:port"."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

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
    async def _guard(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        named = request.headers.get("Host", "")
        if self._is_local and not is_loopback(_hostname(named)):
            raise web.HTTPForbidden(
                text=f"the host {named[:100]!r} is not this machine's loopback"
            )
        if request.method not in READING:
            if request.content_type != "application/json":
                raise web.HTTPUnsupportedMediaType(
                    text="what changes something is sent with "
                    "Content-Type: application/json"
                )
            if self._token is not None and not _has_token(request, self._token):
                raise web.HTTPUnauthorized(
                    text="what changes something needs the token that the broker "
                    "was started with, as Authorization: Bearer TOKEN",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return await handler(request)


def _why_routes(broker: Broker) -> list[web.RouteDef]:
    """Explanations: what they are made with is loaded by the first question."""

    async def explain(request: web.Request) -> web.StreamResponse:
        from kohort.control.why.routes import routes  # noqa: PLC0415 - see above

        (route,) = routes(broker)
        assert isinstance(route, web.RouteDef)  # noqa: S101 - so it is
        return await route.handler(request)

    return [web.get("/why.json", explain)]


def check_door(host: str, token: str | None) -> None:
    """Whether a server may be opened there with this token.

    Raises:
        ControlError: it may not; says why.
    """
    if token == "":
        raise ControlError("the token for HTTP is empty")
    if token is None and not is_loopback(host):
        raise ControlError(
            f"HTTP on {host or 'all addresses'} is beyond loopback, and needs a token "
            "(--http-token or KOHORT_HTTP_TOKEN)"
        )


def is_loopback(host: str) -> bool:
    """Whether a host, as a name or an address, is this machine for itself only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hostname(netloc: str) -> str:
    """The host of a Host header, without its port."""
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


def _has_token(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    # Headers are decoded with surrogates where they are no UTF-8.
    is_it = hmac.compare_digest(
        given.strip().encode(errors="surrogateescape"), token.encode()
    )
    return scheme.lower() == "bearer" and is_it


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Makes a JSON object of whatever goes wrong: {"error": a sentence}."""
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
