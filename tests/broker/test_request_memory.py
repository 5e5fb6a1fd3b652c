"""The memory of long requests: shared, limited, and free of deadlocks."""

from __future__ import annotations

import pytest
from tests.manual_clock import ManualClock

from kohort.broker.request_memory import (
    DEFAULT_LIMIT,
    PROGRESS_BYTES,
    PROGRESS_SECONDS,
    SMALL,
    STEP,
    RequestMemory,
)

MB = 1024 * 1024
LIMIT = 100 * MB


class Sender:
    """A connection that sends a long request, as far as it may."""

    def __init__(self, memory: RequestMemory, size: int) -> None:
        self.memory = memory
        self.size = size
        self.brought = 0
        self.is_held_back = False
        self.is_closed = False

    def bring(self, size: int = STEP) -> None:
        """Sends more of its request."""
        assert not self.is_held_back
        self.brought = min(self.size, self.brought + size)
        unfinished = self.size if self.brought < self.size else 0
        self.memory.update(self, self.brought, unfinished)

    def bring_all(self) -> None:
        """Sends its request, until it is complete or held back."""
        while self.brought < self.size and not self.is_held_back:
            self.bring()

    def finish(self) -> None:
        """The request was handled."""
        self.memory.update(self, 0, 0)

    def hold_back(self) -> None:
        """Stops being read."""
        self.is_held_back = True

    def release(self) -> None:
        """Is read again."""
        self.is_held_back = False

    def give_up(self, why: str) -> None:
        """Is closed."""
        assert "while" in why
        self.is_closed = True
        self.finish()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> RequestMemory:
    """Unused memory."""
    return RequestMemory(LIMIT, LIMIT, clock)


def test_many_long_requests_take_no_more_than_the_limit(memory: RequestMemory) -> None:
    """One is always let on; each of the others has sent one read too many."""
    senders = [Sender(memory, 90 * MB) for _ in range(30)]
    while any(each.brought < each.size and not each.is_held_back for each in senders):
        for each in senders:
            if not each.is_held_back:
                each.bring()
        assert memory.total <= LIMIT + 90 * MB + 30 * STEP
    assert sum(each.brought == each.size for each in senders) == 1
    assert len(memory) == 29


def test_all_become_whole_one_after_the_other(memory: RequestMemory) -> None:
    """Each handled request makes room for others: no deadlock."""
    senders = [Sender(memory, 90 * MB) for _ in range(30)]
    left = set(senders)
    while left:
        for each in list(left):
            if not each.is_held_back:
                each.bring()
            if each.brought == each.size:
                each.finish()
                left.remove(each)
    assert memory.total == 0
    assert len(memory) == 0


def test_a_stalled_client_does_not_keep_others_waiting(
    memory: RequestMemory, clock: ManualClock
) -> None:
    """It is closed; while no other connection waits it may take its time."""
    idle, busy = Sender(memory, 90 * MB), Sender(memory, 90 * MB)
    idle.bring(60 * MB)
    clock.skip(600)
    busy.bring_all()
    assert busy.is_held_back
    clock.skip(PROGRESS_SECONDS)
    assert idle.is_closed
    assert not busy.is_held_back
    busy.bring_all()
    assert busy.brought == busy.size


def test_a_client_with_progress_is_not_closed(
    memory: RequestMemory, clock: ManualClock
) -> None:
    """A slow client is not closed."""
    slow, other = Sender(memory, 90 * MB), Sender(memory, 90 * MB)
    slow.bring(60 * MB)
    other.bring_all()
    while slow.brought < slow.size:
        slow.bring(PROGRESS_BYTES)
        clock.skip(PROGRESS_SECONDS)
    assert not slow.is_closed
    slow.finish()
    assert not other.is_held_back


def test_small_requests_pass_long_ones(memory: RequestMemory) -> None:
    """Small requests have a separate share."""
    senders = [Sender(memory, 90 * MB) for _ in range(3)]
    while not all(each.is_held_back or each.brought == each.size for each in senders):
        for each in senders:
            if not each.is_held_back:
                each.bring()
    for _ in range(20):
        small = Sender(memory, SMALL)
        small.bring_all()
        assert small.brought == small.size
        small.finish()


def test_a_connection_that_is_lost_makes_room(memory: RequestMemory) -> None:
    """Returns whether it was being read or held back."""
    one, two, three = (Sender(memory, 90 * MB) for _ in range(3))
    one.bring(60 * MB)
    two.bring_all()
    three.bring_all()
    assert (two.is_held_back, three.is_held_back) == (True, True)
    two.finish()
    one.finish()
    assert not three.is_held_back
    assert len(memory) == 0


def test_without_a_limit_there_is_one(clock: ManualClock) -> None:
    """-1 means no limit in Kafka, which then runs out of memory."""
    memory = RequestMemory(-1, LIMIT, clock)
    senders = [Sender(memory, 90 * MB) for _ in range(30)]
    for each in senders:
        each.bring_all()
    assert memory.total <= DEFAULT_LIMIT + 30 * STEP


def test_requests_that_are_never_handled_stop_no_client_forever(
    memory: RequestMemory, clock: ManualClock
) -> None:
    """They are behind, for example, a JoinGroup that waits for minutes."""
    for _ in range(2):
        Sender(memory, 55 * MB).bring_all()
    other = Sender(memory, 90 * MB)
    other.bring_all()
    assert other.is_held_back
    while other.is_held_back:
        clock.skip(PROGRESS_SECONDS)
    other.bring_all()
