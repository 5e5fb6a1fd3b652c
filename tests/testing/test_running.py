"""A service beside the body of a test: it fails at once, and ends with the block."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from kohort.testing import Kohort, in_thread, running, services


async def forever() -> None:
    """A service that runs until it is cancelled."""
    await asyncio.Event().wait()


async def failing(after: asyncio.Event) -> None:
    """A service that fails."""
    await after.wait()
    raise LookupError("no such order")


async def test_a_service_is_cancelled_at_the_end_of_the_block() -> None:
    """It has ended when the block is left."""
    async with running(forever()) as task:
        assert not task.done()
    assert task.cancelled()


async def test_a_service_that_returns_is_fine() -> None:
    """Its result is the task's."""

    async def sums() -> int:
        return 3

    async with running(sums()) as task:
        await task
    assert task.result() == 3


async def test_a_failure_ends_the_block_at_once() -> None:
    """A body that waits for something else gets the service's error."""
    go = asyncio.Event()

    async def body() -> None:
        async with running(failing(go)):
            go.set()
            await asyncio.Event().wait()

    with pytest.raises(LookupError, match="no such order"):
        await body()


async def test_a_failure_behind_the_last_wait_of_the_body_is_seen() -> None:
    """The service fails while the body computes."""
    go = asyncio.Event()

    async def body() -> None:
        async with running(failing(go)) as task:
            go.set()
            with pytest.raises(LookupError):
                await asyncio.shield(task)

    with pytest.raises(LookupError, match="no such order"):
        await body()
    await asyncio.sleep(0)  # the test itself is not cancelled


async def test_an_error_of_the_body_is_its_own() -> None:
    """The service ends all the same."""
    with pytest.raises(ValueError, match="wrong"):
        async with running(forever()) as task:
            raise ValueError("wrong")
    assert task.cancelled()


async def test_a_service_that_fails_while_it_ends_is_seen() -> None:
    """A consumer that cannot close raises, and so does the block."""

    async def bad_end() -> None:
        try:
            await forever()
        finally:
            raise LookupError("cannot close")

    with pytest.raises(LookupError, match="cannot close"):
        async with running(bad_end()):
            await asyncio.sleep(0)


async def test_a_cancelled_test_ends_its_services() -> None:
    """As at the time-out of a test."""
    started = asyncio.Event()

    async def body() -> None:
        async with running(forever()):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_service_that_never_ends_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service that swallows its cancellation would hang the test run.

    The failure of a test is not hidden by it.
    """
    monkeypatch.setattr(services, "PATIENCE_S", 0.01)
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async def test(failure: Exception | None) -> None:
        async with running(stubborn()):
            await asyncio.sleep(0)
            if failure is not None:
                raise failure

    with pytest.raises(TimeoutError, match=r"stubborn goes on 0\.01 s after it was"):
        await test(None)
    with pytest.raises(KeyError) as failure:
        await test(KeyError())
    let_go.set()
    (note,) = failure.value.__notes__
    assert note.endswith("stubborn goes on 0.01 s after it was cancelled")


# -- in a thread


def test_a_function_runs_until_it_is_stopped() -> None:
    """It has returned when the block is left."""
    stopped = threading.Event()
    with in_thread(lambda: stopped.wait(10), stop=stopped.set) as run:
        assert not run.done()
    assert run.result() is True


def test_a_function_that_fails_ends_a_wait_at_once(kohort: Kohort) -> None:
    """Its error is raised where the test waits for a group, not a time-out."""
    fails = threading.Event()

    def service() -> None:
        assert fails.wait(10)
        raise LookupError("no such order")

    group = kohort.group("billing")

    def test() -> None:
        with in_thread(service, stop=lambda: None):
            threading.Timer(0, fails.set).start()
            group.stable(timeout=60)
            pytest.fail("the wait has ended without an error")

    with pytest.raises(LookupError, match="no such order"):
        test()
    with pytest.raises(TimeoutError):  # the service is forgotten with its block
        group.stable(timeout=0)


def test_a_function_that_returns_early_ends_no_wait(kohort: Kohort) -> None:
    """The test goes on, with a program and its time-outs as well."""
    with in_thread(lambda: 3, stop=lambda: None) as run:
        process = kohort.process([sys.executable, "-c", "print('ready')"])
        assert process.wait_for_line("ready").text == "ready"
        with pytest.raises(TimeoutError):
            kohort.group("billing").stable(timeout=0.001)
    assert run.result() == 3


def test_the_error_of_a_function_replaces_that_of_the_block() -> None:
    """The block fails because the service has: the first error is its context."""

    def service() -> None:
        raise LookupError("no such order")

    def test() -> None:
        with in_thread(service, stop=lambda: None) as run:
            assert run.exception() is None

    with pytest.raises(LookupError) as caught:
        test()
    assert isinstance(caught.value.__context__, AssertionError)
