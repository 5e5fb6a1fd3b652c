"""A connection to one broker, opened on demand and reopened after a failure."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from kohort.client.config import CommonConfig
from kohort.client.errors import ClosedError, KohortError
from kohort.client.network.connection import Connection, broker_name
from kohort.client.network.sockets import Connect
from kohort.client.security import Authenticate

log = logging.getLogger("kohort.client")

T = TypeVar("T")

JITTER = 0.2
"""Fraction by which back-offs vary, so that clients do not reconnect all at once."""


class Backoff:
    """Waits that double, up to a limit, with jitter (KIP-580).

    Args:
        first_ms: wait before the second attempt.
        most_ms: the limit, before jitter.
        random: source of jitter.
    """

    def __init__(self, first_ms: int, most_ms: int, random: Random) -> None:
        self._first_ms = first_ms
        self._most_ms = max(first_ms, most_ms)
        self._random = random

    def seconds(self, failures: int) -> float:
        """The back-off after a number of failures in a row, at least one."""
        doubled = self._first_ms * 2.0 ** min(failures - 1, 31)
        jitter = self._random.uniform(1 - JITTER, 1 + JITTER)
        return min(doubled, self._most_ms) * jitter / 1000


class Link:
    """At most one connection to one address, opened on demand.

    Args:
        authenticate: for each connection; see `Connection`.
        backoff: the waits after failed attempts to connect.
        unreachable: hosts and ports already logged as unreachable; shared by all
            links of a client, so that each is logged once.

    Attributes:
        retry_at: the time of the next attempt, after a failed one.
    """

    def __init__(
        self,
        config: CommonConfig,
        host: str,
        port: int,
        node_id: int | None,
        authenticate: Authenticate | None,
        backoff: Backoff,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        connect: Connect,
        unreachable: set[tuple[str, int]],
    ) -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.retry_at = float("-inf")
        self._config = config
        self._authenticate = authenticate
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._connect_to = connect
        self._unreachable = unreachable
        self._failures = 0
        self._connection: Connection | None = None
        self._attempt: asyncio.Task[Connection] | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        """The broker's name in errors."""
        return broker_name(self.host, self.port, self.node_id)

    @property
    def current(self) -> Connection | None:
        """The connection, if there is one."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    def at_hand(self) -> Connection | None:
        """The connection, if it can send at once."""
        connection = self._connection
        return connection if connection is not None and connection.is_ready else None

    async def connection(self) -> Connection:
        """The connection; opens one if necessary.

        All waiters share one attempt; it continues if one of them is cancelled. After
        a failed attempt, it waits for the back-off.

        Raises:
            ConnectionFailedError: the attempt failed.
            ClosedError: the client was closed.
        """
        if self._is_closed:
            raise ClosedError("the client was closed", broker=self.name)
        current = self.current
        if current is not None:
            return current
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect())
            self._attempt.add_done_callback(self._attempt_done)
        return await shared(self._attempt, self.name)

    async def _connect(self) -> Connection:
        delay = self.retry_at - self._clock()
        if delay > 0:
            await self._sleep(delay)
        before = self._connection
        try:
            connection = await Connection.open(
                self._config,
                self.host,
                self.port,
                self.node_id,
                self._authenticate,
                self._connect_to,
            )
            if before is not None and not before.has_served:
                await connection.check_that_no_sasl_is_wanted()
        except Exception as error:
            self._failures += 1
            self.retry_at = self._clock() + self._backoff.seconds(self._failures)
            if isinstance(error, KohortError) and error.retriable:
                self._report_unreachable(error)
            raise
        if (self.host, self.port) in self._unreachable:
            self._unreachable.discard((self.host, self.port))
            log.info("%s: %s can be reached again", self._config.client_id, self.name)
        self._failures = 0
        self.retry_at = float("-inf")
        self._connection = connection
        return connection

    def _report_unreachable(self, error: KohortError) -> None:
        """Logs a retried error once, so that the client does not seem to hang."""
        if (self.host, self.port) not in self._unreachable:
            self._unreachable.add((self.host, self.port))
            client, reason = self._config.client_id, error.message
            log.warning("%s: %s cannot be reached: %s", client, self.name, reason)

    def _attempt_done(self, attempt: asyncio.Task[Connection]) -> None:
        self._attempt = None
        retrieve(attempt)

    def is_now_known_as(self, node_id: int) -> None:
        """Sets the id of the node at this address."""
        self.node_id = node_id
        if self._connection is not None:
            self._connection.node_id = node_id

    def close(self) -> None:
        """Closes the connection or stops the attempt; there are no more."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._connection is not None:
            self._connection.close()

    def drop(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.fail("the broker is no longer needed")

    def abort(self) -> None:
        """Closes the connection without sending written bytes."""
        if self._connection is not None:
            self._connection.abort()

    async def wait_closed(self) -> None:
        """Returns when the connection is closed."""
        if self._attempt is not None:
            await asyncio.wait([self._attempt])
        if self._connection is not None:
            await self._connection.wait_closed()


def reluctance(link: Link) -> tuple[int, float]:
    """A sort key for choosing a broker; the smallest is the best."""
    current = link.current
    if current is None:
        return 1, link.retry_at
    # A throttling broker gets no requests for that time (KIP-219).
    quiet = current.quiet_seconds
    return (2, quiet) if quiet else (0, current.in_flight)


def retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieves the error of a task that may have no waiter."""
    if not task.cancelled():
        task.exception()


async def shared(task: asyncio.Task[T], broker: str | None = None) -> T:
    """The result of a task that several callers wait for.

    Cancelling a waiter does not cancel the task.

    Raises:
        ClosedError: the task was cancelled because the client was closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiter = asyncio.current_task()
        if task.cancelled() and not (waiter is not None and waiter.cancelling()):
            raise ClosedError("the client was closed", broker=broker) from None
        raise
    except KohortError as error:
        # Each waiter gets a copy, and sets its API and topic in it.
        raise copy.copy(error) from error.__cause__
