"""An event loop in a separate thread: for a broker that blocking code uses.

A test with an event loop does not share it with the broker, either: code under test
that blocks its loop does not block the broker. A thread and a loop take 0.2 ms to make,
so each test has new ones, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar

from kohort.broker.loop import run

P = ParamSpec("P")
T = TypeVar("T")


class StoppedError(RuntimeError):
    """A broker was used after it has stopped, for example by a test that has ended."""


def trim(error: BaseException) -> None:
    """Takes kohort's own frames from an error that comes out of the broker's thread.

    An error of kohort's own says all in its message, and pytest shows the line of the
    test alone. Any other error keeps the frames that led to it.
    """
    if type(error).__module__.startswith("kohort."):
        error.__traceback__ = None


class LoopThread:
    """Runs an event loop in a thread until `stop`, with a context open on it.

    Args:
        context: entered on the loop by `start` and left by `stop`; usually a `Broker`.

    Attributes:
        faults: errors on the loop that no request or caller has seen.
    """

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        self.faults: list[BaseException] = []
        self._context = context
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        # A daemon: an interrupted program ends although its broker still runs.
        self._thread = threading.Thread(target=self._main, name="kohort", daemon=True)
        self._is_guest = False

    def start(self) -> None:
        """Starts the thread; when it returns, the context has been entered.

        Raises:
            BaseException: the error of entering the context; for a broker OSError if
                the address cannot be listened on, or DataDirError.
        """
        self._thread.start()
        self._loop = self._started.result()

    def join(self, host: LoopThread) -> None:
        """Uses a running thread, in place of `start`; `stop` lets it run on."""
        self._loop, self._thread = host._running(), host._thread
        self._is_guest = True

    def stop(self) -> None:
        """Leaves the context and ends the thread; further calls do nothing."""
        loop, self._loop = self._loop, None
        if loop is not None and not self._is_guest:
            loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def raise_faults(self) -> None:
        """Raises the errors that only the loop has seen, if there are any.

        Raises:
            BaseExceptionGroup: of `faults`.
        """
        if self.faults:
            raise BaseExceptionGroup("errors in the broker's thread", self.faults)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function on the loop and waits for its result.

        The calling thread is held up for that time: less than a millisecond.
        """
        __tracebackhide__ = True
        if threading.current_thread() is self._thread:
            return function(*args, **kwargs)
        result: Future[T] = Future()

        def work() -> None:
            try:
                result.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                result.set_exception(error)

        self._running().call_soon_threadsafe(work)
        try:
            return result.result()
        except BaseException as error:
            trim(error)
            raise

    def read(self, function: Callable[[], T]) -> T:
        """Like `call`; a broker that has stopped can still be read."""
        return function() if self._loop is None else self.call(function)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts a coroutine on the loop."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._running())
        except StoppedError:
            work.close()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise StoppedError("the broker has stopped: its block or test has ended")
        return self._loop

    def _main(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `start` or the test raises it
            if self._started.done():
                self.faults.append(error)
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_fault)
        async with self._context:
            self._started.set_result(loop)
            await self._ended.wait()

    def _on_fault(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
    ) -> None:
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
        else:
            self.faults.append(error)
