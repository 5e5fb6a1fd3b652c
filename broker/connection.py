"""One client connection: bytes to frames to requests, and responses in order.

Requests of a connection are handled one at a time, as in Kafka: while one waits (a
JoinGroup, a Fetch), later requests stay in the receive buffer and, beyond `READ_AHEAD`
bytes, in the client's: see `flow_control` for back-pressure.

1. The event loop calls `data_received`: the `Framer` cuts the bytes into frames. From
   the first long one on, `LongReads` reads, and calls `bytes_placed`.
2. `_handle_only` handles a frame that came alone, and none is before it. Otherwise
   `_handle_frames` handles frames until a request has to wait, the client lags behind,
   or the connection has used up its turn (`TURN`). In the last case it goes on in the
   next turn of the event loop.
3. `_handle` reads the header, finds the route (`dispatch`) and calls its handler. A
   handler with much work returns a generator, which `long_work` runs.
4. The request is answered through `send`, at once or much later. Responses of one turn
   go out in one write (`_flush`), and the next request is handled.
5. The connection ends when the client closes it (`eof_received`, `connection_lost`), on
   an error (`fail`), or when the server stops (`close`, `abort`).
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections import deque
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, cast

from kohort.broker import telemetry, transports
from kohort.broker.cluster.cluster import Node
from kohort.broker.descriptors import admission
from kohort.broker.dispatch import (
    ROUTES,
    BodyError,
    Route,
    UnknownApiError,
    checked,
    versions_refusal,
)
from kohort.broker.flow_control import WRITE_BUFFER, FlowControl
from kohort.broker.foreign import protocol_of
from kohort.broker.long_reads import LongReads
from kohort.broker.long_work import DONE, Piecework, Work
from kohort.broker.notice import Client
from kohort.broker.request import JOIN_BELOW, AnswerSizeError, Request, join_small
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import LONG_FRAME, Frame, Framer, FrameSizeError, Received
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.messages import MALFORMED, WireError
from kohort.protocol.registry import API_VERSIONS, BY_KEY, Api

TURN = 32 * 1024
"""Cost of the requests of one connection that are handled in one turn of the event
loop: their bytes, and `FRAME_COST` for each. That is about a millisecond: a hundred
heartbeats, or two requests that are decoded at once."""
FRAME_COST = 256
"""Cost of handling a short request, as bytes decoded in the same time."""
SLOW_SECONDS = 0.1
"""Seconds for which a request may block the others before a warning is logged: ten
times its budget."""
HALF_CLOSED_SECONDS = 10.0
"""Seconds that a client has to read its response after closing its sending side. Most
of these clients are gone, but nothing shows it; one that reads on, as netcat does, gets
the response to a JoinGroup of a new group (twice the initial rebalance delay of 3 s).
"""
MOST_PARTS = 1000
"""Parts of responses in one write: the system's writev takes 1024 of them (IOV_MAX),
and uvloop's writelines fails beyond a million."""
LONGEST_REPEATABLE = 512
"""Bytes of the longest request that is kept to compare the next one with it."""
IN_PIECES_FROM = LONG_FRAME
"""Length of a frame, in bytes, from which it is decoded in pieces and its memory
counted. Decoding one of this size takes up to 3 ms (empty strings, a byte each)."""

_HEAD = struct.Struct(">iih").unpack_from
_HEAD_SIZE = 10
_KEY_AND_ID = struct.Struct(">ii").unpack_from
_NOT_REPEATABLE = -1, b"", 0, None, None

log = telemetry.Logger("connection")


def _called(frame: Frame) -> tuple[Api | None, str]:
    """The API that a frame calls, None if unknown, and the request's name for logs."""
    buffer, start, end = frame
    if end - start < _HEAD_SIZE:
        return None, "no request"
    key, version = struct.unpack_from(">hh", buffer, start)
    api = BY_KEY.get(key)
    return api, f"API key {key}" if api is None else f"{api.name} v{version}"


class Connection(asyncio.Protocol):
    """The server's end of one TCP connection.

    Args:
        node: the node that the client has connected to.
        connections: the server's set of open connections.

    Attributes:
        reads: how often bytes have arrived.
    """

    # CPython reads the attributes of an object with 30 or more of them more slowly.
    __slots__ = (
        "_activity",
        "_activity_half_closed",
        "_activity_seen",
        "_client",
        "_closed",
        "_connections",
        "_current",
        "_failure",
        "_flow",
        "_framer",
        "_frames",
        "_held",
        "_idle_from",
        "_is_at_eof",
        "_is_handling",
        "_join_below",
        "_out",
        "_out_size",
        "_repeatable",
        "_transport",
        "_unread_seen",
        "_work",
        "_worked_on",
        "client_address",
        "listener",
        "node",
        "reads",
        "software_name",
        "software_version",
    )

    def __init__(
        self, node: Node, connections: set[Connection], listener: int = 0
    ) -> None:
        self.node = node
        self.listener = listener
        self.client_address = ""
        self.reads = 0
        self.software_name = ""
        self.software_version = ""
        self._connections = connections
        self._framer = Framer(node.cluster.config["socket.request.max.bytes"])
        self._transport: asyncio.Transport
        self._closed = asyncio.get_running_loop().create_future()
        self._frames: deque[Frame] = deque()
        self._current: Request | None = None
        self._work: Piecework | None = None
        self._out: list[Buffer] = []
        self._out_size = 0
        self._join_below = JOIN_BELOW
        self._is_handling = False
        self._flow = FlowControl(node.cluster.unread)
        self._is_at_eof = False
        # Memory of the long request in progress, and of all long requests, in bytes.
        self._worked_on = 0
        self._held = 0
        # Number of reads and writes: now, at the last check; and the time of the last
        # change.
        self._activity = 0
        self._activity_seen = -1
        self._unread_seen = 0
        self._idle_from = 0.0
        self._activity_half_closed = -1
        self._failure: str | None = None
        # The latest request's client id, as bytes, and its sender.
        self._client = b"", Client("", "")
        # The latest request, if the next one may be the same; see `_handle_again`.
        self._repeatable: tuple[int, bytes, int, Any, Any] = _NOT_REPEATABLE

    @property
    def is_reading(self) -> bool:
        """True if more requests are taken in; not while the client lags behind."""
        return self._flow.is_reading

    @property
    def client(self) -> Client:
        """The sender of the latest request."""
        return self._client[1]

    @property
    def is_waiting(self) -> bool:
        """True if a request of the client waits for its answer."""
        return self._current is not None

    @property
    def is_heard(self) -> bool:
        """True if the client can send requests, and the broker handles them.

        False while the connection is kept open only for a response, and in a black hole
        of the fault plan.
        """
        return not self._is_at_eof

    def forget_repeated(self) -> None:
        """Decodes the next request in any case: its handler may decide otherwise."""
        self._repeatable = _NOT_REPEATABLE

    @property
    def number(self) -> int:
        """Its number within the run; the first connection is 1."""
        return self._client[1].connection or 0

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport, and counts the connection against the limit."""
        self._transport = cast("asyncio.Transport", transport)
        self._flow.connect(self._transport)
        if not transports.writelines_pauses(self._transport):
            self._join_below = sys.maxsize
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        cluster = self.node.cluster
        cluster.connections += 1
        self._client = b"", Client("", f"/{host}", cluster.connections)
        self.client_address = f"{host}:{port}"
        transports.keep_alive(transport)
        limit = cluster.config["max.connections"]
        if len(self._connections) >= limit:
            self._close(f"max.connections is {limit}")
            return
        if admission.refuses(transports.descriptor(transport)):
            self.abort()
            return
        if not self.node.is_open:
            # It was accepted just before the node began to stop. The stop waits for all
            # connections, and would never close this one.
            self.abort()
            return
        self._connections.add(self)
        cluster.open_connections[cluster.connections] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection; its members stay in their groups."""
        if exc is not None and not isinstance(exc, (ConnectionError, TimeoutError)):
            # A reset or a timeout: a client that simply closes is not logged.
            log.warning("connection_lost", client=self.client_address, reason=repr(exc))
        self._connections.discard(self)
        number = self._client[1].connection
        self.node.cluster.open_connections.pop(number or 0, None)
        if self.node.cluster.fetch_watch is not None:
            self.node.cluster.fetch_watch.ended(self, was_reset=exc is not None)
        if self.node.is_open:
            self.node.connection_closed(number or 0)
        self._flow.disconnect()
        self._frames.clear()
        if not self._closed.done():
            self._closed.set_result(None)
        if self._work is not None:
            self._work.stop()
        if self._held:
            self.node.cluster.request_memory.update(self, 0, 0)
            self._framer = Framer(0)
        current, self._current = self._current, None
        if current is not None and current.abandon is not None:
            current.abandon()

    def data_received(self, data: bytes) -> None:
        """Handles the requests that these bytes complete."""
        self._activity += 1
        self.reads += 1
        if self._failure is not None:
            # The bytes after a frame of an impossible size have no meaning.
            return
        if (
            not self._frames
            and self._current is None
            and not self._flow.is_blocked
            and self._framer.is_frame(data)
        ):
            self._handle_only((data, 4, len(data)))
            return
        try:
            frames = self._framer.feed(data)
        except FrameSizeError as error:
            frames = error.frames
            self._failure = self._reason(error)
        self._frames.extend(frames)
        self._handle_frames()
        # The first bytes of a short frame alone are less than may be read ahead.
        if self._frames or (self._current is not None and self._framer.gathered):
            waiting = sum(end - start for _, start, end in self._frames)
            self._flow.read_ahead(waiting + self._framer.unfinished)

    def bytes_placed(self, size: int) -> None:
        """The same as `data_received`, for bytes that `LongReads` has read."""
        if self._failure is None:
            self._frames.extend(self._framer.filled(size))
        self.data_received(b"")

    def _reason(self, error: FrameSizeError) -> str:
        """The reason to close the connection; "" if its host has had this line.

        Clients with a wrong security.protocol connect again and again.
        """
        protocol = protocol_of(error.size)
        if not protocol:
            return str(error)
        is_first = self.node.cluster.first_times.add(protocol, self.client.host)
        return protocol if is_first else ""

    def eof_received(self) -> bool:
        """The client sends no more; a response that is due soon is still sent."""
        self._is_at_eof = True
        if self.node.cluster.fetch_watch is not None:
            # Its waiting Fetch is not answered yet.
            self.node.cluster.fetch_watch.ended(self, was_reset=False)
        if self._current is None and not self._frames:
            return False
        clock = self.node.cluster.client_clock
        clock.call_at(clock.now() + HALF_CLOSED_SECONDS, self._end_wait)
        return True

    def _end_wait(self) -> None:
        """The client is gone, or does not wait for its response as it should."""
        if not self._closed.done():
            self.abort()

    def pause_writing(self) -> None:
        """The client reads too slowly: handles nothing until it catches up."""
        self._flow.block_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._flow.unblock_writing()
        self._activity += 1
        self._continue()

    # -- called by requests and the server

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the response to the request in progress."""
        if request is not self._current:
            # The connection is gone.
            return
        self._current = None
        if self._is_handling:
            if len(parts) == 1:
                self._out_size += len(parts[0])
            else:
                self._out_size += sum(map(len, parts))
            self._out += parts
            if self._out_size >= WRITE_BUFFER:
                # Pipelined fetches: let the transport apply its limit.
                self._flush()
            return
        self._activity += 1
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._out = parts
            self._out_size = sum(map(len, parts))
            self._flush()
        # The request had waited; the ones behind it can go on. But not in this call:
        # its caller may be in the middle of a change, for example moving all partitions
        # that a node led.
        if self._frames:
            self._closed.get_loop().call_soon(self._continue)
        elif self._failure is not None or self._is_at_eof or not self._flow.is_reading:
            self._continue()

    def throttle(self, wait_ms: int) -> None:
        """Handles no request for this time, which the response has announced."""
        clock = self.node.cluster.client_clock
        when = clock.now() + wait_ms / 1000
        self._flow.throttle(clock.call_at(when, self._end_throttle))

    def _end_throttle(self) -> None:
        self._flow.end_throttle()
        self._continue()

    def fail(self, why: str) -> None:
        """Closes the connection after the responses so far are sent."""
        self._failure = why
        self._frames.clear()

    def close(self) -> asyncio.Future[None]:
        """Handles nothing further, and closes once pending responses are read.

        Returns:
            Done when the connection is closed.
        """
        self._frames.clear()
        self._transport.close()
        return self._closed

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def faults_changed(self) -> None:
        """Notes a change of the fault plan's rules; see `kohort.broker.faults`."""

    def is_idle(self, now: float, seconds: float) -> bool:
        """Returns whether nothing was read or written for this long. Call it regularly.

        As in Kafka, a client whose request waits counts as idle, too, even for an hour.
        """
        unread = self._transport.get_write_buffer_size()
        if self._activity != self._activity_seen or unread < self._unread_seen:
            self._activity_seen = self._activity
            self._idle_from = now
        self._unread_seen = unread
        return now - self._idle_from > seconds

    def is_abandoned(self) -> bool:
        """Returns whether a half-closed client has waited since the last call.

        Finds the clients that `eof_received` does not: while more than `READ_AHEAD`
        bytes stand behind a request that waits, nothing is read, so the end is not
        seen.
        """
        is_waiting = not self._flow.is_reading and self._current is not None
        if not is_waiting or not transports.is_half_closed(self._transport):
            return False
        before, self._activity_half_closed = self._activity_half_closed, self._activity
        return before == self._activity

    # -- requests

    def _handle_only(self, frame: Frame) -> None:
        """Handles the only request that has arrived; does as `_handle_frames`."""
        buffer, start, end = frame
        self._is_handling = True
        before = monotonic()
        try:
            if end - start != self._repeatable[0] or not self._handle_again(
                buffer, start, end, before
            ):
                self._handle(buffer, start, end, before, ROUTES)
                took = monotonic() - before
                if took > SLOW_SECONDS or self.node.cluster.quotas.is_used:
                    self._took(took, *_called(frame))
        except MALFORMED as error:
            self._malformed(frame, error)
        finally:
            self._is_handling = False
        if self._out:
            self._flush()
        if self._held or self._worked_on:
            self._report_memory()
        if self._current is None:
            self._end_if_due()

    def _handle_frames(self) -> None:
        """Handles requests until one waits, the client lags, or the turn is used up.

        Logs a request that made the others wait for too long.
        """
        frames, flow = self._frames, self._flow
        self._is_handling = True
        left, before = TURN, monotonic()
        quotas = self.node.cluster.quotas
        try:
            while frames and self._current is None and not flow.is_blocked:
                if left <= 0:
                    self._closed.get_loop().call_soon(self._continue)
                    break
                frame = buffer, start, end = frames.popleft()
                size = end - start
                left -= size + FRAME_COST
                if size == self._repeatable[0] and self._handle_again(
                    buffer, start, end, before
                ):
                    continue
                self._handle(buffer, start, end, before, ROUTES)
                now = monotonic()
                if now - before > SLOW_SECONDS or quotas.is_used:
                    self._took(now - before, *_called(frame))
                before = now
        except MALFORMED as error:
            self._malformed(frame, error)
        finally:
            self._is_handling = False
        self._flush()
        if frames or self._held or self._worked_on or self._framer.gathered:
            self._report_memory()
        if self._current is None and not frames:
            self._end_if_due()

    def _malformed(self, frame: Frame, error: Exception) -> None:
        """Closes the connection: what follows the frame has no meaning either."""
        reason = str(error) or type(error).__name__
        self._failure = f"{_called(frame)[1]}: {reason}"
        self._current = None
        self._frames.clear()

    def _end_if_due(self) -> None:
        """Closes the connection after a failure, or the client's end."""
        if self._failure is not None:
            self._close(self._failure)
        elif self._is_at_eof:
            self._transport.close()

    def _handle_again(self, buffer: Received, start: int, end: int, now: float) -> bool:
        """Handles a request like the latest one, as heartbeats are.

        Only the correlation id differs, so it is not decoded again, and the same
        request and event are used again.
        """
        _, name_and_body, key_and_version, request, event = self._repeatable
        found, correlation_id = _KEY_AND_ID(buffer, start)
        if (
            found != key_and_version
            or buffer[start + 8 : end] != name_and_body
            or self.node.cluster.quotas.is_used
        ):
            return False
        self._current = request
        request.correlation_id = correlation_id
        request.started = now
        try:
            self.node.submit_group_event(event)
        except Exception as error:  # noqa: BLE001 - the connection ends by it
            self._request_failed(request.api, request.version, error)
        return True

    def _handle(
        self,
        buffer: Received,
        start: int,
        end: int,
        now: float,
        routes: Mapping[int, Route],
    ) -> None:
        size = end - start
        if size < _HEAD_SIZE:
            raise WireError(f"a frame of {size} bytes has no request header")
        key_and_version, correlation_id, id_size = _HEAD(buffer, start)
        apis = self.node.cluster.apis
        try:
            is_limited = apis is not BY_KEY
            number = checked(apis, key_and_version) if is_limited else key_and_version
            found = routes[number]
        except UnknownApiError as error:
            self._refuse_version(error, correlation_id)
            return
        route = found.in_pieces if size >= IN_PIECES_FROM else found
        begin = start + _HEAD_SIZE
        position = begin + id_size if id_size > 0 else begin
        if buffer[begin:position] != self._client[0]:
            raw = bytes(buffer[begin:position])
            client_id = raw.decode("utf-8", "replace")
            self._client = raw, self._client[1]._replace(id=client_id)
            self._repeatable = _NOT_REPEATABLE
        if route.flexible:
            # Nearly always a zero: no tagged fields.
            position = skip_tags(buffer, position) if buffer[position] else position + 1
        message, position = route.decode(buffer, position, end)
        if position > end:
            raise WireError(f"{position - end} bytes too short")
        self._current = request = Request(
            route.format,
            route.respond,
            correlation_id,
            self._client[1],
            message,
            self.node,
            self,
            now,
            size,
        )
        if route.event is not None:
            event = route.event(request) if size <= LONGEST_REPEATABLE else None
            self._repeatable = _NOT_REPEATABLE
            if event is not None:
                body = bytes(buffer[start + 8 : end])
                self._repeatable = size, body, key_and_version, request, event
        try:
            work = route.handle(request)
            if work is not None and next(work, DONE) is not DONE:
                self._go_on_later(work, request)
        except Exception as error:  # noqa: BLE001 - the connection ends by it
            self._request_failed(request.api, request.version, error)

    def _go_on_later(self, work: Work, request: Request) -> None:
        if request.size >= LONG_FRAME:
            self._worked_on = request.size
        self._work = self.node.cluster.long_work.queue(
            self._watched(work, request), partial(self._later_failed, request)
        )

    def _watched(self, work: Work, request: Request) -> Work:
        """Runs work; logs pieces that take too long, and updates the memory."""
        try:
            before = monotonic()
            while next(work, DONE) is not DONE:
                self._check_piece(request, before)
                yield
                before = monotonic()
            self._check_piece(request, before)
        finally:
            work.close()
            if self._worked_on:
                self._worked_on = 0
                self._report_memory()

    def _check_piece(self, request: Request, before: float) -> None:
        """Logs and counts a piece that took too long."""
        called = f"{request.api.name} v{request.version}"
        self._took(monotonic() - before, request.api, called)

    def _took(self, seconds: float, api: Api | None, called: str) -> None:
        """Counts the time of a request, and logs one that made others wait for long."""
        quotas = self.node.cluster.quotas
        if quotas.is_used:
            quotas.count_seconds(self.client.id, seconds)
        if seconds <= SLOW_SECONDS:
            return
        if api is not None and self.node.counters is not None:
            self.node.counters.was_slow(api)
        log.info(
            "slow_request",
            client=self.client_address,
            request=called,
            ms=round(seconds * 1000),
        )

    def _later_failed(self, request: Request, error: Exception) -> None:
        """Reports an exception from a later piece of a request's work."""
        self._request_failed(request.api, request.version, error)
        self._handle_frames()

    def _request_failed(self, api: Api, version: int, error: Exception) -> None:
        """Closes the connection: the client must not take a defect for a response."""
        self._current = None
        self._frames.clear()
        if isinstance(error, (BodyError, AnswerSizeError)):
            self._failure = f"{api.name} v{version}: {error}"
            return
        log.error("request_failed", api=api.name, version=version, exc_info=error)
        self._failure = f"{api.name} v{version} failed"

    def _refuse_version(self, error: UnknownApiError, correlation_id: int) -> None:
        """Answers ApiVersions in an unknown version: a v0 body with the known ones."""
        if error.key != API_VERSIONS:
            raise error
        body = versions_refusal(self.node.cluster.apis)
        frame = struct.pack(">ii", len(body) + 4, correlation_id) + body
        self._out.append(frame)
        self._out_size += len(frame)

    # -- reading and writing

    def _continue(self) -> None:
        if self._frames or self._failure is not None or self._is_at_eof:
            self._handle_frames()
        if not self._frames:
            self._flow.resume()

    def _report_memory(self) -> None:
        """Reports the memory that this client's long requests use now."""
        held = self._framer.gathered + self._worked_on
        for _, start, end in self._frames:
            if end - start >= LONG_FRAME:
                held += end - start
        if held or self._held:
            self._held = held
            if self._framer.gathered and self._transport.get_protocol() is self:
                self._transport.set_protocol(LongReads(self, self._framer))
            long_size = self._framer.long_size
            self.node.cluster.request_memory.update(self, held, long_size)

    def hold_back(self) -> None:
        """Stops reading for now: see `request_memory`."""
        self._flow.hold_back()

    def release(self) -> None:
        """Reads again from the next turn on: another request is in progress now."""
        self._flow.release()
        self._closed.get_loop().call_soon(self._continue)

    def give_up(self, why: str) -> None:
        """Closes the connection: its request will never be complete."""
        log.warning("connection_closed", client=self.client_address, reason=why)
        self.abort()

    def _flush(self) -> None:
        """Writes all responses so far in one call."""
        out = self._out
        if not out:
            return
        size, self._out, self._out_size = self._out_size, [], 0
        if len(out) == 1:
            self._transport.write(out[0])
        elif size < self._join_below:
            self._transport.write(b"".join(out))
        elif len(out) <= MOST_PARTS:
            self._transport.writelines(out)
        else:
            joined: list[Buffer] = []
            join_small(out, joined)
            self._transport.writelines(joined)

    def _close(self, why: str) -> None:
        if why:
            log.warning("connection_closed", client=self.client_address, reason=why)
        self._failure = None
        self._transport.close()
