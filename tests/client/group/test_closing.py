"""The end of a membership: always in time, with nothing left over."""

from __future__ import annotations

import asyncio
import itertools

from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import (
    PATIENCE,
    Recorder,
    Stage,
    all_end,
    either_protocol,
    poll_until,
    shares,
)

SOON = 20.0
"""Seconds: much longer than a close with a timeout of 700 ms, much shorter than any
request may take."""


@either_protocol
async def test_close_returns_in_time_whatever_a_listener_does(stage: Stage) -> None:
    """A callback that hangs is cancelled."""
    await stage.fill([1])
    listener = Recorder()

    async def hang(kind: str) -> None:
        if kind == "revoked":
            await asyncio.Event().wait()

    listener.inside = hang
    before = asyncio.all_tasks()
    # A commit comes before the listener, and may use up the short time.
    reader = stage.consumer(enable_auto_commit=False)
    await reader.start()
    reader.subscribe([stage.topic], listener=listener)
    await poll_until(lambda: shares(reader) == [1], reader)
    async with asyncio.timeout(SOON):
        await reader.close(timeout_ms=700)
    assert listener.kinds() == ["assigned", "revoked"]
    await all_end(before)


@either_protocol
async def test_cancelled_at_every_await(stage: Stage) -> None:
    """A consumer's whole life, cancelled at each await: no task or record is lost."""
    await stage.fill([3])
    before = asyncio.all_tasks()
    groups = itertools.count()

    async def life() -> None:
        # Each in a separate group, so that none waits for cancelled ones.
        group = stage.name(f"g{next(groups)}")
        async with stage.member(group_id=group) as a:
            record = await a.getone()
            assert record.offset == 0
            await a.commit({stage.p0: 0})
            await a.committed(stage.p0)
            await a.unsubscribe()

    async with asyncio.timeout(2 * PATIENCE):
        assert await cancel_at_every_await(life, lambda: all_end(before)) > 10
