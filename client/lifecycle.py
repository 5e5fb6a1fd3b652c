"""The life of a client: it is made, started once, and closed once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from kohort.client.errors import ClosedError
from kohort.client.network.cluster import Cluster


class Lifecycle:
    """Start and close of a client.

    Args:
        client: the client as errors name it, as in ``producer``.
        api: the API that errors name, if the client has one.

    Attributes:
        is_started: whether calls are possible, unless it is closed.
        is_closing: whether `close` was called.
    """

    def __init__(self, client: str, api: str | None = None) -> None:
        self.is_started = False
        self.is_closing = False
        self._client = client
        self._api = api
        self._has_begun = False
        self._closed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._closed.is_set()

    def begin(self) -> None:
        """Begins the start.

        Raises:
            ClosedError: it was begun before, or the client was closed.
        """
        if self._has_begun or self.is_closing:
            raise ClosedError(f"the {self._client} can be started only once")
        self._has_begun = True

    async def connect(self, cluster: Cluster) -> None:
        """Starts a client that needs no more than its cluster.

        Raises:
            ClosedError: it was started before, or closed meanwhile.
            KohortError: no bootstrap server answers.
        """
        self.begin()
        await cluster.start()
        if self.is_closing:
            await cluster.close(0)
            raise self.closed_error()
        self.is_started = True

    def check(self, *, is_inside: bool = False) -> None:
        """Lets a call pass.

        Args:
            is_inside: whether it is made by the listener, for which the client is
                open until it has returned.

        Raises:
            ClosedError: the client was closed, or is not started.
        """
        if self.is_started and not self.is_closing:
            return
        if self.is_closed or (self.is_closing and not is_inside):
            raise self.closed_error()
        if not self.is_started:
            raise ClosedError(f"the {self._client} was not started", api=self._api)

    def closed_error(self) -> ClosedError:
        """The error of calls after the close."""
        return ClosedError(f"the {self._client} was closed", api=self._api)

    def begin_close(self) -> bool:
        """Begins the close; False if it was begun before."""
        was_closing, self.is_closing = self.is_closing, True
        return not was_closing

    async def end_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """Closes the client by `work`, if it was started at all."""
        try:
            if self.is_started:
                await work()
        finally:
            self._closed.set()

    async def wait_closed(self, timeout_ms: int) -> None:
        """Returns when the client is closed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._closed.wait()

    async def close(self, timeout_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        """Closes the client by `work`; further calls wait until that is done."""
        if self.begin_close():
            await self.end_close(work)
        else:
            await self.wait_closed(timeout_ms)
