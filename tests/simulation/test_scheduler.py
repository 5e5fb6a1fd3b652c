"""Virtual time, and processes."""

from __future__ import annotations

import asyncio

import pytest

from kohort.simulation.world.scheduler import (
    START,
    Process,
    Scheduler,
    SimulationError,
)


@pytest.fixture
def scheduler() -> Scheduler:
    """The time of a world."""
    return Scheduler(seed=1)


@pytest.fixture
def process(scheduler: Scheduler) -> Process:
    """A process in it."""
    return Process(scheduler, "p")


def test_callbacks_come_in_the_order_of_their_times(
    scheduler: Scheduler, process: Process
) -> None:
    """Those of one time come in the order in which they were set."""
    calls: list[tuple[str, float]] = []

    def call(name: str) -> None:
        calls.append((name, scheduler.now - START))

    process.call_later(2, call, "late")
    process.call_later(1, call, "early")
    process.call_later(1, call, "second")
    process.call_soon(call, "now")
    scheduler.run(START + 1.5)
    assert calls == [("now", 0), ("early", 1), ("second", 1)]
    assert scheduler.now == START + 1.5
    scheduler.run(START + 3)
    assert calls[-1] == ("late", 2)


def test_a_cancelled_callback_is_not_called(
    scheduler: Scheduler, process: Process
) -> None:
    """Nor one that is due at the same time as the callback that cancels it."""
    calls: list[str] = []
    second = process.call_later(1, calls.append, "second")
    process.call_later(0.5, second.cancel)
    scheduler.run(START + 2)
    assert not calls
    assert second.cancelled()


def test_a_paused_process_goes_on_later(scheduler: Scheduler, process: Process) -> None:
    """Others do not wait for it; its own callbacks come late, in order."""
    other = Process(scheduler, "other")
    calls: list[tuple[str, float]] = []

    def call(name: str) -> None:
        calls.append((name, scheduler.now - START))

    process.call_later(1, call, "first")
    process.call_later(2, call, "second")
    other.call_later(1, call, "other")
    process.pause(10)
    scheduler.run(START + 11)
    assert calls == [("other", 1), ("first", 10), ("second", 10)]


def test_a_killed_process_does_nothing_more(
    scheduler: Scheduler, process: Process
) -> None:
    """Its coroutines are closed at once."""
    calls: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            calls.append("worked")
        finally:
            calls.append("closed")
            process.call_soon(calls.append, "after its end")

    process.spawn(work())
    scheduler.run(START + 0.5)
    process.kill()
    assert calls == ["closed"]
    scheduler.run(START + 5)
    assert calls == ["closed"]


def test_tasks_futures_and_timeouts_use_the_virtual_time(
    scheduler: Scheduler, process: Process
) -> None:
    """An hour passes without waiting."""
    passed: list[float] = []

    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1800):
                await asyncio.get_running_loop().create_future()
        passed.append(await asyncio.to_thread(lambda: 7))
        await asyncio.sleep(1800)
        passed.append(scheduler.now - START)

    process.spawn(work())
    scheduler.run(START + 3600)
    assert passed == [7, 3600]


def test_an_exception_of_a_process_ends_the_simulation(
    scheduler: Scheduler, process: Process
) -> None:
    """It is a defect of kohort's code."""

    async def work() -> None:
        raise KeyError("x")

    process.spawn(work())
    with pytest.raises(SimulationError, match="KeyError"):
        scheduler.run(START + 1)


def test_each_actor_has_randomness_of_its_own(scheduler: Scheduler) -> None:
    """Numbers that one actor draws do not change those of another."""
    first = [scheduler.random("a").random(), scheduler.random("b").random()]
    a, b = scheduler.random("a"), scheduler.random("b")
    a.random()
    a.random()
    assert b.random() == first[1]
    assert scheduler.random("a").random() == first[0]
    assert Scheduler(seed=2).random("a").random() != first[0]
