"""A service that runs beside the body of a test: a coroutine, or a blocking call."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from kohort.testing.waiting import services_here

T = TypeVar("T")

PATIENCE_S: Final = 10.0
"""Time that a cancelled service has to end: clients leave their group meanwhile."""


@contextlib.asynccontextmanager
async def running(
    service: Coroutine[Any, Any, T],
) -> AsyncIterator[asyncio.Task[T]]:
    """Runs a coroutine as a task until the end of the block.

    If the service fails, the block ends at once with the service's error: a test that
    waits for its group does not wait in vain. At the end of the block the service is
    cancelled, and has ended when the block is left.

    Args:
        service: a coroutine, for example ``consume(kohort.bootstrap_servers)``.

    Raises:
        Exception: the error of the service.
        TimeoutError: the service goes on for `PATIENCE_S` after it was cancelled. If
            the block has failed, its own error is raised, with this as a note.
    """
    body = asyncio.current_task()
    assert body is not None
    task = asyncio.create_task(service)
    has_failed = False

    def ended(_: asyncio.Task[T]) -> None:
        nonlocal has_failed
        if not task.cancelled() and task.exception() is not None:
            has_failed = True
            body.cancel()

    task.add_done_callback(ended)
    try:
        try:
            yield task
        finally:
            failure = sys.exception()
            task.remove_done_callback(ended)
            if has_failed:
                # A body that awaited nothing since then is cancelled here.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            await _end(task, failure)
    except BaseException:
        if not has_failed:
            raise
    if has_failed and body.uncancel():
        # The test was cancelled as well.
        raise asyncio.CancelledError
    if not task.cancelled():
        task.result()


async def _end(task: asyncio.Task[Any], failure: BaseException | None) -> None:
    task.cancel()
    _, going_on = await asyncio.wait([task], timeout=PATIENCE_S)
    if going_on:
        name = getattr(task.get_coro(), "__qualname__", "the service")
        text = f"{name} goes on {PATIENCE_S:g} s after it was cancelled"
        if failure is None:
            raise TimeoutError(text)
        failure.add_note(text)


@contextlib.contextmanager
def in_thread(
    run: Callable[[], T], *, stop: Callable[[], object]
) -> Iterator[Future[T]]:
    """Calls a function in a separate thread until the end of the block.

    If it fails, a wait in the block for the broker or a program ends at once, with its
    error. Python cannot interrupt a thread: the function must return soon after `stop`.

    Args:
        run: the service.
        stop: called at the end of the block.

    Raises:
        Exception: the error of the service.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="service") as thread:
        future = thread.submit(run)
        services_here().add(future)
        try:
            yield future
        finally:
            services_here().remove(future)
            stop()
            future.result()
