"""The life cycle of a client: created, started once, closed once."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Awaitable, Callable
from typing import Self

from kohort.client.config import CommonConfig
from kohort.client.errors import ClosedError
from kohort.client.network.cluster import Cluster


class Lifecycle:
    """Start and close of a client.

    Args:
        client: its name in errors, such as ``producer``.
        api: the API in its errors, if any.

    Attributes:
        is_started: whether `start` has succeeded.
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
        """True if the client was closed."""
        return self._closed.is_set()

    def begin(self) -> None:
        """Begins the start.

        Raises:
            ClosedError: the client was started before, or closed.
        """
        if self._has_begun or self.is_closing:
            raise ClosedError(f"the {self._client} can be started only once")
        self._has_begun = True

    async def connect(self, cluster: Cluster) -> None:
        """Starts a client that needs only its cluster.

        Raises:
            ClosedError: the client was started before, or closed meanwhile.
            KohortError: no bootstrap server responds.
        """
        self.begin()
        await cluster.start()
        if self.is_closing:
            await cluster.close(0)
            raise self.closed_error()
        self.is_started = True

    def check(self, *, is_inside: bool = False) -> None:
        """Checks that a call is allowed.

        Args:
            is_inside: whether the listener makes it; for the listener the client is
                open until it returns.

        Raises:
            ClosedError: the client is not started, or was closed.
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
        """Begins the close; returns False if it had begun before."""
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
        """Returns when the client is closed, or after the time limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._closed.wait()

    async def close(self, timeout_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        """Closes the client by `work`; further calls wait until that is done."""
        if self.begin_close():
            await self.end_close(work)
        else:
            await self.wait_closed(timeout_ms)


class Client:
    """A client of any kind: ``async with`` starts and closes it.

    Attributes:
        config: the settings, with the client id that was made if none was set.
    """

    config: CommonConfig
    _life: Lifecycle

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        # `_warn` is bound here, as globals may be gone when the interpreter ends.
        life = getattr(self, "_life", None)  # missing after a ConfigError
        if life is not None and life.is_started and not life.is_closing:
            what = f"unclosed {self.config.owner} {self.config.client_id}"
            _warn(what, ResourceWarning, source=self)

    async def start(self) -> None:
        """Connects to the cluster."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends all connections."""
        raise NotImplementedError
