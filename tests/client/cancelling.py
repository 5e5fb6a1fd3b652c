"""Cancellation at each await of a coroutine in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any


class _CancelledAt:
    """Runs a coroutine; cancels its task at the nth await."""

    def __init__(self, coroutine: Coroutine[Any, Any, object], at: int) -> None:
        self.coroutine = coroutine
        self.at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, object]:
        inner = self.coroutine.__await__()
        resume: Callable[[Any], Any] = inner.send
        value: Any = None
        while True:
            try:
                awaited = resume(value)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self.at:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                value = yield awaited
                resume = inner.send
            except BaseException as error:  # noqa: BLE001 - it is handed on
                value, resume = error, inner.throw


async def cancel_at_every_await(
    make: Callable[[], Coroutine[Any, Any, object]],
    afterwards: Callable[[], Awaitable[None]],
) -> int:
    """Runs a coroutine again and again, cancelled at its 1st, 2nd, ... await.

    Args:
        make: makes the coroutine.
        afterwards: checks the state after each of them.

    Returns:
        The number of cancellations, until the coroutine finished.
    """
    at = 0
    while True:
        at += 1
        run = _CancelledAt(make(), at)

        async def perform(run: _CancelledAt = run) -> object:
            return await run

        (outcome,) = await asyncio.gather(
            asyncio.create_task(perform()), return_exceptions=True
        )
        await afterwards()
        if run.waits < at:
            if isinstance(outcome, BaseException):
                raise outcome
            return at - 1
        assert isinstance(outcome, asyncio.CancelledError), outcome
