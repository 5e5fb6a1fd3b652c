"""Long work: a piece a turn, in rotation, and none for lost connections."""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable

import pytest

from kohort.broker.long_work import LongWork, Work


class Turns:
    """A minimal event loop."""

    def __init__(self) -> None:
        self.work = LongWork(self._call_soon)
        self.done: list[str] = []
        self.failures: list[Exception] = []
        self._callbacks: deque[Callable[[], None]] = deque()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def pieces(self, name: str, count: int) -> Work:
        """Work of some pieces, which note its name."""
        for _ in range(count - 1):
            self.done.append(name)
            yield
        self.done.append(name)

    def turn(self) -> bool:
        """Runs one turn; returns whether there was anything to do."""
        due = len(self._callbacks)
        for _ in range(due):
            self._callbacks.popleft()()
        return bool(due)

    def finish(self) -> None:
        """Runs turns until nothing is left."""
        while self.turn():
            assert len(self.done) < 100


@pytest.fixture
def turns() -> Turns:
    """A loop without work."""
    return Turns()


def test_short_work_is_done_at_once(turns: Turns) -> None:
    """Work of one piece never waits for a turn."""
    assert turns.work.start(turns.pieces("a", 1), turns.failures.append) is None
    assert turns.done == ["a"]
    assert not turns.turn()


def test_no_full_garbage_collection_comes_in_between(turns: Turns) -> None:
    """It would visit all rows of all requests; afterwards it may run."""
    before = gc.get_threshold()
    turns.work.start(turns.pieces("a", 3), turns.failures.append)
    other = Turns()
    other.work.start(other.pieces("b", 5), other.failures.append)
    assert gc.get_threshold()[:2] == before[:2]
    turns.finish()
    assert gc.get_threshold()[2] > 1_000_000
    other.work.close()
    assert gc.get_threshold() == before
    other.finish()
    assert gc.get_threshold() == before


def test_long_work_takes_turns(turns: Turns) -> None:
    """Each turn of the loop runs one piece of one of them."""
    turns.work.start(turns.pieces("a", 3), turns.failures.append)
    turns.work.start(turns.pieces("b", 3), turns.failures.append)
    assert turns.done == ["a", "b"]
    turns.turn()
    assert turns.done == ["a", "b", "a"]
    turns.finish()
    assert turns.done == ["a", "b", "a", "b", "a", "b"]
    assert len(turns.work) == 0


def test_nothing_more_is_done_of_stopped_work(turns: Turns) -> None:
    """The generator is closed, and other work continues."""
    stopped = turns.work.start(turns.pieces("a", 3), turns.failures.append)
    turns.work.start(turns.pieces("b", 2), turns.failures.append)
    assert stopped is not None
    stopped.stop()
    turns.finish()
    assert turns.done == ["a", "b", "b"]


def test_a_failure_ends_its_own_work(turns: Turns) -> None:
    """Its callback gets the exception, and other work continues."""

    def failing() -> Work:
        yield
        raise ValueError("a defect")

    turns.work.start(failing(), turns.failures.append)
    turns.work.start(turns.pieces("b", 2), turns.failures.append)
    turns.finish()
    assert [str(failure) for failure in turns.failures] == ["a defect"]
    assert turns.done == ["b", "b"]


def test_a_callback_that_fails_stops_no_other_work(turns: Turns) -> None:
    """The loop logs the failure, and the next turn runs."""

    def failing() -> Work:
        yield
        raise ValueError("a defect")

    def failed(error: Exception) -> None:
        raise error

    before = gc.get_threshold()
    turns.work.start(failing(), failed)
    turns.work.start(turns.pieces("b", 2), turns.failures.append)
    with pytest.raises(ValueError, match="a defect"):
        turns.turn()
    turns.finish()
    assert turns.done == ["b", "b"]
    assert gc.get_threshold() == before


def test_work_that_starts_other_work_as_it_is_closed(turns: Turns) -> None:
    """The new work is closed, too, and the garbage collector is restored."""

    def starting() -> Work:
        try:
            yield
        finally:
            turns.work.start(turns.pieces("b", 3), turns.failures.append)

    before = gc.get_threshold()
    turns.work.start(starting(), turns.failures.append)
    turns.work.close()
    assert gc.get_threshold() == before
    turns.finish()
    assert turns.done == ["b"]


def test_a_piece_may_start_other_work(turns: Turns) -> None:
    """Neither of them is lost or done twice."""

    def starting() -> Work:
        yield
        turns.work.start(turns.pieces("b", 2), turns.failures.append)
        yield
        turns.done.append("a")

    turns.work.start(starting(), turns.failures.append)
    turns.finish()
    assert sorted(turns.done) == ["a", "b", "b"]


class Asked:
    """The starter of some work."""

    def failed(self, error: Exception) -> None:
        """No work fails here."""
        raise error


def test_ended_work_keeps_no_request(turns: Turns) -> None:
    """A connection keeps its last work, but not that work's request."""
    asked = Asked()
    gone = weakref.ref(asked)
    work = turns.work.start(turns.pieces("a", 2), asked.failed)
    del asked
    assert gone() is not None
    turns.finish()
    assert work is not None
    assert gone() is None
