"""One client connection: bytes to frames to requests, and answers in their order.

Requests of a connection are handled one at a time, as in Kafka: while one waits (a
JoinGroup, a Fetch), later requests stay in the receive buffer and, beyond
`READ_AHEAD` bytes, in the client's: see `flow_control` for back-pressure.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
from functools import partial
from time import monotonic
from typing import Any, cast

from kohort.broker import telemetry
from kohort.broker.cluster.cluster import Node
from kohort.broker.coordinator.events import Client
from kohort.broker.descriptors import admission
from kohort.broker.dispatch import BodyError, UnknownApiError, route_of
from kohort.broker.flow_control import WRITE_BUFFER, FlowControl
from kohort.broker.long_work import DONE, Piecework, Work
from kohort.broker.request import JOIN_BELOW, AnswerSizeError, Request, join_small
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import LONG_FRAME, Frame, Framer, FrameSizeError, Received
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.messages import WireError
from kohort.protocol.registry import API_VERSIONS, BY_KEY, Api

TURN = 32 * 1024
"""Cost of the requests of one connection that are handled in one turn of the event
loop: their bytes, and `FRAME_COST` for each. That is about a millisecond: a hundred
heartbeats, or two requests that are decoded at once."""
FRAME_COST = 256
"""Cost of handling a short request, in bytes that are decoded in the same time."""
SLOW_SECONDS = 0.1
"""Seconds for which a request may hold up the others, at once, before the log has a
line about it: ten times its budget."""
HALF_CLOSED_SECONDS = 10.0
"""Seconds that a client gets to see its answer after it has closed its sending side.
Most of these clients have gone, but nothing shows it; one that reads on, as netcat
does, gets the answer to a JoinGroup of a new group (twice the initial rebalance delay
of 3 s)."""
_CLOSE_WAIT = b"\x08"
"""Linux's state of a TCP connection whose client has closed its sending side."""
MOST_PARTS = 1000
"""Parts of answers in one write: the system's writev takes 1024 of them (IOV_MAX),
and uvloop's writelines fails beyond a million."""
IN_PIECES_FROM = LONG_FRAME
"""Bytes of a frame from which on it is decoded in pieces, and its memory is counted.
One of this size takes up to 3 ms (empty strings, one a byte)."""

_HEAD = struct.Struct(">iih").unpack_from
_HEAD_SIZE = 10
_DECODE_ERRORS = (WireError, struct.error, IndexError, ValueError)

log = telemetry.Logger("connection")


def _writelines_pauses(transport: asyncio.Transport) -> bool:
    """Whether a transport calls pause_writing when a writelines fills its buffer.

    asyncio's own forgets to in CPython 3.12 before 3.12.9 and 3.13 before 3.13.2
    (CVE-2024-12254): a client that does not read would fill the memory.
    """
    version = sys.version_info[:3]
    is_defective = (3, 12) <= version < (3, 12, 9) or (3, 13) <= version < (3, 13, 2)
    return not is_defective or type(transport).__module__.startswith("uvloop")


def _descriptor(transport: asyncio.BaseTransport) -> int:
    """The transport's file descriptor; -1 if it has none, as in tests."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else sock.fileno()


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Turns on TCP keep-alive, as Kafka does: it finds machines that are gone."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _is_half_closed(transport: asyncio.BaseTransport) -> bool:
    """Whether the client has closed its sending side, also behind unread bytes."""
    sock = transport.get_extra_info("socket")
    if sock is None or sys.platform != "linux":
        return False
    state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, len(_CLOSE_WAIT))
    return bool(state == _CLOSE_WAIT)


def _called(frame: Frame) -> tuple[Api | None, str]:
    """The API that a frame calls, None if unknown, and the frame's name for logs."""
    buffer, start, end = frame
    if end - start < _HEAD_SIZE:
        return None, "no request"
    key, version = struct.unpack_from(">hh", buffer, start)
    api = BY_KEY.get(key)
    return api, f"API key {key}" if api is None else f"{api.name} v{version}"


class Connection(asyncio.Protocol):
    """The server's end of one TCP connection.

    Args:
        node: the node that is connected to.
        connections: the server's set of open connections.
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
        "_transport",
        "_unread_seen",
        "_work",
        "_worked_on",
        "client_address",
        "node",
        "software_name",
        "software_version",
    )

    def __init__(self, node: Node, connections: set[Connection]) -> None:
        self.node = node
        self.client_address = ""
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
        # Bytes of the long request whose work is under way, and of all long ones.
        self._worked_on = 0
        self._held = 0
        # Counts reads and writes: now, at the last check; and when it last changed.
        self._activity = 0
        self._activity_seen = -1
        self._unread_seen = 0
        self._idle_from = 0.0
        self._activity_half_closed = -1
        self._failure: str | None = None
        # The latest request's client id, as bytes, and its sender.
        self._client = b"", Client("", "")

    @property
    def is_reading(self) -> bool:
        """Whether more requests are taken in; not while the client lags behind."""
        return self._flow.is_reading

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport, and the limit on connections into account."""
        self._transport = cast("asyncio.Transport", transport)
        self._flow.connect(self._transport)
        if not _writelines_pauses(self._transport):
            self._join_below = sys.maxsize
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        cluster = self.node.cluster
        cluster.connections += 1
        self._client = b"", Client("", f"/{host}", cluster.connections)
        self.client_address = f"{host}:{port}"
        _keep_alive(transport)
        limit = cluster.config["max.connections"]
        if len(self._connections) >= limit:
            self._close(f"max.connections is {limit}")
            return
        if admission.refuses(_descriptor(transport)):
            self.abort()
            return
        if not self.node.is_open:
            # It was accepted just before the node began to stop. The stop waits for
            # all connections, and would never close this one.
            self.abort()
            return
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection; members that joined by it stay in their groups."""
        if exc is not None and not isinstance(exc, (ConnectionError, TimeoutError)):
            # The peer's own end is no news: a reset, or silence.
            log.warning("connection_lost", client=self.client_address, reason=repr(exc))
        self._connections.discard(self)
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
        if self._failure is not None:
            # The bytes after a frame of an impossible size have no meaning.
            return
        try:
            frames = self._framer.feed(data)
        except FrameSizeError as error:
            frames = error.frames
            self._failure = str(error)
        self._frames.extend(frames)
        self._handle_frames()
        if self._frames or self._current is not None:
            waiting = sum(end - start for _, start, end in self._frames)
            self._flow.read_ahead(waiting + self._framer.unfinished)

    def eof_received(self) -> bool:
        """The client sends no more; an answer that is due soon still goes out."""
        self._is_at_eof = True
        if self._current is None and not self._frames:
            return False
        clock = self.node.cluster.clock
        clock.call_at(clock.now() + HALF_CLOSED_SECONDS, self._end_wait)
        return True

    def _end_wait(self) -> None:
        """The client has gone, or does not wait for its answer as it should."""
        if not self._closed.done():
            self.abort()

    def pause_writing(self) -> None:
        """The client reads too slowly: nothing is handled until it catches up."""
        self._flow.block_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._flow.unblock_writing()
        self._activity += 1
        self._continue()

    # -- called by requests and the server

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the answer to the request that is being handled."""
        if request is not self._current:
            # Its connection is gone.
            return
        self._current = None
        self._out += parts
        self._out_size += sum(map(len, parts))
        if not self._is_handling:
            # The request had waited; the ones behind it can go on. But not in this
            # call: its caller may be in the middle of a change, such as moving all
            # partitions that a node led.
            self._activity += 1
            self._flush()
            if self._frames:
                self._closed.get_loop().call_soon(self._continue)
            else:
                self._continue()
        elif self._out_size >= WRITE_BUFFER:
            # Pipelined fetches: let the transport say when it is too much.
            self._flush()

    def throttle(self, wait_ms: int) -> None:
        """Handles nothing further for this time, which the client has been told."""
        clock = self.node.cluster.clock
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
        """Handles nothing further, and closes once answers under way are read.

        Returns:
            Done when the connection is closed.
        """
        self._frames.clear()
        self._transport.close()
        return self._closed

    def abort(self) -> None:
        """Closes at once."""
        self._transport.abort()

    def is_idle(self, now: float, seconds: float) -> bool:
        """Whether nothing came or went for this many seconds; to be called regularly.

        As in Kafka that includes a client whose request waits, even for an hour.
        """
        unread = self._transport.get_write_buffer_size()
        if self._activity != self._activity_seen or unread < self._unread_seen:
            self._activity_seen = self._activity
            self._idle_from = now
        self._unread_seen = unread
        return now - self._idle_from > seconds

    def is_abandoned(self) -> bool:
        """Whether a half-closed client has waited since the last call.

        Finds the clients that `eof_received` does not: nothing is read, so also no
        end, while more than `READ_AHEAD` bytes stand behind a request that waits.
        """
        is_waiting = not self._flow.is_reading and self._current is not None
        if not is_waiting or not _is_half_closed(self._transport):
            return False
        before, self._activity_half_closed = self._activity_half_closed, self._activity
        return before == self._activity

    # -- requests

    def _handle_frames(self) -> None:
        """Handles requests until one has to wait, or the client, or it is enough.

        A request for which the others have waited too long gets a line in the log.
        """
        frames, flow = self._frames, self._flow
        self._is_handling = True
        start, left, before = 0, TURN, monotonic()
        quotas = self.node.cluster.quotas
        try:
            while frames and self._current is None and not flow.is_blocked:
                if left <= 0:
                    self._closed.get_loop().call_soon(self._continue)
                    break
                frame = buffer, start, end = frames.popleft()
                left -= end - start + FRAME_COST
                self._handle(buffer, start, end, before)
                now = monotonic()
                if now - before > SLOW_SECONDS:
                    self._was_slow(*_called(frame), now - before)
                if quotas.is_used:
                    quotas.count_seconds(self._client[1].id, now - before)
                before = now
        except _DECODE_ERRORS as error:
            self._failure = f"{_called(frame)[1]}: {error}"
            self._current = None
            frames.clear()
        finally:
            self._is_handling = False
        self._flush()
        if frames or self._held or self._worked_on or self._framer.gathered:
            self._report_memory()
        if self._current is None and not frames:
            if self._failure is not None:
                self._close(self._failure)
            elif self._is_at_eof:
                self._transport.close()

    def _handle(self, buffer: Received, start: int, end: int, now: float) -> None:
        if end - start < _HEAD_SIZE:
            raise WireError(f"a frame of {end - start} bytes has no request header")
        key_and_version, correlation_id, id_size = _HEAD(buffer, start)
        try:
            found = route_of(key_and_version)
        except UnknownApiError as error:
            self._refuse_version(error, correlation_id)
            return
        route = found.in_pieces if end - start >= IN_PIECES_FROM else found
        position = start + _HEAD_SIZE
        raw = b""
        if id_size > 0:
            raw = buffer[position : position + id_size]
            position += id_size
        if raw != self._client[0]:
            client_id = raw.decode("utf-8", "replace")
            self._client = raw, self._client[1]._replace(id=client_id)
        if route.flexible:
            position = skip_tags(buffer, position)
        message, _ = route.decode(buffer, position, end)
        self._current = request = Request(
            route.format,
            route.respond,
            correlation_id,
            self._client[1],
            message,
            self.node,
            self,
        )
        request.started = now
        request.size = end - start
        try:
            work = route.handle(request)
            if work is not None and next(work, DONE) is not DONE:
                if end - start >= LONG_FRAME:
                    self._worked_on = end - start
                self._work = self.node.cluster.long_work.queue(
                    self._watched(work, request),
                    partial(self._later_failed, request),
                )
        except Exception as error:  # noqa: BLE001 - the connection ends by it
            self._request_failed(request, error)

    def _watched(self, work: Work, request: Request) -> Work:
        """Goes on with work; logs pieces that take too long, and updates the memory."""
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
        """Logs and counts a piece that has taken too long."""
        now = monotonic()
        quotas = self.node.cluster.quotas
        if quotas.is_used:
            quotas.count_seconds(request.client.id, now - before)
        if now - before > SLOW_SECONDS:
            called = f"{request.api.name} v{request.version}"
            self._was_slow(request.api, called, now - before)

    def _was_slow(self, api: Api | None, called: str, seconds: float) -> None:
        """Others have waited for a request of this client for too long."""
        if api is not None and self.node.counters is not None:
            self.node.counters.was_slow(api)
        log.info(
            "slow_request",
            client=self.client_address,
            request=called,
            ms=round(seconds * 1000),
        )

    def _later_failed(self, request: Request, error: Exception) -> None:
        """A later piece of a request's work raised this."""
        self._request_failed(request, error)
        self._handle_frames()

    def _request_failed(self, request: Request, error: Exception) -> None:
        """Closes the connection: the client must not take a defect for an answer."""
        self._current = None
        self._frames.clear()
        if isinstance(error, (BodyError, AnswerSizeError)):
            self._failure = f"{request.api.name} v{request.version}: {error}"
            return
        log.error(
            "request_failed",
            api=request.api.name,
            version=request.version,
            exc_info=error,
        )
        self._failure = f"{request.api.name} v{request.version} failed"

    def _refuse_version(self, error: UnknownApiError, correlation_id: int) -> None:
        """ApiVersions in an unknown version: a v0 body that names the known ones."""
        if error.key != API_VERSIONS:
            raise error
        api = BY_KEY[API_VERSIONS]
        versions: Any = api.module
        refusal = versions.ApiVersionsResponse(
            ErrorCode.UNSUPPORTED_VERSION,
            [versions.ApiVersion(api.key, api.oldest, api.newest)],
        )
        body = api.response(0).encode(refusal)
        frame = struct.pack(">ii", len(body) + 4, correlation_id) + body
        self._out.append(frame)
        self._out_size += len(frame)

    # -- reading and writing

    def _continue(self) -> None:
        if self._frames or self._failure or self._is_at_eof:
            self._handle_frames()
        if not self._frames:
            self._flow.resume()

    def _report_memory(self) -> None:
        """Reports the memory that long requests of this client take now."""
        held = self._framer.gathered + self._worked_on
        for _, start, end in self._frames:
            if end - start >= LONG_FRAME:
                held += end - start
        if held or self._held:
            self._held = held
            long_size = self._framer.long_size
            self.node.cluster.request_memory.update(self, held, long_size)

    def hold_back(self) -> None:
        """Reads no more for now: see `request_memory`."""
        self._flow.hold_back()

    def release(self) -> None:
        """Reads again from the next turn on: another request is amid its work now."""
        self._flow.release()
        self._closed.get_loop().call_soon(self._continue)

    def give_up(self, why: str) -> None:
        """Closes the connection: its request is not going to be whole."""
        log.warning("connection_closed", client=self.client_address, reason=why)
        self.abort()

    def _flush(self) -> None:
        """Writes all responses so far at once."""
        out = self._out
        if not out:
            return
        size, self._out, self._out_size = self._out_size, [], 0
        if size < self._join_below:
            self._transport.write(b"".join(out))
        elif len(out) <= MOST_PARTS:
            self._transport.writelines(out)
        else:
            joined: list[Buffer] = []
            join_small(out, joined)
            self._transport.writelines(joined)

    def _close(self, why: str) -> None:
        log.warning("connection_closed", client=self.client_address, reason=why)
        self._failure = None
        self._transport.close()
