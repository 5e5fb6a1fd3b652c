"""How a membership ends: it always does, within its time, with nothing left over."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    Stage,
    all_end,
    poll_until,
    shares,
    take,
)
from tests.client.sent import Sent

SOON = 20.0
"""Seconds: much longer than a close with a timeout of 700 ms, much shorter than any
request may take."""


async def test_closing_in_the_middle_of_anything(stage: Stage) -> None:
    """While joining, while waiting, twice: it always ends, and nothing is left."""
    await stage.fill([1])
    before = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE):
        joining = stage.member()
        await joining.start()
        await joining.close()
        waiting = stage.member()
        await waiting.start()
        await take(waiting, 1)
        await asyncio.gather(waiting.close(), waiting.close())
        await stage.member().close()
        await stage.until_members(0)
    assert asyncio.all_tasks() <= before


async def test_the_group_hears_why_a_member_leaves(stage: Stage, sent: Sent) -> None:
    """KIP-800; and it hears of it once."""
    await stage.fill([1])
    async with stage.member() as a:
        await poll_until(lambda: shares(a) == [1], a)
        await a.unsubscribe()
        await stage.until_members(0)
        a.subscribe([stage.topic])
        await poll_until(lambda: shares(a) == [1], a)
    assert [
        each.request.members[0].reason
        for each in sent.answered("LeaveGroup", stage.group)
    ] == ["the consumer has unsubscribed", "the consumer is being closed"]


async def test_close_returns_in_time_whatever_a_listener_does(stage: Stage) -> None:
    """A callback that hangs is given up."""
    await stage.fill([1])
    listener = Recorder()

    async def hang(kind: str) -> None:
        if kind == "revoked":
            await asyncio.Event().wait()

    listener.inside = hang
    before = asyncio.all_tasks()
    # A commit comes before the listener's turn, and may take all of so little time.
    reader = stage.consumer(enable_auto_commit=False)
    await reader.start()
    reader.subscribe([stage.topic], listener=listener)
    await poll_until(lambda: shares(reader) == [1], reader)
    async with asyncio.timeout(SOON):
        await reader.close(timeout_ms=700)
    assert listener.kinds() == ["assigned", "revoked"]
    await all_end(before)


@pytest.mark.parametrize("when", ["joining", "consuming", "committing"])
async def test_close_returns_in_time_whatever_a_broker_does(
    broker_process: tuple[Stage, int], when: str
) -> None:
    """It stands still, and answers nothing: its process is stopped by a signal."""
    stage, pid = broker_process
    await stage.fill([1])
    before = asyncio.all_tasks()
    reader = stage.member()
    await reader.start()
    if when != "joining":
        await take(reader, 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        commit = None
        if when == "committing":
            commit = reader.commit_async({stage.p0: 1})
        await reader.getmany(timeout_ms=100)
        async with asyncio.timeout(SOON):
            await reader.close(timeout_ms=700)
            assert commit is None or commit.done()
        await all_end(before)
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_cancelled_at_every_await(stage: Stage) -> None:
    """A consumer's whole life, cancelled anywhere: nothing runs on, nothing is lost."""
    await stage.fill([3])
    before = asyncio.all_tasks()
    groups = itertools.count()

    async def life() -> None:
        # Each in a group of its own: nobody waits for those that were cut short.
        group = stage.name(f"g{next(groups)}")
        async with stage.member(group_id=group) as a:
            record = await a.getone()
            assert record.offset == 0
            await a.commit({stage.p0: 0})
            await a.committed(stage.p0)
            await a.unsubscribe()

    async with asyncio.timeout(2 * PATIENCE):
        assert await cancel_at_every_await(life, lambda: all_end(before)) > 10
