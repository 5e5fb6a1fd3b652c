"""Events over HTTP: first those that are remembered, then new ones as they happen.

    GET /events?group=G            server-sent events, without end
    GET /events?follow=false       the remembered events, and then the end
    GET /events.json?group=G       the same, as one JSON object

With ``Accept: application/x-ndjson`` the first two are JSON lines, as ``--events``
writes them. Server-sent events have the id ``run:node:sequence``; a stream continues
behind the event of ``Last-Event-ID``, which browsers send when they reconnect.

With ``?heard=true`` there are also events of the type ``heard``, once a second: when
members were last heard of (`kohort.control.http.last_heard`). The page uses it. Like
streams of some groups, these streams begin with the groups' older events, as far as
they are remembered, and without the events of every request. Streams of some groups
have the events of transactions with ``?transactions=true``.

An `events_lost` stands in place of events that are no longer remembered, or that a slow
reader has missed. A stream takes no memory but a part of its socket's buffer, and does
not delay others.

Browsers let a page of another origin read only responses that allow it (CORS); none
here does. Still, the page could open all streams and keep them from others. So
requests of a browser for a page of another origin are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from kohort.broker.clock import ns
from kohort.broker.events.remembered_transactions import KINDS as TRANSACTION_KINDS
from kohort.broker.events.views.reading import SLICE, json_of
from kohort.broker.server import Broker
from kohort.control.held_back import waiting
from kohort.control.http.event_feed import Event, Feed, Place, id_of
from kohort.control.http.last_heard import LastHeard

KEEP_ALIVE_S: Final = 15.0
"""Pause after which a stream without events sends a sign of life: at most half of the
time that proxies wait."""
MOST_STREAMS: Final = 100
"""Most streams at once: each is a connection, and costs a little with every event."""
GRACE_S: Final = 0.2
"""Time for readers to take the rest when the server stops."""
MOST_SENT: Final = 128 * 1024
"""Socket buffer of a stream in bytes; the system's default is some megabytes."""
LINGER_S: Final = 0.02
"""Pause between two writes: at most 50 writes a second per reader."""

RETRY_MS: Final = 1_000
"""Time after which a browser reconnects when the connection is lost."""

HEARD_S: Final = 1.0
"""Pause between two samples of the times when members were last heard of."""

_PARAMETERS: Final = frozenset(
    {"follow", "group", "heard", "last_event_id", "transactions"}
)
_LINES: Final = "application/x-ndjson"


class Streams:
    """The open streams.

    Attributes:
        requests: their requests, by place.
    """

    def __init__(self) -> None:
        self.requests: dict[Place, web.Request] = {}
        self._has_ended = asyncio.Event()

    @contextlib.contextmanager
    def opened(self, place: Place, request: web.Request) -> Iterator[None]:
        """Adds a stream.

        Raises:
            web.HTTPServiceUnavailable: `MOST_STREAMS` streams are open.
        """
        if len(self.requests) >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{MOST_STREAMS} streams of events are open already"
            )
        self.requests[place] = request
        try:
            yield
        finally:
            del self.requests[place]
            self._has_ended.set()

    async def close(self) -> None:
        """Ends all streams; readers that do not take the rest in time are cut off."""
        for place in self.requests:
            place.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while self.requests:
                    self._has_ended.clear()
                    await self._has_ended.wait()
        for request in self.requests.values():
            if request.transport is not None:
                request.transport.abort()


STREAMS: Final = web.AppKey("event_streams", Streams)


async def close_streams(app: web.Application) -> None:
    """Ends all streams; otherwise a stopping server would wait for them."""
    await app[STREAMS].close()


def add_to(app: web.Application, broker: Broker) -> None:
    """Adds the routes of a broker's events to an application."""
    handlers = _Handlers(broker)
    app[STREAMS] = handlers.streams
    app.on_shutdown.append(close_streams)
    # A HEAD would be a stream, too.
    app.router.add_get("/events", handlers.follow, allow_head=False)
    app.router.add_get("/events.json", handlers.show, allow_head=False)


class _Handlers:
    """The handlers of the routes.

    Attributes:
        streams: the open streams.
    """

    def __init__(self, broker: Broker) -> None:
        self.streams = Streams()
        self._broker = broker
        self._feed = Feed(broker)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answers with the remembered events as one object."""
        wanted = _Parameters(request)
        response = _response("application/json")
        events = self._broker.events
        now_ns = ns(self._broker.cluster.clock.now())
        header = {"run": events.run, "labels": events.labels, "now_ns": now_ns}
        if wanted.transactions:
            header["waiting"] = [
                {"topic": topic, "partition": partition, "records": records}
                for (topic, partition), records in waiting(self._broker).items()
            ]
        before = b""
        with self._opened(request, wanted) as place:
            place.close()
            await response.prepare(request)
            await response.write(json_of(header)[:-1] + b',"events":[')
            async for slice_ in wanted.slices(place):
                rows = b",\n".join(map(self._feed.text_of, slice_))
                await response.write(before + rows)
                before = b",\n" if rows else before
            await response.write(b"]}\n")
        return response

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """Streams the remembered events and then new ones."""
        wanted = _Parameters(request)
        is_lines = _LINES in request.headers.get("Accept", "")
        response = _response(_LINES if is_lines else "text/event-stream")
        async with contextlib.AsyncExitStack() as opened:
            await opened.enter_async_context(self._accounts(wanted))
            place = opened.enter_context(self._opened(request, wanted))
            if not wanted.follow:
                place.close()
            await response.prepare(request)
            heard: Callable[[], bytes] | None = None
            if not is_lines:
                await response.write(b"retry: %d\n\n" % RETRY_MS)
                heard = self._last_heard(wanted) if wanted.heard else None
            async for slice_ in wanted.slices(place):
                if is_lines:
                    text = b"".join(self._line(event) for event in slice_)
                elif slice_:
                    text = b"".join(self._block(event) for event in slice_)
                else:
                    text = (
                        b"id: %b\n\n" % place.last.encode() if place.last else b":\n\n"
                    )
                text += b"" if heard is None else heard()
                if request.transport is None:
                    break
                if text:
                    await response.write(text)
        return response

    def _line(self, event: Event) -> bytes:
        return self._feed.text_of(event) + b"\n"

    def _block(self, event: Event) -> bytes:
        text = self._feed.text_of(event)
        return b"id: %b\ndata: %b\n\n" % (id_of(event).encode(), text)

    @contextlib.asynccontextmanager
    async def _accounts(self, wanted: _Parameters) -> AsyncIterator[None]:
        """Has the accounts of rebalances published while a stream follows.

        Those of remembered events come first: in a full stream they take the places of
        its oldest events, which the reader would miss.
        """
        events = self._broker.events
        if wanted.follow:
            events.hold_accounts()
            await events.accounts_made()
        try:
            yield
        finally:
            if wanted.follow:
                events.release_accounts()

    @contextlib.contextmanager
    def _opened(self, request: web.Request, wanted: _Parameters) -> Iterator[Place]:
        _check_origin(request)
        if request.transport is not None:
            door = request.transport.get_extra_info("socket")
            door.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_SENT)
        with (
            self._feed.open(
                wanted.last, wanted.history, transactions=wanted.transactions
            ) as place,
            self.streams.opened(place, request),
            # The reader may disconnect at any moment.
            contextlib.suppress(ConnectionError),
        ):
            yield place

    def _last_heard(self, wanted: _Parameters) -> Callable[[], bytes]:
        """Returns a function that makes the next ``heard`` block when it is due."""
        samples = LastHeard(self._broker.cluster, wanted.groups)
        now = asyncio.get_running_loop().time
        last = -HEARD_S

        def block() -> bytes:
            nonlocal last
            if now() - last < HEARD_S:
                return b""
            last = now()
            return b"event: heard\ndata: %b\n\n" % json_of(samples.sample())

        return block


class _Parameters:
    """The parameters of a request for events.

    Args:
        request: the request.

    Attributes:
        follow: whether new events follow the remembered ones.
        groups: the ids of the wanted groups; empty for all events.
        heard: whether to send the times when members were last heard of.
        last: the id of the event to continue behind; any other text for none.
        transactions: whether events of transactions are wanted with those of groups.

    Raises:
        web.HTTPBadRequest: a parameter is unknown or wrong.
    """

    def __init__(self, request: web.Request) -> None:
        unknown = request.query.keys() - _PARAMETERS
        if unknown:
            raise web.HTTPBadRequest(
                text=f"unknown parameter {min(unknown)[:100]!r}; "
                f"the parameters are: {', '.join(sorted(_PARAMETERS))}"
            )
        self.follow = _flag(request, "follow", "true")
        self.heard = _flag(request, "heard", "false")
        self.groups = frozenset(request.query.getall("group", ()))
        self.transactions = _flag(request, "transactions", "false")
        self.last = request.headers.get("Last-Event-ID") or request.query.get(
            "last_event_id", ""
        )

    async def slices(self, place: Place) -> AsyncIterator[list[Event]]:
        """Yields slices of the wanted events; an empty slice as a keep-alive."""
        patience = HEARD_S if self.heard else KEEP_ALIVE_S
        now = asyncio.get_running_loop().time
        due = now() + patience
        while not place.is_over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - now())):
                    await place.wait()
            wanted = [event for event in place.take(SLICE) if self._wants(event)]
            if wanted or now() >= due:
                yield wanted
                due = now() + patience
            # Lets others run, and collects events that follow closely.
            await asyncio.sleep(0 if place.has_more or place.is_over else LINGER_S)

    @property
    def history(self) -> Collection[str] | None:
        """The groups whose older events come first, as in `Feed.open`.

        A reader of some groups, or a live page, needs their history; a reader of all
        events needs them without gaps.
        """
        return self.groups if self.groups or self.heard else None

    def _wants(self, event: Event) -> bool:
        groups = self.groups
        return (
            not groups
            or event["group"] in groups
            or event["kind"] == "events_lost"
            or (self.transactions and event["kind"] in TRANSACTION_KINDS)
        )


def _check_origin(request: web.Request) -> None:
    """Refuses requests that a browser sends for a page of another origin.

    Raises:
        web.HTTPForbidden: this is one.
    """
    headers = request.headers
    origin = headers.get("Origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != request.host
    # A link may lead here; a frame may not, as a page can have any number of those.
    if headers.get("Sec-Fetch-Dest") != "document":
        site = headers.get("Sec-Fetch-Site", "none")
        is_foreign = is_foreign or site not in {"none", "same-origin"}
    if is_foreign:
        raise web.HTTPForbidden(text="pages of other origins cannot read events")


def _flag(request: web.Request, name: str, default: str) -> bool:
    value = request.query.get(name, default)
    if value not in {"true", "false"}:
        raise web.HTTPBadRequest(text=f"{name} is true or false")
    return value == "true"


def _response(content_type: str) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": content_type,
            "Cache-Control": "no-store",
            # Proxies are not to wait until there is more.
            "X-Accel-Buffering": "no",
        }
    )
