"""Virtual time: callbacks by their times, and the processes that they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
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
"""Cancelled callbacks that are kept before all of them are removed."""
NEW_OBJECTS: Final = 200_000
"""New objects after which the garbage collector looks at them; Python's default is 700.
1,000 members have some 5,000 between two heartbeats."""
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


Row = tuple["Process", Callable[..., object] | None, Any]
"""A process, and its callback with the arguments; None and a `Handle`, if it can be
cancelled, which costs twice as much."""


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
        # The heap of all times that have callbacks, and these, in order. Often many
        # have the same time: members that joined together send heartbeats together.
        self._times: list[float] = []
        self._rows: dict[float, list[Row]] = {}
        # Those of the present, and those that come before the next one of them.
        self._due: deque[Row] = deque()
        self._ready: deque[Row] = deque()
        self._left = MOST_AT_ONCE
        self._cancelled = 0
        self._most_cancelled = FEWEST_CANCELLED

    def random(self, actor: str) -> Random:
        """A stream of randomness for an actor, independent of the others."""
        return Random(f"{self.seed}/{actor}")

    def soon(self, row: Row) -> None:
        """Adds a callback that comes after those that are due now."""
        self._ready.append(row)

    def add(self, when: float, row: Row) -> None:
        """Adds a callback that is due at a time."""
        rows = self._rows.get(when)
        if rows is None:
            self._rows[when] = [row]
            heapq.heappush(self._times, when)
        else:
            rows.append(row)

    def count_cancelled(self) -> None:
        """Notes a cancelled callback; removes all of them when most are cancelled."""
        self._cancelled += 1
        if self._cancelled <= self._most_cancelled:
            return
        left = 0
        for when, rows in [*self._rows.items()]:
            rows[:] = [row for row in rows if row[1] or row[2].callback is not None]
            left += len(rows)
            if not rows:
                del self._rows[when]
        self._times[:] = self._rows
        heapq.heapify(self._times)
        self._cancelled, self._most_cancelled = 0, max(left, FEWEST_CANCELLED)

    def run(self, until: float) -> None:
        """Calls all that is due until a time, which is then the present.

        Raises:
            SimulationError: a process failed.
        """
        with _as_running(None), _collecting_rarely():
            self._run(until)
        self.now = max(self.now, until)

    def _run(self, until: float) -> None:
        due, ready, running = self._due, self._ready, None
        while True:
            if ready:
                process, callback, args = ready.popleft()
            elif due:
                process, callback, args = due.popleft()
            elif self._advance(until):
                continue
            else:
                return
            if process.resumes_at > self.now:
                self._postpone(process, callback, args)
                continue
            if process is not running:
                running = process
                asyncio._set_running_loop(process.loop)  # noqa: SLF001 - for loops
            if callback is not None:
                callback(*args)
            else:
                args.run()
            self._left -= 1
            if not self._left:
                raise SimulationError(f"time stands still in {process.name}")
            if self.errors:
                raise SimulationError(repr(self.errors[0])) from self.errors[0]

    def _advance(self, until: float) -> bool:
        """Goes on to the next time that has callbacks; False if it is after the end."""
        if not self._times or self._times[0] > until:
            return False
        when = heapq.heappop(self._times)
        self._due.extend(self._rows.pop(when))
        if when > self.now:
            self.now = when
            self._left = MOST_AT_ONCE
        return True

    def _postpone(self, *row: Any) -> None:
        """Keeps a callback until its process goes on; drops that of a dead one."""
        when = row[0].resumes_at
        if when != math.inf:
            self.add(when, row)


@contextlib.contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Makes the garbage collector look after more new objects, for a block.

    Each heartbeat makes some that live until the next one, and hardly any garbage in
    cycles: to look for it would take a third of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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

    __slots__ = ("_most_tasks", "_tasks", "loop", "name", "resumes_at", "scheduler")

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
        """Calls a function after those that are due now."""
        scheduler = self.scheduler
        handle = Handle(self, scheduler.now, callback, args, context)
        scheduler.soon((self, None, handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """Calls a function after some seconds."""
        scheduler = self.scheduler
        when = scheduler.now + delay
        handle = Handle(self, when, callback, args, context)
        scheduler.add(when, (self, None, handle))
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """Calls a function at a time."""
        handle = Handle(self, when, callback, args, context)
        self.scheduler.add(when, (self, None, handle))
        return handle

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
