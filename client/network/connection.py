"""One TCP connection to a broker: sends requests, receives responses in their order.

Requests are pipelined. A broker answers in the order of the requests, so the next
response belongs to the oldest request, even if its caller was cancelled: the request
stays in the queue, and its response is dropped. If a response is late, the connection
is closed, as in the Java client: it delays all later responses.

If the session has a lifetime (KIP-368), the first request near its end makes the
connection authenticate again. `ready` starts that, and all other requests wait in it:
the broker accepts none between the requests of SASL. Responses to earlier requests
come before those of SASL.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from typing import Any, Self, cast

from kohort.client.config import CommonConfig
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    KohortError,
    RequestTimedOutError,
    error_of,
)
from kohort.client.network.api_versions import (
    Supported,
    Versions,
    ask_versions,
    newest_common,
)
from kohort.client.network.receiving import Receiver
from kohort.client.network.request_format import RequestFormat, request_format
from kohort.client.network.session import Session
from kohort.client.network.sockets import Connect, connect, reason_of
from kohort.client.security import Authenticate
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import FrameSizeError
from kohort.protocol.generated_calls import Source, skip_tags
from kohort.protocol.registry import API_VERSIONS, BY_NAME
from kohort.protocol.slotted import slotted

SASL_HANDSHAKE = BY_NAME["SaslHandshake"].key
LARGEST_RESPONSE = 1024 * 1024 * 1024
"""Maximum bytes of a response. More than brokers send; "HTTP" as a size is larger."""
LARGEST_FIRST_RESPONSE = 1024 * 1024
"""Bytes, until the client is authenticated; the alert of a peer that wants TLS is more
as a size."""

_TLS_RECORDS = {0x1503, 0x1603}
"""The first bytes of a size that is a TLS record: an alert, or a handshake."""

_HEAD = struct.Struct(">ihhi").pack
_CORRELATION_ID = struct.Struct(">i").unpack_from
_INT16 = struct.Struct(">h").unpack_from
_INT32_MASK = 0x7FFF_FFFF


@slotted
class _Pending:
    """A request that has not been answered."""

    correlation_id: int
    format: RequestFormat
    deadline: float
    timeout_ms: int
    answer: asyncio.Future[Any]


class Connection(asyncio.BufferedProtocol):
    """One connection to a broker; `open` makes it.

    Args:
        config: timeouts, the idle limit, the client id.
        host: of the broker.
        port: of the broker.
        node_id: of the broker; None if unknown.
        authenticate: called after ApiVersions, and again before its session ends.

    Attributes:
        supported: the broker's versions and features.
        last_active: time of the last byte sent or received, on the event loop's clock.
        has_served: whether a response to anything but ApiVersions has come.
    """

    def __init__(
        self,
        config: CommonConfig,
        host: str,
        port: int,
        node_id: int | None = None,
        authenticate: Authenticate | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.supported = Supported({}, {}, -1)
        self.last_active = 0.0
        self.has_served = False
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._session = Session(authenticate, self._loop.time)
        self._authentication: asyncio.Task[None] | None = None
        self._receiver = Receiver(LARGEST_FIRST_RESPONSE)
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
        # The latest repeated request, and its bytes behind the correlation id.
        self._repeated: tuple[object, RequestFormat | None, bytes] = None, None, b""
        self._negotiated: dict[tuple[str, Versions | None], int] = {}

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Connection to {self.name}, {state}, {self.in_flight} in flight>"

    @property
    def name(self) -> str:
        """The broker's name in errors: "host:port (node 1)"."""
        return broker_name(self.host, self.port, self.node_id)

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self._transport is not None and self._failure is None

    @property
    def in_flight(self) -> int:
        """Requests without a response."""
        return len(self._pending)

    @property
    def quiet_seconds(self) -> float:
        """Seconds for which the broker throttles the client (KIP-219).

        `send` waits that long; callers of `post` must do so themselves.
        """
        return max(0.0, self._quiet_until - self._loop.time())

    @property
    def is_ready(self) -> bool:
        """True if `post` may be called at once: `ready` would not wait."""
        return (
            self._failure is None
            and self._transport is not None
            and self._can_write.is_set()
            and not self._session.is_over
        )

    @property
    def needs_authentication(self) -> bool:
        """True if the connection has to authenticate again first, or does so now.

        `send` waits for that; callers of `post` have to await `ready`.
        """
        return self._authentication is not None or self._session.is_over

    # -- the start

    @classmethod
    async def open(
        cls,
        config: CommonConfig,
        host: str,
        port: int,
        node_id: int | None = None,
        authenticate: Authenticate | None = None,
        connect: Connect = connect,
    ) -> Self:
        """Connects, asks for the broker's versions, and authenticates.

        Cancelled, it leaves no connection behind.

        Raises:
            ConnectionFailedError: no answer, or not that of a broker, or it took longer
                than ``socket.connection.setup.timeout.ms``.
            KohortError: from `authenticate`.
        """
        self = cls(config, host, port, node_id, authenticate)
        limit_ms = config.socket_connection_setup_timeout_ms
        seconds = limit_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                await connect(self, host, port, config.tls, seconds)
                self.supported = await ask_versions(self)
                await self._session.authenticate(_Authenticating(self))
                self._expect_whole_responses()
        except BaseException as error:
            self.abort()
            if isinstance(error, TimeoutError):
                what = f"not connected within {limit_ms} ms"
                raise self._failed(what) from None
            if isinstance(error, OSError):
                # A wrong certificate is not retried.
                retriable = False if isinstance(error, ssl.SSLError) else None
                what = reason_of(error) or "the broker closed it"
                raise self._failed(what, retriable=retriable) from error
            if isinstance(error, KohortError):
                error.fill(broker=self.name)
            raise
        return self

    async def check_that_no_sasl_is_wanted(self) -> None:
        """Asks for a mechanism: a listener with SASL closes on all other requests.

        Raises:
            ConnectionFailedError: the listener uses SASL; not retriable.
        """
        if not self._session.is_needed and SASL_HANDSHAKE in self.supported.versions:
            request = SaslHandshakeRequest("PLAIN")
            limit_ms = self._config.socket_connection_setup_timeout_ms
            answer = await self.send("SaslHandshake", 1, request, timeout_ms=limit_ms)
            if answer.error_code != ErrorCode.ILLEGAL_SASL_STATE:
                self.abort()
                is_tls = self._config.security_protocol == "SSL"
                protocol = "SASL_SSL" if is_tls else "SASL_PLAINTEXT"
                what = (
                    f"the listener wants SASL ({', '.join(answer.mechanisms)}): "
                    f"try security_protocol={protocol!r}"
                )
                raise self._failed(what, retriable=False)

    def _expect_whole_responses(self) -> None:
        """Takes responses of any size, now that the peer is known to be a broker."""
        if self._receiver.unfinished:
            self.fail("more bytes came than the responses have")
        self._receiver = Receiver(LARGEST_RESPONSE)

    # -- authentication

    async def _authenticate_again(self) -> None:
        limit_ms = self._config.socket_connection_setup_timeout_ms
        failure: KohortError | None = None
        try:
            async with asyncio.timeout(limit_ms / 1000 + self._backlog_seconds()):
                await self._session.authenticate(_Authenticating(self))
        except TimeoutError:
            failure = self._failed(f"not authenticated again within {limit_ms} ms")
        except OSError as error:
            failure = self._failed(str(error))
        except KohortError as error:
            failure = error
        self._authentication = None
        if failure is not None:
            self._fail(failure)
            self.abort()
        self._resume_sending()

    def _backlog_seconds(self) -> float:
        """Seconds until the last response is late."""
        last = max((each.deadline for each in self._pending), default=0.0)
        return max(0.0, last - self._loop.time())

    async def send_unheld(self, api_name: str, version: int, message: object) -> Any:
        """As `send`, for authentication, which does not wait for itself."""
        timeout_ms = self._config.request_timeout_ms + self._backlog_seconds() * 1000
        return await self.post(api_name, version, message, timeout_ms=int(timeout_ms))

    # -- requests

    def version(self, api_name: str, versions: Versions | None = None) -> int:
        """The newest version of an API that both sides have.

        Args:
            api_name: Kafka's name, as in ``JoinGroup``.
            versions: (lowest, highest) to use; None for all that kohort has.

        Raises:
            UnsupportedVersionError: there is none.
        """
        key = api_name, versions
        version = self._negotiated.get(key)
        if version is None:
            theirs = self.supported.versions
            version = newest_common(api_name, versions, theirs, self.name)
            self._negotiated[key] = version
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

        If cancelled before the request is written, nothing is sent; if later, its
        response is dropped.

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
        await self.ready()
        return await self.post(api_name, version, message, timeout_ms=timeout_ms)

    def post(
        self,
        api_name: str,
        version: int,
        message: object,
        *,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[Any]:
        """Sends a request immediately; returns a future of its response.

        Unlike `send`, it does not wait for a broker that reads slowly or throttles, or
        for authentication: see `quiet_seconds` and `needs_authentication`.
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

        Returns when the transport has accepted it.

        Raises:
            ConnectionFailedError: the connection has ended.
            ClosedError: the connection was closed by this side.
        """
        await self.ready()
        self._write(request_format(api_name, version), message)

    async def ready(self) -> None:
        """Waits until a request may be written.

        Waits while the broker does not read or throttles the client, and for a due
        authentication. Also returns if the connection has ended.
        """
        while not self._can_write.is_set() or self._begins_authentication():
            await self._can_write.wait()

    def _begins_authentication(self) -> bool:
        if self._failure is not None or not self._session.is_over:
            return False
        self._can_write.clear()
        self._authentication = self._loop.create_task(self._authenticate_again())
        return True

    def _write(self, how: RequestFormat, message: object) -> int:
        """Writes a request; returns its correlation id."""
        if self._failure is not None:
            raise self._failed_because(self._failure, how.api.name)
        assert self._transport is not None
        self._correlation_id = correlation_id = self._correlation_id + 1 & _INT32_MASK
        latest, its_format, rest = self._repeated
        if message is latest and how is its_format:
            head = _HEAD(8 + len(rest), how.api.key, how.version, correlation_id)
            self._transport.write(head + rest)
        else:
            parts: list[Buffer] = [b"", self._client_id]
            if how.is_flexible:
                parts.append(b"\0")
            how.encode_into(message, parts.append)
            if how.is_repeated:
                self._repeated = message, how, b"".join(parts)
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
        """Fails all unanswered requests."""
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
        self._resume_sending()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """The memory for the next bytes."""
        return self._receiver.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Delivers the responses that these bytes complete."""
        self.last_active = self._loop.time()
        try:
            for buffer, start, end in self._receiver.filled(nbytes):
                self._answer(buffer, start, end)
        except FrameSizeError as error:
            if error.size >> 16 in _TLS_RECORDS:
                what = "the listener speaks TLS: try security_protocol='SSL'"
                self._fail(self._failed(f"{what} or 'SASL_SSL'", retriable=False))
                self.abort()
            else:
                self.fail(f"not a Kafka broker: {error}")
        except (ValueError, struct.error, IndexError) as error:
            self.fail(f"invalid response: {error}")

    def _answer(self, buffer: Source, start: int, end: int) -> None:
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
            # A refusal has version 0, whatever the request's version (KIP-511).
            (code,) = _INT16(buffer, position)
            if code == ErrorCode.UNSUPPORTED_VERSION:
                decode = request_format("ApiVersions", 0).decode
        # If the response cannot be read, this request fails.
        response, _ = decode(buffer, position, end)
        self.has_served |= how.api.key != API_VERSIONS
        pending.popleft()
        if how.holds_back and response.throttle_time_ms > 0:
            self._pause_sending(response.throttle_time_ms)
        if not request.answer.done():
            request.answer.set_result(response)

    # -- time

    def _pause_sending(self, throttle_time_ms: int) -> None:
        """Sends nothing for the throttle time: a quota was exceeded (KIP-219).

        The broker has responded immediately, and reads nothing for this time.
        """
        until = self._loop.time() + throttle_time_ms / 1000
        if until <= self._quiet_until:
            return
        self._quiet_until = until
        self._can_write.clear()
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
        self._quiet_timer = self._loop.call_at(until, self._end_pause)

    def _end_pause(self) -> None:
        self._quiet_timer = None
        self._resume_sending()

    def _resume_sending(self) -> None:
        is_held = self._quiet_timer is not None or self._authentication is not None
        if not self._is_full and not is_held:
            self._can_write.set()

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check_timers)

    def _arm_next(self) -> None:
        """Arms the timer for the next late response, or for idleness.

        One timer for all requests is cheaper than one for each heartbeat.
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
        """Closes the connection because of late responses."""
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

    # -- close

    def close(self) -> None:
        """Closes after sending written bytes; unanswered requests fail.

        `wait_closed` waits until the transport is gone.
        """
        self._fail(ClosedError("the connection was closed", broker=self.name))
        self._close_transport()

    def abort(self) -> None:
        """Closes immediately."""
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
        """Closes immediately; unanswered requests fail with a retriable error."""
        self._fail(self._failed(why))
        self.abort()

    def _fail(self, error: KohortError) -> None:
        """Ends the connection, and fails all unanswered requests."""
        if self._failure is not None:
            return
        self._failure = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._quiet_timer is not None:
            self._quiet_timer.cancel()
            self._quiet_timer = None
        if self._authentication is not None:
            self._authentication.cancel()
            self._authentication = None
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
        """The error that ended the connection, for one request."""
        return type(error)(
            error.message,
            api=api_name,
            broker=self.name,
            code=error.code,
            retriable=error.retriable,
        )

    def error_of(
        self, code: int, api_name: str, message: str | None = None
    ) -> KohortError:
        """Makes the error of an error code from this broker.

        Args:
            code: from a response.
            api_name: Kafka's name, as in ``JoinGroup``.
            message: the broker's message, if it sent one.
        """
        return error_of(code, api=api_name, broker=self.name, message=message)


class _Authenticating:
    """The connection as it is passed to authentication, see `NewConnection`."""

    def __init__(self, connection: Connection) -> None:
        self.version = connection.version
        self.send = connection.send_unheld
        self.error_of = connection.error_of


def broker_name(host: str, port: int, node_id: int | None = None) -> str:
    """A broker's name in errors: "host:port (node 1)"."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return address if node_id is None else f"{address} (node {node_id})"
