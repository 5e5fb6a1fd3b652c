"""Waiting for the broker, in async and in blocking tests.

A method that waits returns a handle. In a test with a running event loop it returns at
once, and ``await`` waits; anywhere else the method itself waits. Both give the same
handle, so that a test reads alike in both worlds, and type checkers understand both:

    group = await kohort.group("billing").stable(members=2)     # async def
    group = kohort.group("billing").stable(members=2)           # def
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from kohort.broker.thread import trim
from kohort.testing.thread import BrokerThread

HERE: Final = str(Path(__file__).parent)
_OF_THREAD: Final = threading.local()


class Handle:
    """The outcome of a call that may have to wait.

    The work begins with the call, not with the ``await``.
    """

    _future: Future[Any] | None = None
    _is_awaited: bool = True

    def __await__(self) -> Generator[Any, None, Self]:
        """Waits for the work; returns the handle.

        Raises:
            Exception: the error of the work, as `ConditionTimeout`.
        """
        __tracebackhide__ = True
        self._is_awaited = True
        if self._future is not None:
            yield from _awaited(self._future)
        return self

    def result(self, timeout: float | None = None) -> Self:
        """Like ``await``, for code that cannot await; blocks the thread.

        Raises:
            TimeoutError: the work is not done after `timeout` seconds.
        """
        __tracebackhide__ = True
        self._is_awaited = True
        if self._future is not None:
            _blocked(self._future, timeout)
        return self

    @property
    def is_done(self) -> bool:
        """True if there is nothing to wait for."""
        return self._future is None or self._future.done()

    def _begin(self, future: Future[Any]) -> None:
        self._future = future
        self._is_awaited = False


H = TypeVar("H", bound=Handle)
T = TypeVar("T")


class Waits:
    """Starts the work of handles, and keeps those that a test has not awaited."""

    def __init__(self, thread: BrokerThread) -> None:
        self._thread = thread
        self._begun: list[tuple[Handle, str]] = []

    def begin(
        self,
        handle: H,
        work: Coroutine[Any, Any, object],
        words: str,
        *,
        wait: bool = True,
    ) -> H:
        """Begins the work of a handle; waits for it if no event loop runs here.

        Args:
            handle: the handle that is returned.
            work: runs on the broker's loop.
            words: the call, for an error about a missing ``await``.
            wait: False: only begins, also in a blocking test.
        """
        __tracebackhide__ = True
        handle._begin(self._thread.submit(work))  # noqa: SLF001 - of this module
        if not wait:
            return handle
        if in_event_loop():
            self._begun.append((handle, f"{words} at {_caller()}"))
            return handle
        return handle.result()

    def forgotten(self) -> list[str]:
        """The calls that were not awaited, in words; forgets them."""
        begun, self._begun = self._begun, []
        return [words for handle, words in begun if not handle._is_awaited]  # noqa: SLF001 - of this module


def in_event_loop() -> bool:
    """True if an event loop runs in this thread: asyncio's or trio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _in_trio()
    return True


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def _awaited(future: Future[T]) -> Generator[Any, None, T]:
    __tracebackhide__ = True
    try:
        if _in_trio():
            return (yield from _in_trio_thread(future.result).__await__())
        return (yield from asyncio.wrap_future(future).__await__())
    except BaseException as error:
        trim(error)
        raise


async def _in_trio_thread(function: Callable[[], T]) -> T:
    found: T = await sys.modules["trio"].to_thread.run_sync(
        function, abandon_on_cancel=True
    )
    return found


def services_here() -> set[Future[Any]]:
    """The services that run beside this thread; a blocking wait ends if one fails."""
    services: set[Future[Any]] = _OF_THREAD.__dict__.setdefault("services", set())
    return services


def _heed_services(future: Future[Any], timeout: float | None) -> bool:
    """Raises the error of a service that fails before the future is done.

    Returns:
        Whether `timeout` is over.
    """
    __tracebackhide__ = True
    services = {*services_here()}
    while services:
        done, _ = wait({future, *services}, timeout, FIRST_COMPLETED)
        if not done or future in done:
            return not done
        for service in done:
            service.result()
        services -= done
    return False


def _blocked(future: Future[T], timeout: float | None) -> T:
    __tracebackhide__ = True
    try:
        is_late = _heed_services(future, timeout)
        return future.result(0 if is_late else timeout)
    except BaseException as error:
        # A time-out, a service's failure, or Ctrl-C: the work ends with the wait.
        future.cancel()
        trim(error)
        raise


def _caller() -> str:
    """The place of the test that called: "test_billing.py:12"."""
    frame = sys._getframe()  # noqa: SLF001 - as logging and warnings do
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
