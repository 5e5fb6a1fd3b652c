"""Connections whose responses come late: ``response.delay.ms``."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.broker.clock import Timer
from kohort.broker.connection import Connection
from kohort.broker.request import Request
from kohort.protocol.fields import Buffer


class SlowConnection(Connection):
    """A connection that sends each response some time after it is ready.

    Until then its request counts as the one that is being handled. So the connection's
    later requests wait behind it, as they do at a broker that takes long, and the order
    of responses and back-pressure stay as they are. Only the response to ApiVersions in
    an unknown version is sent at once.

    Args:
        delay: seconds that a response waits.
        args: of a `Connection`.
    """

    __slots__ = ("_delay", "_late", "_timer")

    def __init__(self, delay: float, *args: Any) -> None:
        super().__init__(*args)
        self._delay = delay
        # The response that waits, and its timer.
        self._late: tuple[Request, list[Buffer]] | None = None
        self._timer: Timer

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the response later; a request without a response delays nothing."""
        if not parts:
            super().send(request, parts)
            return
        self._late = request, parts
        clock = self.node.cluster.clock
        self._timer = clock.call_at(clock.now() + self._delay, self._send_late)

    def close(self) -> asyncio.Future[None]:
        """Sends the response that waits, and closes."""
        self._frames.clear()
        if self._late is not None:
            self._timer.cancel()
            self._send_late()
        return super().close()

    def _send_late(self) -> None:
        late, self._late = self._late, None
        assert late is not None
        super().send(*late)
