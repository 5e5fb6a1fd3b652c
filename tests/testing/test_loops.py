"""Blocking tests and any event loop share one broker's thread safely."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop

from kohort.testing import Kohort

pytestmark = pytest.mark.kohort(nodes=2)


def test_a_loop_of_the_tests_own(kohort: Kohort) -> None:
    """A blocking test that runs a loop awaits in there, and blocks outside."""

    async def stop() -> None:
        await kohort.stop_node(2)

    asyncio.run(stop())
    kohort.start_node(2)
    uvloop.run(stop())
    assert kohort.call(lambda: kohort.broker.cluster.running) == [1]


async def test_waits_in_tasks(kohort: Kohort) -> None:
    """Handles can be gathered, and given to tasks."""
    ben, eve = kohort.member("billing"), kohort.member("shipping")
    replies = await asyncio.gather(ben.join(), eve.join())
    assert [each.error for each in replies] == ["NONE", "NONE"]
    reply = await asyncio.ensure_future(ben.sync())
    assert reply.error == "NONE"


async def test_a_wait_can_be_cancelled(kohort: Kohort) -> None:
    """A cancelled task ends its wait and nothing else."""
    ben = kohort.member("billing")
    assert (await ben.join()).error == "NONE"
    waiting = asyncio.ensure_future(kohort.member("billing").join())
    await kohort.group("billing").until(state="PreparingRebalance")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await ben.heartbeat()).error == "REBALANCE_IN_PROGRESS"


def test_many_threads(kohort: Kohort) -> None:
    """Calls of several threads come one after the other."""
    topic = kohort.topic("orders", partitions=1)
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda n: topic.produce([str(n)]), range(100)):
            pass
    found = [int(each.value or b"") for each in topic.records()]
    assert sorted(found) == list(range(100))
