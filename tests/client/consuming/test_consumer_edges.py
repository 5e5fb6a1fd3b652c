"""Unexpected calls of a consumer by applications and their listeners."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import (
    PATIENCE,
    Recorder,
    Stage,
    either_protocol,
    poll_until,
    take,
)

from kohort.client import ConsumerRebalanceListener, KohortError, OffsetAndMetadata
from kohort.client.errors import ClosedError, ConfigError, InvalidTopicError


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With a topic of two partitions."""
    await stage.fill([5, 5])
    return stage


def when(kind: str, action: Callable[[], Awaitable[Any]]) -> Recorder:
    """A listener that acts once, in one of its methods."""
    listener = Recorder()

    async def inside(called: str) -> None:
        if called == kind:
            listener.inside = None
            try:
                await action()
            finally:
                listener.is_called = False

    listener.inside = inside
    return listener


async def is_left_alone(before: set[asyncio.Task[Any]]) -> None:
    """Returns when all tasks started since then have ended."""
    async with asyncio.timeout(PATIENCE):
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)


# -- in a listener


@either_protocol
async def test_partitions_are_at_hand_when_they_are_assigned(stage: Stage) -> None:
    """The callback can seek, pause, and read positions and committed offsets."""
    found: list[object] = []

    async def look() -> None:
        found.append(await reader.position(stage.p0))
        reader.seek_to_end(stage.p0)
        found.append(await reader.position(stage.p0))
        reader.seek(stage.p0, 3)
        found.append(await reader.position(stage.p0))
        found.append(await reader.committed(stage.p0))
        reader.pause(stage.p1)
        await reader.commit({stage.p0: 2})

    listener = when("assigned", look)
    async with stage.consumer(default_api_timeout_ms=5_000) as reader:
        reader.subscribe([stage.topic], listener=listener)
        assert await take(reader, 2) == ["0:3", "0:4"]
        assert found == [0, 5, 3, {stage.p0: None}]
        assert await reader.committed(stage.p0) == {stage.p0: OffsetAndMetadata(2)}


@either_protocol
async def test_a_consumer_that_closes_is_open_to_its_listener(stage: Stage) -> None:
    """As in the Java client; for all others the consumer is closed."""
    found: list[object] = []

    async def look() -> None:
        found.append(await reader.position(stage.p0))
        reader.seek(stage.p0, 1)
        await reader.commit()
        found.append(await reader.committed(stage.p0))
        outside = asyncio.get_running_loop().create_task(ask(), context=context)
        with pytest.raises(ClosedError):
            await outside

    async def ask() -> None:
        await reader.committed(stage.p0)

    context = contextvars.copy_context()
    reader = stage.consumer(enable_auto_commit=False)
    await reader.start()
    reader.subscribe([stage.topic], listener=when("revoked", look))
    await take(reader, 10)
    await reader.close()
    assert found == [5, {stage.p0: OffsetAndMetadata(1)}]
    with pytest.raises(ClosedError):
        await reader.committed(stage.p0)


@either_protocol
async def test_a_listener_that_unsubscribes(stage: Stage) -> None:
    """It does not wait for itself; the new partitions are revoked after it."""
    async with stage.consumer() as reader:
        listener = when("assigned", reader.unsubscribe)
        reader.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: listener.kinds() == ["assigned", "revoked"], reader)
        await stage.until_members(0)
        reader.subscribe([stage.topic])
        assert len(await take(reader, 10)) == 10


@either_protocol
async def test_a_listener_that_closes(stage: Stage) -> None:
    """The poll ends and the member leaves; another close waits for that."""
    before = asyncio.all_tasks()
    reader = stage.consumer()
    await reader.start()
    listener = when("assigned", reader.close)
    reader.subscribe([stage.topic], listener=listener)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ClosedError):
            await reader.getone()
        await reader.close()
        assert listener.kinds() == ["assigned", "revoked"]
        await stage.until_members(0)
    await is_left_alone(before)


@either_protocol
async def test_a_listener_that_closes_what_is_closed_already(stage: Stage) -> None:
    """It does not wait for the close that waits for it."""
    reader = stage.consumer()
    await reader.start()
    closed: list[bool] = []

    async def close() -> None:
        await reader.close()
        closed.append(True)

    reader.subscribe([stage.topic], listener=when("revoked", close))
    await take(reader, 1)
    await reader.close()
    assert closed
    await stage.until_members(0)


@either_protocol
async def test_a_listener_that_polls_is_told_off(stage: Stage) -> None:
    """It would wait for itself; the poll that called it raises the error."""
    async with stage.consumer() as reader:
        listener = when("assigned", lambda: reader.getmany(timeout_ms=10))
        reader.subscribe([stage.topic], listener=listener)
        with pytest.raises(KohortError, match="a listener cannot poll"):
            await take(reader, 1)
        assert len(await take(reader, 10)) == 10


async def fails() -> None:
    """An error of the application."""
    raise ValueError("no")


async def waits_for_what_is_cancelled() -> None:
    """A cancellation, but not of the listener."""
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    await other


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (fails, "no"),
        (waits_for_what_is_cancelled, "awaited a task that was cancelled"),
    ],
)
async def test_what_a_listener_raises_comes_out_of_the_poll(
    stage: Stage, action: Callable[[], Awaitable[None]], error: str
) -> None:
    """The group continues."""
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=when("assigned", action))
        with pytest.raises((ValueError, KohortError), match=error):
            await asyncio.wait_for(take(reader, 1), PATIENCE)
        assert len(await take(reader, 10)) == 10


@either_protocol
async def test_unsubscribing_has_the_listeners_error(stage: Stage) -> None:
    """There may be no later poll to raise it."""
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=when("revoked", fails))
        await take(reader, 1)
        with pytest.raises(ValueError, match="no"):
            await reader.unsubscribe()
        await stage.until_members(0)
        reader.assign([stage.p0])
        reader.seek(stage.p0, 0)
        assert len(await take(reader, 5)) == 5


async def test_a_poll_that_is_cancelled_leaves_the_listener_alone(
    stage: Stage,
) -> None:
    """The listener continues; the next poll waits for it, and skips nothing."""
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        called.set()
        await goes_on.wait()

    async with stage.consumer() as reader:
        listener = when("assigned", wait)
        reader.subscribe([stage.topic], listener=listener)
        poll = asyncio.create_task(reader.getone())
        async with asyncio.timeout(PATIENCE):
            await called.wait()
            poll.cancel()
            await asyncio.wait([poll])
            assert poll.cancelled()
            assert listener.is_called
            goes_on.set()
        assert len(await take(reader, 10)) == 10
        assert listener.kinds() == ["assigned"]


async def test_commits_that_a_listener_does_not_wait_for_are_made(
    stage: Stage,
) -> None:
    """Partitions are revoked after the posted commits have ended."""
    async with (
        stage.consumer(enable_auto_commit=False) as a,
        stage.consumer(enable_auto_commit=False) as b,
    ):

        async def commit() -> None:
            a.commit_async({stage.p0: 3, stage.p1: 3})

        a.subscribe([stage.topic], listener=when("revoked", commit))
        await poll_until(lambda: len(a.assignment()) == 2, a)
        b.subscribe([stage.topic])
        await poll_until(lambda: len(a.assignment()) == len(b.assignment()) == 1, a, b)
        found = await b.committed(stage.p0, stage.p1)
        assert [row.offset for row in found.values() if row] == [3, 3]


# -- cancelled calls


@either_protocol
async def test_cancelled_anywhere_a_consumer_still_works(stage: Stage) -> None:
    """Polls, commits, positions, subscriptions are cancelled; all still works."""
    before = asyncio.all_tasks()
    async with stage.member(enable_auto_commit=False) as reader:
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: reader.getmany(timeout_ms=10_000),
            reader.getone,
            lambda: reader.commit({stage.p0: 1}),
            lambda: reader.committed(stage.p0),
            lambda: reader.position(stage.p0),
            lambda: reader.end_offsets([stage.p0]),
            reader.topics,
            reader.unsubscribe,
        ]

        for step in steps:

            async def work(step: Callable[[], Awaitable[object]] = step) -> None:
                await step()

            async def afterwards() -> None:
                async with asyncio.timeout(PATIENCE):
                    if not reader.subscription():
                        await reader.unsubscribe()
                        reader.subscribe([stage.topic])
                    await poll_until(lambda: len(reader.assignment()) == 2, reader)
                    reader.seek_to_beginning()
                    assert len(await take(reader, 10)) == 10
                    await reader.commit({stage.p0: 5})
                    found = await reader.committed(stage.p0)
                    assert found == {stage.p0: OffsetAndMetadata(5)}
                    reader.seek(stage.p0, 0)

            await cancel_at_every_await(work, afterwards)
    await stage.until_members(0)
    await is_left_alone(before)


async def test_a_poll_that_ends_after_the_close_arms_nothing(stage: Stage) -> None:
    """No timer outlives a consumer that another task closes with no timeout."""
    other = stage.name("u")
    await stage.fill([0], other)
    assigned = asyncio.Event()

    async def note() -> None:
        assigned.set()

    reader = stage.consumer()
    await reader.start()
    poll = asyncio.create_task(reader.getmany(timeout_ms=60_000))
    await asyncio.sleep(0)  # waits before any change
    reader.subscribe([other], listener=when("assigned", note))
    await asyncio.wait_for(assigned.wait(), PATIENCE)
    await reader.close(0)
    with pytest.raises(ClosedError):
        await asyncio.wait_for(poll, PATIENCE)
    group = reader._group  # noqa: SLF001 - the timers it leaves
    assert group is not None
    assert not group.driver._timers  # noqa: SLF001


# -- topics and offsets


async def test_topics_and_partitions(stage: Stage) -> None:
    """The cluster's topics and partitions; nothing for unknown ones."""
    settings = {"group_id": None, "allow_auto_create_topics": False}
    async with stage.consumer(**settings) as reader:
        assert stage.topic in await reader.topics()
        assert await reader.partitions_for_topic(stage.topic) == {0, 1}
        assert await reader.partitions_for_topic(stage.name("no")) == frozenset()


@either_protocol
async def test_seeking_to_what_is_committed(stage: Stage) -> None:
    """All partitions, or some; without a committed offset, the reset policy."""
    async with stage.member(enable_auto_commit=False) as reader:
        await take(reader, 10)
        await reader.commit({stage.p0: 3})
        await reader.seek_to_committed()
        assert [await reader.position(stage.p0), await reader.position(stage.p1)] == [
            3,
            0,
        ]
        await reader.commit({stage.p0: 4})
        await reader.seek_to_committed(stage.p0)
        assert await reader.position(stage.p0) == 4
        with pytest.raises(ConfigError):
            await reader.seek_to_committed(stage.p0._replace(topic="u"))


async def test_whoever_leads_a_bad_name_is_an_error(stage: Stage) -> None:
    """Each member checks its own topics, whichever member leads."""
    async with stage.member() as leader, stage.consumer() as other:
        await take(leader, 10)
        other.subscribe([stage.topic, "/"])
        polls = asyncio.create_task(poll_until(lambda: False, leader))
        with pytest.raises(InvalidTopicError) as caught:
            await asyncio.wait_for(other.getone(), PATIENCE)
        polls.cancel()
        await asyncio.wait([polls])
        assert caught.value.topic == "/"


async def test_the_log_says_once_that_a_topic_does_not_exist(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistyped name is logged with the consumer's client id."""
    settings = {"allow_auto_create_topics": False, "metadata_max_age_ms": 1}
    missing = stage.name("mistyped")

    def warnings() -> list[str]:
        texts = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        return [text for text in texts if missing in text]

    async with stage.consumer(missing, stage.topic, **settings) as reader:
        assert len(await take(reader, 10)) == 10
        await poll_until(lambda: bool(warnings()), reader)
        await stage.fill([1], missing)
        assert await take(reader, 1) == ["0:0"]
        name = reader.config.client_id
    assert warnings() == [
        f"{name}: topic {missing!r} does not exist; waiting for it to be created"
    ]


async def test_a_pattern_is_a_subscription_before_there_are_topics(
    stage: Stage,
) -> None:
    """Partitions cannot be assigned as well; an invalid pattern changes nothing."""
    async with stage.consumer() as reader:
        reader.subscribe(pattern=stage.name("none.*"))
        with pytest.raises(ConfigError):
            reader.assign([stage.p0])
        with pytest.raises(ConfigError, match="unterminated"):
            reader.subscribe(pattern="[")
        await stage.fill([1], stage.name("none-such"))
        reader.subscribe(pattern=stage.name("none.*"))
        assert await take(reader, 1) == ["0:0"]


async def test_the_listener_need_not_do_anything(stage: Stage) -> None:
    """A listener that overrides nothing."""
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=ConsumerRebalanceListener())
        assert len(await take(reader, 10)) == 10
