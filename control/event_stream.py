"""Events over HTTP: those that are remembered first, and then as they happen.

    GET /events?group=G            server-sent events, without end
    GET /events?follow=false       what is remembered, and then the end
    GET /events.json?group=G       the same, as one JSON object

With ``Accept: application/x-ndjson`` the first two are JSON lines, as ``--events``
writes them. Server-sent events have the id ``run:node:sequence``, and go on behind the
one that ``Last-Event-ID`` names, as browsers do by themselves.

With ``?heard=true`` there are also events of the type ``heard``, once a second: when
members were last heard of, as `kohort.control.last_heard` has it.

Whatever is missing is announced by an `events_lost` in its place: because it is
remembered no longer, or because the reader is too slow. A stream holds no more than
its reader's buffer and a little of the socket's, and keeps nobody else waiting.

No browser lets a page of another origin read an answer that does not allow it (CORS),
and none here does. But such a page could open streams, and hold them until there are
no more for others; so what a browser asks for another page is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from kohort.broker.events.bus import Reader
from kohort.broker.events.views.reading import SLICE, json_of
from kohort.broker.server import Broker
from kohort.control.last_heard import LastHeard

KEEP_ALIVE_S: Final = 15.0
"""After so long without an event a stream says that it is there: half of what proxies
wait for, at the least."""
MOST_STREAMS: Final = 100
"""Streams at once: each may hold a buffer of events."""
BUFFER: Final = 10_000
"""Events that wait for a slow reader."""

HEARD_S: Final = 1.0
"""The pause between two samples of when members were last heard of."""

_PARAMETERS: Final = frozenset({"follow", "group", "heard", "last_event_id"})
_LINES: Final = "application/x-ndjson"
_ID: Final = re.compile(r"[!-~]{1,100}:[0-9]{1,10}:[0-9]{1,19}")
"""The id of an event: run, node, sequence."""
Event = Mapping[str, Any]


def routes(broker: Broker) -> list[web.RouteDef]:
    """What can be asked of a broker's events; `close_streams` goes with it."""
    asked = _Streams(broker)
    return [
        # A HEAD would be a stream, too.
        web.get("/events", asked.follow, allow_head=False),
        web.get("/events.json", asked.show, allow_head=False),
    ]


STREAMS: Final = web.AppKey("event_streams", set[Reader])
"""The readers of the streams that are open."""


async def close_streams(app: web.Application) -> None:
    """Ends all streams: the server stops, and would wait for them."""
    for reader in [*app[STREAMS]]:
        reader.close()


class _Streams:
    """The handlers of the routes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._events = broker.events

    async def show(self, request: web.Request) -> web.StreamResponse:
        """What is remembered, as one object."""
        _check_asker(request)
        wanted = _Wanted(request)
        response = _response("application/json")
        header = {"run": self._events.run, "labels": self._events.labels}
        before = b""
        # The asker may be gone at any moment.
        with (
            self._events.subscribe(past=True) as reader,
            contextlib.suppress(ConnectionResetError),
        ):
            reader.close()
            await response.prepare(request)
            await response.write(json_of(header)[:-1] + b',"events":[')
            async for events in wanted.of(reader, self._events.lost):
                if events:
                    rows = b",\n".join(map(json_of, events))
                    await response.write(before + rows)
                    before = b",\n"
            await response.write(b"]}\n")
        return response

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """What is remembered, and what happens from then on."""
        _check_asker(request)
        wanted = _Wanted(request)
        is_lines = _LINES in request.headers.get("Accept", "")
        streams = request.app[STREAMS]
        if len(streams) >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{MOST_STREAMS} streams of events are open already"
            )
        response = _response(_LINES if is_lines else "text/event-stream")
        with (
            self._events.subscribe(size=BUFFER, past=True) as reader,
            contextlib.suppress(ConnectionResetError),
        ):
            streams.add(reader)
            try:
                if not wanted.follow:
                    reader.close()
                await response.prepare(request)
                heard = self._last_heard(wanted) if wanted.heard else None
                async for events in wanted.of(reader, self._events.lost):
                    if is_lines:
                        text = b"".join(json_of(event) + b"\n" for event in events)
                    else:
                        text = _blocks(events, wanted.last)
                        text += b"" if heard is None else heard()
                    if request.transport is None:
                        break
                    if text:
                        await response.write(text)
            finally:
                streams.discard(reader)
        return response

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
        last: the id of the last event that was looked at, of any group; empty if the
            request names none that can be one.

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
        last = request.headers.get("Last-Event-ID") or request.query.get(
            "last_event_id", ""
        )
        # It is said again while nothing happens: not whatever somebody wrote.
        self.last = last if _ID.fullmatch(last) else ""

    async def of(
        self, reader: Reader, lost: Callable[[int, int, int], Event]
    ) -> AsyncIterator[list[Event]]:
        """Slices of what is wanted; an empty one if there was nothing for long."""
        patience = HEARD_S if self.heard else KEEP_ALIVE_S
        resumed = _Resumed(self.last, len(reader), lost)
        now = asyncio.get_running_loop().time
        due = now() + patience
        while True:
            try:
                await asyncio.wait_for(reader.wait(), max(0.0, due - now()))
                taken = reader.take(SLICE)
                if not taken:
                    return
            except TimeoutError:
                taken = []
            if taken:
                self.last = id_of(taken[-1])
            events = [each for event in taken for each in resumed.take(event)]
            wanted = [event for event in events if self._wants(event)]
            for first in range(0, len(wanted), SLICE):
                yield wanted[first : first + SLICE]
            if not wanted and now() >= due:
                yield []
            if wanted or now() >= due:
                due = now() + patience
            # Others have their turn.
            await asyncio.sleep(0)

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
    if headers.get("Sec-Fetch-Mode") != "navigate":
        site = headers.get("Sec-Fetch-Site", "none")
        is_foreign = is_foreign or site not in {"none", "same-origin"}
    if is_foreign:
        raise web.HTTPForbidden(text="events are not for pages of other origins")


def _flag(request: web.Request, name: str, default: str) -> bool:
    value = request.query.get(name, default)
    if value not in {"true", "false"}:
        raise web.HTTPBadRequest(text=f"{name} is true or false")
    return value == "true"


class _Resumed:
    """Finds, in what is remembered, the place behind the event that was read last.

    Args:
        last: the id of that event; empty for none.
        past: how many events are remembered.
        lost: makes the announcement of a gap, as `Events.lost`.
    """

    def __init__(
        self, last: str, past: int, lost: Callable[[int, int, int], Event]
    ) -> None:
        run, node, sequence = last.rsplit(":", 2) if last else ("", -1, 0)
        self._run = run
        self._node = int(node)
        self._sequence = int(sequence)
        self._past = past
        self._lost = lost
        # What came before that event, as long as it may not be there any more.
        self._held: list[Event] | None = []
        # By node: the next number; and of nodes that nothing is known about.
        self._next: dict[int, int] = {}
        self._first: int | None = 1

    def take(self, event: Event) -> list[Event]:
        """The events that are to be sent now that this one is there."""
        if self._held is None:
            return self._with_gap(event)
        self._past -= 1
        is_same = event["run"] == self._run and event["node"] == self._node
        if is_same and event["sequence"] >= self._sequence > 0:
            self._next[self._node] = self._sequence + 1
            self._first = None
            if event["sequence"] == self._sequence:
                # All that was held has been read, too.
                self._held = None
                return []
            self._past = 0
        self._held.append(event)
        if self._past > 0 and self._sequence:
            return []
        held, self._held = self._held, None
        return [each for row in held for each in self._with_gap(row)]

    def _with_gap(self, event: Event) -> list[Event]:
        """An event, behind the announcement of those that are missing before it."""
        node, sequence = event["node"], event["sequence"]
        expected = self._next.get(node, self._first)
        self._next[node] = sequence + 1
        # The stream's own announcement has the number of the last that is missing.
        if expected is None or sequence <= expected or event["kind"] == "events_lost":
            return [event]
        return [self._lost(node, expected, sequence - 1), event]


def id_of(event: Event) -> str:
    """The id of an event among all that there ever are."""
    return f"{event['run']}:{event['node']}:{event['sequence']}"


def _blocks(events: Iterable[Event], last: str) -> bytes:
    """Server-sent events; without any, only where the stream stands."""
    text = b"".join(
        b"id: %b\ndata: %b\n\n" % (id_of(event).encode(), json_of(event))
        for event in events
    )
    return text or (f"id: {last}\n\n".encode() if last else b":\n\n")


def _response(content_type: str) -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": content_type,
            "Cache-Control": "no-store",
            # Proxies are not to wait until there is more.
            "X-Accel-Buffering": "no",
        }
    )
