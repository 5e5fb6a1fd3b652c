"""Long work of requests, done a piece at a time, so that no request stops the others.

A handler with much to do is a generator. Between two of its yields lies at most about a
millisecond of work:

1. The first piece runs at once. Most requests are small and end in it; they are
   answered in the same turn of the event loop.
2. Unfinished work goes to the end of a queue. In each turn of the event loop one piece
   of the first work in the queue runs, and the work goes to the end again. However many
   requests are long, a heartbeat waits for one piece, not for one request.
3. When the client is gone, the generator is closed.

Pieces are counted, not timed: the same requests take the same turns on a busy machine,
so a run can be replayed. Anything that was looked up before a yield (a topic, a
partition, a group) may be gone after it.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable
from typing import Any, TypeVar

A = TypeVar("A")
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

Work = Generator[None, None, Any]
"""Work that yields wherever other requests may be handled in between."""

DONE = object()
"""Default for `next` of some work: cheaper than catching a StopIteration."""

_NEVER = 2**31 - 1
"""Collections of the middle generation before a full one: practically infinite."""

PIECE_COST = 1000
"""The cost of one piece of work, in units of about a microsecond."""


class Pace:
    """Adds up the cost of some work, so that it yields often enough.

        pace = Pace()
        for row in rows:
            ...
            if pace.spend(ROW_COST):
                yield

    A cost is a constant that was measured once. The clock is never read: the same work
    has the same pieces everywhere.

    Attributes:
        is_short: the first piece is not full yet.
    """

    __slots__ = ("_spent", "is_short")

    def __init__(self) -> None:
        self._spent = 0
        self.is_short = True

    def spend(self, cost: int) -> bool:
        """Adds a cost; returns whether the piece is full, and begins the next one."""
        self._spent += cost
        if self._spent < PIECE_COST:
            return False
        self._spent = 0
        self.is_short = False
        return True


def count_values(values: Iterable[H], pace: Pace) -> Generator[None, None, Counter[H]]:
    """Counts the occurrences of each value, in the order of first occurrence."""
    times: Counter[H] = Counter()
    for value in values:
        times[value] += 1
        if pace.spend(1):
            yield
    return times


def map_in_pieces(
    make: Callable[[A], T], rows: Iterable[A], pace: Pace, cost: int = 1
) -> Generator[None, None, list[T]]:
    """Like `map`; `cost` is that of each row."""
    made: list[T] = []
    for row in rows:
        made.append(make(row))
        if pace.spend(cost):
            yield
    return made


def finish(work: Generator[None, None, T]) -> T:
    """Does work in one go that could be done in pieces; returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def soon(callback: Callable[[], None]) -> None:
    """Calls `callback` in the next turn of the running event loop."""
    asyncio.get_running_loop().call_soon(callback)


class FullCollections:
    """Postpones the process's full garbage collections while there is long work.

    A request of a million rows is a few million objects. Python visits all of them
    whenever they have grown by a quarter: up to 120 ms in which nothing else runs. They
    are not garbage, and freed as soon as the request is answered. The younger
    generations are collected as usual, 0.5 ms at a time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._thresholds = gc.get_threshold()

    def put_off(self) -> None:
        """Postpones full collections; `allow` must follow."""
        if not self._depth:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], _NEVER)
        self._depth += 1

    def allow(self) -> None:
        """Ends the long work of one caller of `put_off`."""
        self._depth -= 1
        if not self._depth:
            gc.set_threshold(*self._thresholds)


full_collections = FullCollections()
"""One for the process, as there is one collector."""


class LongWork:
    """Work in progress, in the order in which it gets its turns.

    Args:
        call_soon: calls a function in the next turn of the event loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], None] = soon) -> None:
        self._call_soon = call_soon
        self._queue: deque[Piecework] = deque()
        # Set while a turn is scheduled or running.
        self._is_under_way = False

    def __len__(self) -> int:
        """The amount of work in progress."""
        return len(self._queue)

    def start(
        self, work: Work, failed: Callable[[Exception], None]
    ) -> Piecework | None:
        """Runs the first piece; each further one gets a turn of the loop.

        Args:
            work: the generator.
            failed: takes a later piece's exception. The first one's is raised here.

        Returns:
            The unfinished work; None if the first piece was all.
        """
        if next(work, DONE) is DONE:
            return None
        return self.queue(work, failed)

    def queue(self, work: Work, failed: Callable[[Exception], None]) -> Piecework:
        """Gives a turn of the loop to each piece, the first one included.

        For work of many requests at once, for example when an append answers a thousand
        fetches.

        Args:
            work: the generator.
            failed: takes the exception that a piece raises.
        """
        piecework = Piecework(work, failed)
        self._queue.append(piecework)
        if not self._is_under_way:
            self._is_under_way = True
            full_collections.put_off()
            self._call_soon(self._turn)
        return piecework

    def close(self) -> None:
        """Stops all work; a generator may finish its changes in ``finally``."""
        while self._queue:
            self._queue.popleft().stop()
        self._end()

    def _turn(self) -> None:
        """Runs one piece of the first work in the queue that is not stopped."""
        queue = self._queue
        while queue and queue[0].is_stopped:
            queue.popleft()
        try:
            if queue:
                piecework = queue.popleft()
                if piecework.go_on():
                    queue.append(piecework)
        finally:
            # Also if a callback failed: the other work has to continue.
            if queue:
                self._call_soon(self._turn)
            else:
                self._end()

    def _end(self) -> None:
        """Handles an empty queue."""
        if self._is_under_way:
            self._is_under_way = False
            full_collections.allow()


class Piecework:
    """Unfinished work.

    Attributes:
        is_stopped: whether it was stopped.
    """

    __slots__ = ("_failed", "_work", "is_stopped")

    def __init__(self, work: Work, failed: Callable[[Exception], None]) -> None:
        self._work = work
        self._failed = failed
        self.is_stopped = False

    def go_on(self) -> bool:
        """Runs one piece; returns whether there is another one."""
        try:
            is_done = next(self._work, DONE) is DONE
        except Exception as error:  # noqa: BLE001 - the starter handles it
            failed, self._failed = self._failed, _nobody
            failed(error)
            return False
        if is_done:
            self._failed = _nobody
        return not is_done

    def stop(self) -> None:
        """Closes the generator; the rest of the work is not done."""
        self.is_stopped = True
        self._failed = _nobody
        self._work.close()


def _nobody(_: Exception) -> None:
    """Replaces the callback of ended work, which kept a long request in memory."""
