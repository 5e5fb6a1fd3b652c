"""Errors that end a membership: a full group, and a fenced instance id."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.sent_requests import SentRequests
from tests.client.stage import (
    PATIENCE,
    Recorder,
    Stage,
    all_end,
    in_groups,
    is_shared,
    poll_until,
    shares,
    take,
)

from kohort.client.assignors import ASSIGNORS
from kohort.client.errors import FencedInstanceError, GroupMaxSizeReachedError
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode

FULL = {ErrorCode.GROUP_MAX_SIZE_REACHED, KIP_389_GROUP_MAX_SIZE_REACHED}
HEARTBEATS = 20
"""Heartbeats after which no second JoinGroup is expected any more."""


def refusals(sent: SentRequests, stage: Stage) -> int:
    """Number of joins refused because the group is full."""
    answered = sent.answered("JoinGroup", stage.group)
    return sum(each.response.error_code in FULL for each in answered)


async def test_a_full_group_ends_the_consumer(small: Stage, sent: SentRequests) -> None:
    """KIP-389's text, no retry, no task left; the others continue."""
    await small.fill([2, 2])
    async with small.member() as a, small.member() as b:
        await poll_until(lambda: is_shared(2, a, b), a, b)
        joins = len(sent.requests("JoinGroup", small.group))
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
            assert len(sent.requests("JoinGroup", small.group)) == joins + 1
            assert not sent.requests("LeaveGroup", small.group)
        await all_end(before)
        assert not listener.calls
        assert shares(a, b) == [1, 1]
        for reader in (a, b):
            reader.seek_to_beginning()
            assert len(await take(reader, 2)) == 2


@in_groups({}, fixture="small")
async def test_a_full_group_of_the_consumer_protocol_ends_the_consumer(
    small: Stage, sent: SentRequests
) -> None:
    """The same error as above; the others continue."""
    await small.fill([1, 1])
    async with small.member() as a, small.member() as b:
        await poll_until(lambda: is_shared(2, a, b), a, b)
        listener = Recorder()
        async with small.consumer() as c:
            c.subscribe([small.topic], listener=listener)
            for _ in range(2):
                with pytest.raises(GroupMaxSizeReachedError) as caught:
                    await asyncio.wait_for(c.getone(), PATIENCE)
                assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
            refused = c.group_metadata().member_id
        assert not listener.calls
        api = "ConsumerGroupHeartbeat"
        assert len(sent.requests(api, small.group, refused)) == 1
        assert shares(a, b) == [1, 1]


async def test_an_assignor_that_fails_ends_the_consumer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll raises its error; the member leaves, and others can lead."""

    class Broken:
        def assign(self, *_: object) -> None:
            raise ZeroDivisionError

    await stage.fill([1])
    async with stage.consumer() as a:
        with monkeypatch.context() as patch:
            patch.setitem(ASSIGNORS, "range", Broken())
            a.subscribe([stage.topic])
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await take(a, 1)
        async with stage.member() as b:
            assert await take(b, 1) == ["0:0"]


async def test_a_second_process_of_an_instance_id_fences_the_first(
    stage: Stage, sent: SentRequests
) -> None:
    """Each poll raises FencedInstanceError; the partitions are lost."""
    await stage.fill([1])
    listener = Recorder()
    async with stage.consumer(group_instance_id="i") as a:
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [1], a)
        async with stage.member(group_instance_id="i") as b:
            await poll_until(lambda: shares(b) == [1], b)
            for _ in range(2):
                with pytest.raises(FencedInstanceError) as caught:
                    await poll_until(lambda: False, a)
                assert not caught.value.retriable
                assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
                assert caught.value.group == stage.group
            assert listener.kinds() == ["assigned", "lost"]
            assert shares(a, b) == [0, 1]
        await a.close()
        assert not sent.requests("LeaveGroup", stage.group), (
            "it is not a's place any more"
        )
