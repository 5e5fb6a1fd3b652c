"""The client's end of one TCP connection: requests out, responses in, in one order.

Requests are pipelined. A broker answers in the order of the requests, so the
next response is the oldest request's, even if its waiter was cancelled: a cancelled
waiter leaves its place in the queue, and its response is dropped when it comes. If a
response does not come in time, the connection ends, as in the Java client: later
responses could not be told apart from it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import ssl
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, Self, cast

from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    KohortError,
    RequestTimedOutError,
    UnsupportedVersionError,
    error_of,
)
from kohort.client.network.request_format import RequestFormat, request_format
from kohort.client.network.sockets import connected_socket
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import Framer, FrameSizeError, Received
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.registry import API_VERSIONS, BY_KEY, BY_NAME
from kohort.protocol.slotted import slotted

SOFTWARE_NAME = "kohort"
"""Software name in ApiVersions (KIP-511). A kohort broker answers it with KIP-389's
error number, if it is configured to."""
LARGEST_RESPONSE = 1024 * 1024 * 1024
"""Bytes; no broker sends as much, and "HTTP" read as a size is more."""
LARGEST_FIRST_RESPONSE = 1024 * 1024
"""Bytes, of ApiVersions; the alert of a peer that wants TLS is more as a size."""

_HEAD = struct.Struct(">ihhi").pack
_CORRELATION_ID = struct.Struct(">i").unpack_from
_INT16 = struct.Struct(">h").unpack_from
_INT32_MASK = 0x7FFF_FFFF

Versions = tuple[int, int]
"""(lowest, highest), both included."""


@functools.cache
def software_version() -> str:
    """The version of kohort, as sent to brokers (KIP-511)."""
    try:
        return importlib.metadata.version(SOFTWARE_NAME)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@slotted
class _Pending:
    """A request that has not been answered."""

    correlation_id: int
    format: RequestFormat
    deadline: float
    timeout_ms: int
    answer: asyncio.Future[Any]


class Connection(asyncio.Protocol):
    """One connection to a broker; `open` makes it.

    Args:
        config: time-outs, the idle limit, the client's id.
        host: of the broker.
        port: of the broker.
        node_id: the broker's, where it is known.

    Attributes:
        api_versions: (lowest, highest) by API key, as the broker has them.
        last_active: the event loop's time of the last byte, sent or received.
    """

    def __init__(
        self, config: CommonConfig, host: str, port: int, node_id: int | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.api_versions: Mapping[int, Versions] = {}
        self.last_active = 0.0
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._framer = Framer(LARGEST_FIRST_RESPONSE)
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        client_id = config.client_id.encode()
        self._client_id = struct.pack(">h", len(client_id)) + client_id
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_full = False
        self._quiet_until = 0.0
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failure: KohortError | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._negotiated: dict[str, int] = {}

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Connection to {self.name}, {state}, {self.in_flight} in flight>"

    @property
    def name(self) -> str:
        """The broker as errors name it: "host:port (node 1)"."""
        return broker_name(self.host, self.port, self.node_id)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and self._failure is None

    @property
    def in_flight(self) -> int:
        """Requests without a response."""
        return len(self._pending)

    @property
    def quiet_seconds(self) -> float:
        """Seconds for which the broker has asked to be sent nothing (KIP-219).

        `send` waits for as long; callers of `post` have to.
        """
        return max(0.0, self._quiet_until - self._loop.time())

    # -- the start

    @classmethod
    async def open(
        cls, config: CommonConfig, host: str, port: int, node_id: int | None = None
    ) -> Self:
        """Connects, asks for the broker's versions, and authenticates.

        Cancelled, it leaves no connection behind.

        Raises:
            ConnectionFailedError: the address does not answer, or not as a broker, or
                all of that took longer than ``socket.connection.setup.timeout.ms``.
            KohortError: from `authenticate`.
        """
        self = cls(config, host, port, node_id)
        limit_ms = config.socket_connection_setup_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._connect()
                await self._ask_versions()
                await self._authenticate()
        except BaseException as error:
            self.abort()
            if isinstance(error, TimeoutError):
                what = f"not connected within {limit_ms} ms"
                raise self._failed(what) from None
            if isinstance(error, OSError):
                # Certificates that do not fit do not fit the next time.
                retriable = False if isinstance(error, ssl.SSLError) else None
                what = str(error) or "the broker closed it"
                raise self._failed(what, retriable=retriable) from error
            raise
        return self

    async def _connect(self) -> None:
        tls = self._config.tls
        seconds = self._config.socket_connection_setup_timeout_ms / 1000
        sock = await connected_socket(self.host, self.port, seconds)
        if tls is None:
            await self._loop.create_connection(lambda: self, sock=sock)
            return
        try:
            await self._loop.create_connection(
                lambda: self, sock=sock, ssl=tls, server_hostname=self.host
            )
        except ConnectionError as error:
            what = f"the broker ended the TLS handshake: {error}"
            raise self._failed(what.removesuffix(": ")) from error

    async def _ask_versions(self) -> None:
        api = BY_KEY[API_VERSIONS]
        request = api.request_class(SOFTWARE_NAME, software_version())
        response = await self.send("ApiVersions", api.newest, request)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # KIP-511: the answer lists the broker's versions; before 2.4 it had none.
            theirs = {a.api_key: a.max_version for a in response.api_keys}
            version = min(theirs.get(API_VERSIONS, 0), api.newest)
            response = await self.send("ApiVersions", version, request)
        if response.error_code:
            raise self.error_of(response.error_code, "ApiVersions")
        if self._framer.unfinished:
            self.fail("more than the response to ApiVersions came")
        self._framer = Framer(LARGEST_RESPONSE)
        self.api_versions = {
            a.api_key: (a.min_version, a.max_version) for a in response.api_keys
        }

    async def _authenticate(self) -> None:
        if self._config.authenticate is None:
            return
        try:
            await self._config.authenticate(self)
        except (KohortError, OSError):
            raise
        except Exception as error:
            what = f"authenticate failed: {error!r}"
            raise self._failed(what, retriable=False) from error

    # -- requests

    def version(self, api_name: str, versions: Versions | None = None) -> int:
        """The newest version of an API that both sides have.

        Args:
            api_name: Kafka's name, as in ``JoinGroup``.
            versions: those that would do; None for all that kohort has.

        Raises:
            UnsupportedVersionError: there is none.
        """
        if versions is None and api_name in self._negotiated:
            return self._negotiated[api_name]
        api = BY_NAME[api_name]
        lowest, highest = api.oldest, api.newest
        if versions is not None:
            lowest, highest = max(lowest, versions[0]), min(highest, versions[1])
        theirs = self.api_versions.get(api.key)
        if theirs is None:
            what = "the broker does not have this API"
            raise UnsupportedVersionError(what, api=api_name, broker=self.name)
        version = min(highest, theirs[1])
        if version < max(lowest, theirs[0]):
            raise UnsupportedVersionError(
                f"the broker has versions {theirs[0]} to {theirs[1]}, "
                f"{lowest} to {highest} would do",
                api=api_name,
                broker=self.name,
            )
        if versions is None:
            self._negotiated[api_name] = version
        return version

    async def call(self, api_name: str, message: object) -> Any:
        """Sends a request in the newest version, and returns its response.

        Raises:
            KohortError: as from `version` and `send`, or the response's own error.
        """
        version = self.version(api_name)
        response = await self.send(api_name, version, message)
        if response.error_code:
            raise self.error_of(response.error_code, api_name)
        return response

    async def send(
        self,
        api_name: str,
        version: int,
        message: object,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """Sends a request and waits for its response.

        Cancelled before anything is written it has done nothing; later, the
        request is under way and its response will be dropped.

        Args:
            api_name: Kafka's name, as in ``JoinGroup``.
            version: of the request.
            message: the request, of that API's `request_class`.
            timeout_ms: for the response; None for ``request.timeout.ms``.

        Returns:
            The response, of that API's `response_class`; it may have an error code.

        Raises:
            ConnectionFailedError: the connection ended before the response came.
            RequestTimedOutError: the response is late; the connection is closed.
            ClosedError: the connection was closed by this side.
        """
        await self._may_write()
        return await self.post(api_name, version, message, timeout_ms=timeout_ms)

    def post(
        self,
        api_name: str,
        version: int,
        message: object,
        *,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[Any]:
        """Sends a request at once; the future is its response.

        As `send`, without waiting for a broker that reads slowly or has asked for
        time: see `quiet_seconds`.
        """
        how = request_format(api_name, version)
        correlation_id = self._write(how, message)
        if timeout_ms is None:
            timeout_ms = self._config.request_timeout_ms
        deadline = self.last_active + timeout_ms / 1000
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append(
            _Pending(correlation_id, how, deadline, timeout_ms, answer)
        )
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        return answer

    async def send_unanswered(
        self, api_name: str, version: int, message: object
    ) -> None:
        """Sends a request that has no response: Produce with acks=0.

        Returns once the transport has taken it.

        Raises:
            ConnectionFailedError: there is no connection any more.
            ClosedError: the connection was closed by this side.
        """
        await self._may_write()
        self._write(request_format(api_name, version), message)

    async def _may_write(self) -> None:
        """Waits while the broker does not read, or has asked for time."""
        while not self._can_write.is_set():
            await self._can_write.wait()

    def _write(self, how: RequestFormat, message: object) -> int:
        """Writes a request: its correlation id."""
        if self._failure is not None:
            raise self._failed_because(self._failure, how.api.name)
        assert self._transport is not None
        self._correlation_id = correlation_id = self._correlation_id + 1 & _INT32_MASK
        parts: list[Buffer] = [b"", self._client_id]
        if how.is_flexible:
            parts.append(b"\0")
        how.encode_into(message, parts.append)
        size = 8 + sum(map(len, parts))
        parts[0] = _HEAD(size, how.api.key, how.version, correlation_id)
        self._transport.write(b"".join(parts))
        self.last_active = self._loop.time()
        return correlation_id

    # -- calls of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        self._transport = cast("asyncio.Transport", transport)
        if self._failure is not None:
            self._transport.abort()
            return
        self.last_active = self._loop.time()
        self._arm_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the requests that are not answered."""
        self._fail(self._failed(str(exc) if exc else "the broker closed it"))
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """The broker does not read: `send` waits."""
        self._is_full = True
        self._can_write.clear()

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._is_full = False
        if self._quiet_timer is None:
            self._can_write.set()

    def data_received(self, data: bytes) -> None:
        """Hands the responses that these bytes complete to their waiters."""
        self.last_active = self._loop.time()
        try:
            frames = self._framer.feed(data)
            for buffer, start, end in frames:
                self._answer(buffer, start, end)
        except FrameSizeError as error:
            self.fail(f"this is no Kafka broker: {error}")
        except (ValueError, struct.error, IndexError) as error:
            self.fail(f"a response that cannot be read: {error}")

    def _answer(self, buffer: Received, start: int, end: int) -> None:
        (correlation_id,) = _CORRELATION_ID(buffer, start)
        pending = self._pending
        if not pending or pending[0].correlation_id != correlation_id:
            expected = pending[0].correlation_id if pending else "none"
            text = f"correlation id {correlation_id}, {expected} is due"
            raise ValueError(text)
        request = pending[0]
        how = request.format
        position = start + 4
        if how.is_tagged:
            position = skip_tags(buffer, position)
        decode = how.decode
        if how.api.key == API_VERSIONS:
            # Refusals are in version 0, for requests of any version (KIP-511).
            (code,) = _INT16(buffer, position)
            if code == ErrorCode.UNSUPPORTED_VERSION:
                decode = request_format("ApiVersions", 0).decode
        # Until it is read the request is the one that fails.
        response, _ = decode(buffer, position, end)
        pending.popleft()
        if how.holds_back and response.throttle_time_ms > 0:
            self._pause_sending(response.throttle_time_ms)
        if not request.answer.done():
            request.answer.set_result(response)

    # -- time

    def _pause_sending(self, throttle_time_ms: int) -> None:
        """Sends nothing for the throttle time: a quota was exceeded (KIP-219).

        The broker has answered at once, and reads nothing for as long.
        """
        until = self._loop.time() + throttle_time_ms / 1000
        if until <= self._quiet_until:
            return
        self._quiet_until = until
        self._can_write.clear()
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self._quiet_timer = self._loop.call_at(until, self._resume_sending)

    def _resume_sending(self) -> None:
        self._quiet_timer = None
        if not self._is_full:
            self._can_write.set()

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check_timers)

    def _arm_next(self) -> None:
        """Arms the timer for the next request that would be late, or for idleness.

        One timer does for all: heartbeats do not make one each.
        """
        idle_ms = self._config.connections_max_idle_ms
        times = [request.deadline for request in self._pending]
        if idle_ms >= 0:
            since = self._loop.time() if times else self.last_active
            times.append(since + max(idle_ms, 1) / 1000)
        if times:
            self._arm(min(times))

    def _check_timers(self) -> None:
        self._timer = None
        now = self._loop.time()
        if any(request.deadline <= now for request in self._pending):
            self._expire(now)
            return
        idle_ms = self._config.connections_max_idle_ms
        is_idle = 0 <= idle_ms <= (now - self.last_active) * 1000
        if is_idle and not self._pending:
            self._fail(self._failed(f"idle for {idle_ms} ms"))
            self._close_transport()
            return
        self._arm_next()

    def _expire(self, now: float) -> None:
        """Ends the connection because of late responses: those behind are, too."""
        late = [each for each in self._pending if each.deadline <= now]
        for request in late:
            if not request.answer.done():
                error = RequestTimedOutError(
                    f"no response within {request.timeout_ms} ms",
                    api=request.format.api.name,
                    broker=self.name,
                )
                request.answer.set_exception(error)
        self.fail(f"the response to {late[0].format.api.name} was late")

    # -- the end

    def close(self) -> None:
        """Closes after sending written bytes; unanswered requests fail.

        `wait_closed` waits until the transport is gone.
        """
        self._fail(ClosedError("the connection was closed", broker=self.name))
        self._close_transport()

    def abort(self) -> None:
        """Closes at once."""
        self._fail(ClosedError("the connection was closed", broker=self.name))
        if self._transport is not None:
            self._transport.abort()
        elif not self._closed.done():
            self._closed.set_result(None)

    async def wait_closed(self) -> None:
        """Returns when the transport is gone."""
        await asyncio.shield(self._closed)

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def fail(self, why: str) -> None:
        """Closes at once; unanswered requests fail with a retriable error."""
        self._fail(self._failed(why))
        self.abort()

    def _fail(self, error: KohortError) -> None:
        """Nothing is sent any more; all that is not answered has failed."""
        if self._failure is not None:
            return
        self._failure = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
            self._quiet_timer = None
        self._can_write.set()
        pending, self._pending = self._pending, deque()
        for request in pending:
            if not request.answer.done():
                failed = self._failed_because(error, request.format.api.name)
                request.answer.set_exception(failed)

    def _failed(
        self, what: str, *, retriable: bool | None = None
    ) -> ConnectionFailedError:
        return ConnectionFailedError(what, broker=self.name, retriable=retriable)

    def _failed_because(self, error: KohortError, api_name: str) -> KohortError:
        """The error that ended the connection, as one of a request."""
        return type(error)(error.message, api=api_name, broker=self.name)

    def error_of(
        self, code: int, api_name: str, message: str | None = None
    ) -> KohortError:
        """The error that a code of this broker stands for.

        Args:
            code: from a response.
            api_name: Kafka's name, as in ``JoinGroup``.
            message: the broker's own words, where it has some.
        """
        return error_of(code, api=api_name, broker=self.name, message=message)


def broker_name(host: str, port: int, node_id: int | None = None) -> str:
    """A broker as errors name it: "host:port (node 1)"."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return address if node_id is None else f"{address} (node {node_id})"
