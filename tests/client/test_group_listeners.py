"""What a member is told of its partitions, and in which order."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.consuming import (
    PATIENCE,
    STRATEGIES,
    Recorder,
    Stage,
    is_shared,
    poll_until,
    shares,
    take,
)

from kohort.client.offsets import TopicPartition


def counts(listener: Recorder) -> list[tuple[str, int]]:
    """What it was called for, with how many partitions."""
    return [(kind, len(places)) for kind, places in listener.calls]


def held(listener: Recorder) -> set[TopicPartition]:
    """What a member has by what it was told; nothing comes twice, or goes unheld."""
    found: set[TopicPartition] = set()
    for kind, moved in listener.calls:
        if kind == "assigned":
            assert not found & moved
            found |= moved
        else:
            assert moved <= found
            found -= moved
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_one_comes_and_goes(stage: Stage, strategy: str) -> None:
    """Eager members give all back each time; cooperative ones what has to move.

    The latter hear of every rebalance, even if it brings them nothing (KIP-429).
    """
    await stage.fill([1] * 4)
    settings = {"partition_assignment_strategy": strategy}
    is_cooperative = strategy == "cooperative-sticky"
    first, second = Recorder(), Recorder()
    is_told = asyncio.Event()

    async def tell(_: str) -> None:
        is_told.set()

    async def wait(kind: str) -> None:
        # Who gives up joins again, and a SyncGroup that comes after that is refused.
        if is_cooperative and kind == "revoked":
            await is_told.wait()

    first.inside, second.inside = wait, tell
    async with stage.consumer(**settings) as a:
        a.subscribe([stage.topic], listener=first)
        await poll_until(lambda: shares(a) == [4], a)
        async with stage.consumer(**settings) as b:
            b.subscribe([stage.topic], listener=second)
            await poll_until(lambda: is_shared(4, a, b), a, b)
            assert shares(a, b) == [2, 2]
            assert held(first) == a.assignment()
            assert held(second) == b.assignment()
        await poll_until(lambda: shares(a) == [4], a)
    if_eager = [
        ("assigned", 4),
        ("revoked", 4),
        ("assigned", 2),
        ("revoked", 2),
        ("assigned", 4),
        ("revoked", 4),
    ]
    if_cooperative = [
        ("assigned", 4),
        ("revoked", 2),
        ("assigned", 0),
        ("assigned", 0),
        ("assigned", 2),
        ("revoked", 4),
    ]
    assert counts(first) == (if_cooperative if is_cooperative else if_eager)
    nothing_first = [("assigned", 0)] if is_cooperative else []
    assert counts(second) == [*nothing_first, ("assigned", 2), ("revoked", 2)]
    assert not held(first)
    assert not held(second)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_one_is_put_out(stage: Stage, strategy: str) -> None:
    """What it had is lost, not revoked: it may be somebody else's; then it joins."""
    await stage.fill([1] * 2)
    listener = Recorder()
    async with (
        stage.consumer(partition_assignment_strategy=strategy) as a,
        stage.admin() as admin,
    ):
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [2], a)
        (await admin.remove_members_from_consumer_group(stage.group)).check()
        await poll_until(lambda: len(listener.calls) == 3, a)
        assert counts(listener) == [("assigned", 2), ("lost", 2), ("assigned", 2)]
        assert a.assignment() == stage.places(0, 1)


async def test_nothing_is_given_out_while_a_listener_is_called(stage: Stage) -> None:
    """The poll that called it waits for it; heartbeats keep the membership."""
    await stage.fill([5])
    listener = Recorder()
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(kind: str) -> None:
        if kind == "assigned":
            called.set()
            await goes_on.wait()

    listener.inside = wait
    async with stage.consumer() as a:
        a.subscribe([stage.topic], listener=listener)
        poll = asyncio.create_task(a.getone())
        async with asyncio.timeout(PATIENCE):
            await called.wait()
            await stage.until_members(1)
            assert not poll.done()
            goes_on.set()
            await poll
            listener.inside = None
        a.seek_to_beginning()
        assert await take(a, 5) == [f"0:{n}" for n in range(5)]
        assert counts(listener) == [("assigned", 1)]
