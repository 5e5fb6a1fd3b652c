"""Virtual time: one heap of callbacks, and the processes that they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")

START: Final = 1_767_225_600.0
"""The time at which each simulation begins: 2026-01-01, in seconds since the epoch."""
FEWEST_CANCELLED: Final = 10_000
"""Cancelled callbacks in the heap from which it is cleared of them."""
_FEW_TASKS: Final = 32
MOST_AT_ONCE: Final = 5_000_000
"""Callbacks at one time. 10,000 members that join together need a tenth of that; more
are a loop."""


class SimulationError(Exception):
    """Code of a simulated process has raised an exception: a defect of kohort."""


class Handle:
    """A callback that is due; the same as an `asyncio.TimerHandle`."""

    __slots__ = ("_when", "args", "callback", "context", "process")

    def __init__(
        self,
        process: Process,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        self.process = process
        self._when = when
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Cancels the callback."""
        if self.callback is not None:
            self.callback = None
            self.args = ()
            self.process.scheduler.count_cancelled()

    def run(self) -> None:
        """Calls it, unless it was cancelled."""
        callback, context = self.callback, self.context
        if callback is None:
            return
        self.callback = None
        if context is None:
            callback(*self.args)
        else:
            context.run(callback, *self.args)

    def cancelled(self) -> bool:
        """True if it was cancelled, or called."""
        return self.callback is None

    def when(self) -> float:
        """The time at which it is due."""
        return self._when


_Row = tuple[float, int, "Process", Callable[..., object] | None, Any]
"""The time, the order, the process, and a callback with its arguments; None and a
`Handle`, if it can be cancelled."""


class Scheduler:
    """Calls callbacks in the order of their times; those of one time in turn.

    Args:
        seed: determines all randomness.

    Attributes:
        seed: see Args.
        now: the virtual time, in seconds since the epoch.
        errors: exceptions of processes that no code has handled.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = START
        self.errors: list[BaseException] = []
        self._heap: list[_Row] = []
        self._ready: deque[_Row] = deque()
        self._order = 0
        self._cancelled = 0

    def random(self, actor: str) -> Random:
        """A stream of randomness for an actor, independent of the others."""
        return Random(f"{self.seed}/{actor}")

    def soon(
        self,
        process: Process,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None = None,
    ) -> Handle:
        """Calls a function of a process after those that are due now."""
        handle = Handle(process, self.now, callback, args, context)
        self._ready.append((self.now, 0, process, None, handle))
        return handle

    def at(
        self,
        when: float,
        process: Process,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None = None,
    ) -> Handle:
        """Calls a function of a process at a time."""
        handle = Handle(process, when, callback, args, context)
        self._order = order = self._order + 1
        heapq.heappush(self._heap, (when, order, process, None, handle))
        return handle

    def deliver(
        self,
        when: float,
        process: Process,
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """The same, if it is never cancelled: half the cost."""
        self._order = order = self._order + 1
        heapq.heappush(self._heap, (when, order, process, callback, args))

    def count_cancelled(self) -> None:
        """Notes a cancelled callback; clears the heap when most of it is cancelled."""
        self._cancelled += 1
        if self._cancelled > FEWEST_CANCELLED and (
            2 * self._cancelled > len(self._heap)
        ):
            self._heap = [
                row for row in self._heap if row[3] or row[4].callback is not None
            ]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def run(self, until: float) -> None:
        """Calls all that is due until a time, which is then the present.

        Raises:
            SimulationError: a process failed.
        """
        with _as_running(None):
            self._run(until)
        self.now = max(self.now, until)

    def _run(self, until: float) -> None:
        ready, running, left = self._ready, None, MOST_AT_ONCE
        while True:
            if ready:
                row = ready.popleft()
            else:
                # `count_cancelled` may have replaced it.
                heap = self._heap
                if not heap or heap[0][0] > until:
                    return
                row = heapq.heappop(heap)
                if row[0] > self.now:
                    self.now = row[0]
                    left = MOST_AT_ONCE
            _, _, process, callback, args = row
            if process.resumes_at > self.now:
                self._postpone(row)
                continue
            if process is not running:
                running = process
                asyncio._set_running_loop(process.loop)  # noqa: SLF001 - for loops
            if callback is not None:
                callback(*args)
            else:
                args.run()
            left -= 1
            if not left:
                raise SimulationError(f"time stands still in {process.name}")
            if self.errors:
                raise SimulationError(repr(self.errors[0])) from self.errors[0]

    def _postpone(self, row: _Row) -> None:
        """Keeps a callback until its process goes on; drops that of a dead one."""
        when = row[2].resumes_at
        if when != math.inf:
            self._order += 1
            heapq.heappush(self._heap, (when, self._order, *row[2:]))


@contextlib.contextmanager
def _as_running(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Makes a loop the running one of this thread, for a block."""
    before = asyncio._get_running_loop()  # noqa: SLF001 - made for loops
    asyncio._set_running_loop(loop)  # noqa: SLF001 - likewise
    try:
        yield
    finally:
        asyncio._set_running_loop(before)  # noqa: SLF001 - likewise


class Process:
    """A simulated process, and the event loop of its code: what asyncio needs of one.

    Attributes:
        name: its name in errors.
        scheduler: the time that all processes share.
        loop: itself, as an event loop.
        resumes_at: when it goes on if it is paused; infinity if it was killed.
    """

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.scheduler = scheduler
        self.resumes_at = -math.inf
        self.loop: Any = self
        self._tasks: list[asyncio.Task[Any]] = []
        self._most_tasks = _FEW_TASKS

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    @property
    def is_dead(self) -> bool:
        """True once it was killed."""
        return self.resumes_at == math.inf

    def pause(self, seconds: float) -> None:
        """Stops all its code for some time, as a garbage collection does."""
        self.resumes_at = max(self.resumes_at, self.scheduler.now + seconds)

    def kill(self) -> None:
        """Ends it at once: none of its callbacks is called again.

        Its coroutines are closed now, not by the garbage collector in the middle of
        another process. Whatever they do at their end has no effect.
        """
        self.resumes_at = math.inf
        with self.running():
            # Their ends may create others.
            while self._tasks:
                task = self._tasks.pop(0)
                if not task.done() and task is not asyncio.current_task(self.loop):
                    with contextlib.suppress(RuntimeError):  # it awaits in its end
                        coroutine: Any = task.get_coro()
                        coroutine.close()

    def running(self) -> contextlib.AbstractContextManager[None]:
        """A block of code that belongs to the process."""
        return _as_running(self.loop)

    # -- the event loop

    def time(self) -> float:
        """The virtual time."""
        return self.scheduler.now

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """See `Scheduler.soon`."""
        return self.scheduler.soon(self, callback, args, context)

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """See `Scheduler.at`."""
        scheduler = self.scheduler
        return scheduler.at(scheduler.now + delay, self, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """See `Scheduler.at`."""
        return self.scheduler.at(when, self, callback, args, context)

    def create_future(self) -> asyncio.Future[Any]:
        """A future of the process."""
        return asyncio.Future(loop=self.loop)

    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """Runs a coroutine in the process."""
        task = asyncio.Task(coro, loop=self.loop, **kwargs)
        tasks = self._tasks
        tasks.append(task)
        if len(tasks) > self._most_tasks:
            self._tasks = tasks = [each for each in tasks if not each.done()]
            self._most_tasks = 2 * len(tasks) + _FEW_TASKS
        return task

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a coroutine; an exception that it raises ends the simulation."""
        task = self.create_task(work)
        task.add_done_callback(self._spawned)
        return task

    def _spawned(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.scheduler.errors.append(error)

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Calls a function now: virtual time does not pass in computations."""
        del executor
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - its caller handles it
            done.set_exception(error)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Notes an exception that nothing handled, unless the process is dead."""
        error = context.get("exception")
        if error is not None and not self.is_dead:
            self.scheduler.errors.append(error)

    def get_debug(self) -> bool:
        """False."""
        return False

    def is_running(self) -> bool:
        """True until it is killed."""
        return not self.is_dead

    def is_closed(self) -> bool:
        """True once it was killed."""
        return self.is_dead
