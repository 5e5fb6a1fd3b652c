"""A group that is full (KIP-389): one error, for good, whatever its number is."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    Stage,
    all_end,
    is_shared,
    poll_until,
    shares,
    take,
)
from tests.client.sent import Sent

from kohort.client.errors import GroupMaxSizeReachedError
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

FULL = {ErrorCode.GROUP_MAX_SIZE_REACHED, KIP_389_GROUP_MAX_SIZE_REACHED}
HEARTBEATS = 20
"""So long the scene waits for what must not come."""


def refusals(sent: Sent, stage: Stage) -> int:
    """How many joins the group has refused because it is full."""
    answered = sent.answered("JoinGroup", stage.group)
    return sum(each.response.error_code in FULL for each in answered)


async def test_a_full_group_ends_the_consumer(small: Stage, sent: Sent) -> None:
    """KIP-389's text, no retry, no task left; the others work on."""
    await small.fill([2, 2])
    async with small.member() as a, small.member() as b:
        await poll_until(lambda: is_shared(2, a, b), a, b)
        joins = len(sent.of("JoinGroup", small.group))
        before = asyncio.all_tasks()
        listener = Recorder()
        async with small.consumer() as c:
            c.subscribe([small.topic], listener=listener)
            for _ in range(2):
                with pytest.raises(GroupMaxSizeReachedError) as caught:
                    await asyncio.wait_for(c.getone(), PATIENCE)
                assert (
                    caught.value.message
                    == "Consumer group is already at its full capacity."
                )
                assert not caught.value.retriable
                assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
                assert (caught.value.api, caught.value.group) == (
                    "JoinGroup",
                    small.group,
                )
            beats = len(sent.answered("Heartbeat", small.group))
            await sent.until("Heartbeat", small.group, beats + HEARTBEATS)
            assert refusals(sent, small) == 1
            assert len(sent.of("JoinGroup", small.group)) == joins + 1
        await all_end(before)
        assert not listener.calls
        assert shares(a, b) == [1, 1]
        for reader in (a, b):
            reader.seek_to_beginning()
            assert len(await take(reader, 2)) == 2


async def test_a_place_that_is_free_again_is_taken(small: Stage) -> None:
    """A consumer that was refused stays so; another one gets in."""
    await small.fill([1, 1])
    async with small.member() as a:
        async with small.member() as b:
            await poll_until(lambda: is_shared(2, a, b), a, b)
            async with small.member() as c:
                with pytest.raises(GroupMaxSizeReachedError):
                    await asyncio.wait_for(c.getone(), PATIENCE)
        async with small.member() as d:
            await poll_until(lambda: is_shared(2, a, d), a, d)


async def test_a_static_member_is_refused_too(small: Stage, sent: Sent) -> None:
    """Even one that restarts: it has no member id, and that is what brokers look for.

    Its own place counts as long as its session lasts (Apache Kafka has it so).
    """
    await small.fill([1, 1])
    settings = {"session_timeout_ms": 30_000}
    a = small.member(group_instance_id="i-a", **settings)
    await a.start()
    async with small.member(group_instance_id="i-b", **settings) as b:
        await poll_until(lambda: is_shared(2, a, b), a, b)
        await a.close()
        for instance in ("i-c", "i-a"):
            async with small.member(group_instance_id=instance) as c:
                with pytest.raises(GroupMaxSizeReachedError):
                    await asyncio.wait_for(c.getone(), PATIENCE)
    assert refusals(sent, small) == 2
