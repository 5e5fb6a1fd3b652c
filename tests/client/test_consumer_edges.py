"""What applications do with a consumer, and in its listener, that nobody expects."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    consumer,
    fill,
    places,
    poll_until,
    take,
    until_members,
)

from kohort.broker.server import Broker
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    ClosedError,
    ConfigError,
    InvalidTopicError,
    KohortError,
)
from kohort.client.listener import ConsumerRebalanceListener
from kohort.client.offsets import OffsetAndMetadata, TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker without an initial delay, and a topic of two partitions."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await fill(broker, counts=[5, 5])
        yield broker


def when(kind: str, action: Callable[[], Awaitable[Any]]) -> Recorder:
    """A listener that does something, once, when it is called for one thing."""
    listener = Recorder()

    async def inside(called: str) -> None:
        if called == kind:
            listener.inside = None
            await action()

    listener.inside = inside
    return listener


async def is_left_alone(before: set[asyncio.Task[Any]]) -> None:
    """Returns when no task is left that was not there before."""
    async with asyncio.timeout(PATIENCE):
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)


# -- in a listener


async def test_partitions_are_at_hand_when_they_are_assigned(broker: Broker) -> None:
    """Seeks, pauses, positions and what is committed: in the callback already."""
    found: list[object] = []

    async def look() -> None:
        found.append(await reader.position(T0))
        reader.seek_to_end(T0)
        found.append(await reader.position(T0))
        reader.seek(T0, 3)
        found.append(await reader.position(T0))
        found.append(await reader.committed(T0))
        reader.pause(T1)
        await reader.commit({T0: 2})

    listener = when("assigned", look)
    async with consumer(broker, group_id="g", default_api_timeout_ms=5_000) as reader:
        reader.subscribe(["t"], listener=listener)
        assert await take(reader, 2) == ["0:3", "0:4"]
        assert found == [0, 5, 3, {T0: None}]
        assert await reader.committed(T0) == {T0: OffsetAndMetadata(2)}


async def test_a_consumer_that_closes_is_open_to_its_listener(broker: Broker) -> None:
    """As in the Java client; to everybody else it is closed."""
    found: list[object] = []

    async def look() -> None:
        found.append(await reader.position(T0))
        reader.seek(T0, 1)
        await reader.commit()
        found.append(await reader.committed(T0))
        outside = asyncio.get_running_loop().create_task(ask(), context=context)
        with pytest.raises(ClosedError):
            await outside

    async def ask() -> None:
        await reader.committed(T0)

    context = contextvars.copy_context()
    reader = consumer(broker, group_id="g", enable_auto_commit=False)
    await reader.start()
    reader.subscribe(["t"], listener=when("revoked", look))
    await take(reader, 10)
    await reader.close()
    assert found == [5, {T0: OffsetAndMetadata(1)}]
    with pytest.raises(ClosedError):
        await reader.committed(T0)


async def test_a_listener_that_unsubscribes(broker: Broker) -> None:
    """It does not wait for itself; what it was given is taken back after it."""
    async with consumer(broker, group_id="g") as reader:
        listener = when("assigned", reader.unsubscribe)
        reader.subscribe(["t"], listener=listener)
        await poll_until(lambda: listener.kinds() == ["assigned", "revoked"], reader)
        await until_members(broker, 0)
        reader.subscribe(["t"])
        assert len(await take(reader, 10)) == 10


async def test_a_listener_that_closes(broker: Broker) -> None:
    """The poll ends, the member leaves; whoever closes it as well waits for that."""
    before = asyncio.all_tasks()
    reader = consumer(broker, group_id="g")
    await reader.start()
    listener = when("assigned", reader.close)
    reader.subscribe(["t"], listener=listener)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ClosedError):
            await reader.getone()
        await reader.close()
        assert listener.kinds() == ["assigned", "revoked"]
        await until_members(broker, 0)
    await is_left_alone(before)


async def test_a_listener_that_closes_what_is_closed_already(broker: Broker) -> None:
    """It does not wait for the close that waits for it."""
    reader = consumer(broker, group_id="g")
    await reader.start()
    closed: list[bool] = []

    async def close() -> None:
        await reader.close()
        closed.append(True)

    reader.subscribe(["t"], listener=when("revoked", close))
    await take(reader, 1)
    await reader.close()
    assert closed
    await until_members(broker, 0)


async def test_a_listener_that_polls_is_told_off(broker: Broker) -> None:
    """It would wait for itself; the error comes out of the poll that called it."""
    async with consumer(broker, group_id="g") as reader:
        listener = when("assigned", lambda: reader.getmany(timeout_ms=10))
        reader.subscribe(["t"], listener=listener)
        with pytest.raises(KohortError, match="a listener cannot wait for records"):
            await take(reader, 1)
        assert len(await take(reader, 10)) == 10


async def test_a_listener_that_subscribes_to_something_else(broker: Broker) -> None:
    """The first assignment is given back; the second one is what it wants."""
    await fill(broker, "u", [3])
    async with consumer(broker, group_id="g") as reader:

        async def change() -> None:
            reader.subscribe(["u"], listener=listener)

        listener = when("assigned", change)
        reader.subscribe(["t"], listener=listener)
        assert await take(reader, 3) == ["0:0", "0:1", "0:2"]
        assert listener.kinds() == ["assigned", "revoked", "assigned"]
        assert reader.assignment() == places(0, topic="u")


async def test_what_a_listener_waits_for_is_cancelled(broker: Broker) -> None:
    """That is an error like others: the poll has it, and the group goes on."""

    async def wait() -> None:
        listener.is_called = False
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    async with consumer(broker, group_id="g") as reader:
        listener = when("assigned", wait)
        reader.subscribe(["t"], listener=listener)
        with pytest.raises(KohortError, match="waited for what was cancelled"):
            await asyncio.wait_for(take(reader, 1), PATIENCE)
        assert len(await take(reader, 10)) == 10


async def test_unsubscribing_has_the_listeners_error(broker: Broker) -> None:
    """There may be no poll any more that it could come out of."""

    async def fail() -> None:
        listener.is_called = False
        raise ValueError("no")

    async with consumer(broker, group_id="g") as reader:
        listener = when("revoked", fail)
        reader.subscribe(["t"], listener=listener)
        await take(reader, 1)
        with pytest.raises(ValueError, match="no"):
            await reader.unsubscribe()
        await until_members(broker, 0)
        reader.assign([T0])
        reader.seek(T0, 0)
        assert len(await take(reader, 5)) == 5


async def test_a_poll_that_is_cancelled_leaves_the_listener_alone(
    broker: Broker,
) -> None:
    """It is not cut short; the next poll waits for it, and nothing is skipped."""
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        called.set()
        await goes_on.wait()

    async with consumer(broker, group_id="g") as reader:
        listener = when("assigned", wait)
        reader.subscribe(["t"], listener=listener)
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
    broker: Broker,
) -> None:
    """Partitions go when what was handed in has come to its end."""
    async with (
        consumer(broker, group_id="g", enable_auto_commit=False) as a,
        consumer(broker, group_id="g", enable_auto_commit=False) as b,
    ):

        async def commit() -> None:
            a.commit_async({T0: 3, T1: 3})

        a.subscribe(["t"], listener=when("revoked", commit))
        await poll_until(lambda: len(a.assignment()) == 2, a)
        b.subscribe(["t"])
        await poll_until(lambda: len(a.assignment()) == len(b.assignment()) == 1, a, b)
        found = await b.committed(T0, T1)
        assert [row.offset for row in found.values() if row] == [3, 3]


# -- what was not finished


async def test_cancelled_anywhere_a_consumer_still_works(broker: Broker) -> None:
    """Polls, commits, positions, subscriptions: cut short, and everything goes on."""
    before = asyncio.all_tasks()
    async with consumer(broker, "t", group_id="g", enable_auto_commit=False) as reader:
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: reader.getmany(timeout_ms=10_000),
            reader.getone,
            lambda: reader.commit({T0: 1}),
            lambda: reader.committed(T0),
            lambda: reader.position(T0),
            lambda: reader.end_offsets([T0]),
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
                        reader.subscribe(["t"])
                    await poll_until(lambda: len(reader.assignment()) == 2, reader)
                    reader.seek_to_beginning()
                    assert len(await take(reader, 10)) == 10
                    await reader.commit({T0: 5})
                    found = await reader.committed(T0)
                    assert found == {T0: OffsetAndMetadata(5)}
                    reader.seek(T0, 0)

            await cancel_at_every_await(work, afterwards)
    await until_members(broker, 0)
    await is_left_alone(before)


async def test_a_close_that_is_cancelled_leaves_nothing_running(
    broker: Broker,
) -> None:
    """At whichever of its awaits."""
    before = asyncio.all_tasks()
    readers: list[Consumer] = []

    async def open_another() -> None:
        made = consumer(broker, "t", group_id=f"g{len(readers)}")
        readers.append(made)
        await made.start()
        await take(made, 1)

    async def afterwards() -> None:
        await is_left_alone(before)
        await open_another()

    async def close() -> None:
        await readers[-1].close()

    await open_another()
    assert await cancel_at_every_await(close, afterwards) > 2
    await readers[-1].close()
    await is_left_alone(before)


async def test_closing_after_half_an_unsubscribe(broker: Broker) -> None:
    """The member leaves all the same, and its listener hears of it."""
    listener = Recorder()
    reader = consumer(broker, group_id="g")
    await reader.start()
    reader.subscribe(["t"], listener=listener)
    await take(reader, 1)
    going = asyncio.create_task(reader.unsubscribe())
    await asyncio.sleep(0)
    going.cancel()
    await asyncio.wait([going])
    with pytest.raises(ConfigError):
        reader.assign([T0])
    await reader.close()
    assert listener.kinds() == ["assigned", "revoked"]
    await until_members(broker, 0)


async def test_little_time_to_close_is_used(broker: Broker) -> None:
    """A part of it is for the connections, but not all."""
    listener = Recorder()
    reader = consumer(broker, group_id="g")
    await reader.start()
    reader.subscribe(["t"], listener=listener)
    await take(reader, 1)
    await reader.close(timeout_ms=400)
    assert listener.kinds()[:2] == ["assigned", "revoked"]


async def test_a_poll_that_ends_after_the_close_arms_nothing(broker: Broker) -> None:
    """No timer outlives a consumer that is closed from elsewhere, in no time."""
    await fill(broker, "u", [0])
    assigned = asyncio.Event()

    async def note() -> None:
        assigned.set()

    reader = consumer(broker, group_id="g")
    await reader.start()
    poll = asyncio.create_task(reader.getmany(timeout_ms=60_000))
    await asyncio.sleep(0)  # it waits before there is anything to wait for
    reader.subscribe(["u"], listener=when("assigned", note))
    await asyncio.wait_for(assigned.wait(), PATIENCE)
    await reader.close(0)
    with pytest.raises(ClosedError):
        await asyncio.wait_for(poll, PATIENCE)
    member = reader._member  # noqa: SLF001 - what is left of it
    assert member is not None
    assert not member._timers  # noqa: SLF001


# -- what there is


async def test_topics_and_partitions(broker: Broker) -> None:
    """What there is in the cluster; nothing where there is nothing."""
    settings = {"group_id": None, "allow_auto_create_topics": False}
    async with consumer(broker, **settings) as reader:
        assert await reader.topics() == {"t"}
        assert await reader.partitions_for_topic("t") == {0, 1}
        assert await reader.partitions_for_topic("none-such") == frozenset()


async def test_seeking_to_what_is_committed(broker: Broker) -> None:
    """Of all partitions, or some; to the reset policy's place if nothing is."""
    async with consumer(broker, "t", group_id="g", enable_auto_commit=False) as reader:
        await take(reader, 10)
        await reader.commit({T0: 3})
        await reader.seek_to_committed()
        assert [await reader.position(T0), await reader.position(T1)] == [3, 0]
        await reader.commit({T0: 4})
        await reader.seek_to_committed(T0)
        assert await reader.position(T0) == 4
        with pytest.raises(ConfigError):
            await reader.seek_to_committed(TopicPartition("u", 0))


async def test_a_topic_that_cannot_be_is_an_error(broker: Broker) -> None:
    """Not a wait without an end, as the Java client has it, too."""
    async with consumer(broker, "t t", group_id="g") as reader:
        with pytest.raises(InvalidTopicError) as caught:
            await asyncio.wait_for(reader.getone(), PATIENCE)
        assert caught.value.topic == "t t"


async def test_a_pattern_is_a_subscription_before_there_are_topics(
    broker: Broker,
) -> None:
    """Partitions cannot be assigned besides; a wrong pattern changes nothing."""
    async with consumer(broker, group_id="g") as reader:
        reader.subscribe(pattern="none-such-.*")
        with pytest.raises(ConfigError):
            reader.assign([T0])
        with pytest.raises(Exception, match="unterminated"):
            reader.subscribe(pattern="[")
        await fill(broker, "none-such-1", [1])
        reader.subscribe(pattern="none-such-.*")
        assert await take(reader, 1) == ["0:0"]


async def test_the_listener_need_not_do_anything(broker: Broker) -> None:
    """One that overrides nothing is fine."""
    async with consumer(broker, group_id="g") as reader:
        reader.subscribe(["t"], listener=ConsumerRebalanceListener())
        assert len(await take(reader, 10)) == 10
