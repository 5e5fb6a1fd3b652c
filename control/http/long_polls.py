"""Long polls: requests that wait until something becomes true."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from aiohttp import web

from kohort.control.conditions import BrokerStoppedError, ConditionTimeout

MOST_POLLS: Final = 100
"""Most requests that wait at once: each is a connection, and checks every event."""


class LongPolls:
    """The waiting requests; if its client disconnects, a request stops waiting."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._waits)

    async def wait(self, awaited: Coroutine[Any, Any, None]) -> None:
        """Waits for a condition.

        Raises:
            web.HTTPGatewayTimeout: the condition was not met in time.
            web.HTTPServiceUnavailable: `MOST_POLLS` requests wait, or the broker or the
                server stops.
        """
        if self._is_closed or len(self) >= MOST_POLLS:
            awaited.close()
            raise web.HTTPServiceUnavailable(
                text=_STOPS
                if self._is_closed
                else f"{MOST_POLLS} requests are already waiting"
            )
        task = asyncio.create_task(awaited)
        self._waits.add(task)
        try:
            await task
        except ConditionTimeout as error:
            raise web.HTTPGatewayTimeout(text=str(error)) from None
        except BrokerStoppedError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None
        except asyncio.CancelledError:
            if self._is_closed:
                raise web.HTTPServiceUnavailable(text=_STOPS) from None
            raise
        finally:
            self._waits.discard(task)

    async def close(self, _: web.Application) -> None:
        """Ends all waits; otherwise a stopping server would wait for them."""
        self._is_closed = True
        for task in self._waits:
            task.cancel()


_STOPS: Final = "the broker stops"
