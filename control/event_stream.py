"""Events over HTTP: those that are remembered first, and then as they happen.

    GET /events?group=G            server-sent events, without end
    GET /events?follow=false       what is remembered, and then the end
    GET /events.json?group=G       the same, as one JSON object

With ``Accept: application/x-ndjson`` the first two are JSON lines, as ``--events``
writes them. Server-sent events have the id ``run:node:sequence``, and go on behind the
one that ``Last-Event-ID`` names, as browsers do by themselves.

With ``?heard=true`` there are also events of the type ``heard``, once a second: when
members were last heard of, as `kohort.control.last_heard` has it. So pages ask; like
streams of some groups theirs begin with the groups' older events, as far as they are
remembered, and without those that come with every request.

Whatever is missing is announced by an `events_lost` in its place: because it is
remembered no longer, or because the reader is too slow. A stream holds no more than
a little of its socket's buffer, and keeps nobody else waiting.

No browser lets a page of another origin read an answer that does not allow it (CORS),
and none here does. But such a page could open streams, and hold them until there are
no more for others; so what a browser asks for another page is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from kohort.broker.events.render import ns
from kohort.broker.events.views.reading import SLICE, json_of
from kohort.broker.server import Broker
from kohort.control.event_feed import Event, Feed, Place, id_of
from kohort.control.last_heard import LastHeard

KEEP_ALIVE_S: Final = 15.0
"""After so long without an event a stream says that it is there: half of what proxies
wait for, at the least."""
MOST_STREAMS: Final = 100
"""Streams at once: each is a connection, and some work with every event."""
GRACE_S: Final = 0.2
"""How long a stream that ends waits for its reader to take the rest."""
MOST_SENT: Final = 128 * 1024
"""Bytes that the system keeps for a slow reader; it would take some megabytes."""
LINGER_S: Final = 0.02
"""The pause before what comes next: no more than 50 writes a second per reader."""

RETRY_MS: Final = 1_000
"""How soon a browser is to come again where the connection is lost."""

HEARD_S: Final = 1.0
"""The pause between two samples of when members were last heard of."""

_PARAMETERS: Final = frozenset({"follow", "group", "heard", "last_event_id"})
_LINES: Final = "application/x-ndjson"


class Streams:
    """The streams that are open.

    Attributes:
        requests: what they answer, by their places.
    """

    def __init__(self) -> None:
        self.requests: dict[Place, web.Request] = {}
        self._has_ended = asyncio.Event()

    @contextlib.contextmanager
    def opened(self, place: Place, request: web.Request) -> Iterator[None]:
        """Counts one more of them.

        Raises:
            web.HTTPServiceUnavailable: there are as many as there may be.
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
        """Ends them all: who reads gets the rest, who does not is cut off."""
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
    """Ends all streams: the server stops, and would wait for them."""
    await app[STREAMS].close()


def add_to(app: web.Application, broker: Broker) -> None:
    """Lets an application answer what can be asked of a broker's events."""
    asked = _Asked(broker)
    app[STREAMS] = asked.streams
    app.on_shutdown.append(close_streams)
    # A HEAD would be a stream, too.
    app.router.add_get("/events", asked.follow, allow_head=False)
    app.router.add_get("/events.json", asked.show, allow_head=False)


class _Asked:
    """The handlers of the routes.

    Attributes:
        streams: those that are open.
    """

    def __init__(self, broker: Broker) -> None:
        self.streams = Streams()
        self._broker = broker
        self._feed = Feed(broker)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """What is remembered, as one object."""
        wanted = _Wanted(request)
        response = _response("application/json")
        events = self._broker.events
        now_ns = ns(self._broker.cluster.clock.now())
        header = {"run": events.run, "labels": events.labels, "now_ns": now_ns}
        before = b""
        with self._opened(request, wanted) as place:
            place.close()
            await response.prepare(request)
            await response.write(json_of(header)[:-1] + b',"events":[')
            async for slice_ in wanted.of(place):
                rows = b",\n".join(map(self._feed.text_of, slice_))
                await response.write(before + rows)
                before = b",\n" if rows else before
            await response.write(b"]}\n")
        return response

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """What is remembered, and what happens from then on."""
        wanted = _Wanted(request)
        is_lines = _LINES in request.headers.get("Accept", "")
        response = _response(_LINES if is_lines else "text/event-stream")
        with self._opened(request, wanted) as place:
            if not wanted.follow:
                place.close()
            await response.prepare(request)
            heard: Callable[[], bytes] | None = None
            if not is_lines:
                await response.write(b"retry: %d\n\n" % RETRY_MS)
                heard = self._last_heard(wanted) if wanted.heard else None
            async for slice_ in wanted.of(place):
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

    @contextlib.contextmanager
    def _opened(self, request: web.Request, wanted: _Wanted) -> Iterator[Place]:
        _check_asker(request)
        if request.transport is not None:
            door = request.transport.get_extra_info("socket")
            door.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_SENT)
        with (
            self._feed.open(wanted.last, wanted.history) as place,
            self.streams.opened(place, request),
            # The asker may be gone at any moment.
            contextlib.suppress(ConnectionError),
        ):
            yield place

    def _last_heard(self, wanted: _Wanted) -> Callable[[], bytes]:
        """What makes a block of who was heard of, if it is time for the next one."""
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


class _Wanted:
    """Which events a request is to be answered with.

    Args:
        request: the request.

    Attributes:
        follow: whether it is to go on with what happens.
        groups: the ids of the groups that it is about; none for everything.
        heard: whether it is to say when members were last heard of.
        last: the id of the event that it is to go on behind; anything else for none.

    Raises:
        web.HTTPBadRequest: a parameter is unknown or wrong.
    """

    def __init__(self, request: web.Request) -> None:
        unknown = request.query.keys() - _PARAMETERS
        if unknown:
            raise web.HTTPBadRequest(
                text=f"there is no parameter {min(unknown)[:100]!r}; "
                f"there are: {', '.join(sorted(_PARAMETERS))}"
            )
        self.follow = _flag(request, "follow", "true")
        self.heard = _flag(request, "heard", "false")
        self.groups = frozenset(request.query.getall("group", ()))
        self.last = request.headers.get("Last-Event-ID") or request.query.get(
            "last_event_id", ""
        )

    async def of(self, place: Place) -> AsyncIterator[list[Event]]:
        """Slices of what is wanted; an empty one if there was nothing for long."""
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
            # Others have their turn; and what comes by and by goes out together.
            await asyncio.sleep(0 if place.has_more or place.is_over else LINGER_S)

    @property
    def history(self) -> Collection[str] | None:
        """The groups whose older events are to come first, as `Feed.open` has it.

        Who asks for groups, or shows them live, wants to know how they came to be what
        they are; who asks for everything wants it without gaps.
        """
        return self.groups if self.groups or self.heard else None

    def _wants(self, event: Event) -> bool:
        groups = self.groups
        return not groups or event["group"] in groups or event["kind"] == "events_lost"


def _check_asker(request: web.Request) -> None:
    """Whether it is not a browser that asks for another origin's page.

    Raises:
        web.HTTPForbidden: it is.
    """
    headers = request.headers
    origin = headers.get("Origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != request.host
    # A link may lead here; a frame may not, as a page can have any number of those.
    if headers.get("Sec-Fetch-Dest") != "document":
        site = headers.get("Sec-Fetch-Site", "none")
        is_foreign = is_foreign or site not in {"none", "same-origin"}
    if is_foreign:
        raise web.HTTPForbidden(text="events are not for pages of other origins")


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
