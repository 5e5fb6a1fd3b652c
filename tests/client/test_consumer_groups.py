"""Groups of consumers that come and go, and what each of them reads."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from tests.client.consuming import (
    PATIENCE,
    STRATEGIES,
    Stage,
    crash,
)

from kohort.client.consumer import Consumer
from kohort.client.errors import CommitFailedError, RebalanceInProgressError


class Worker:
    """A consumer that reads, and commits what it has read, until it is told to stop."""

    def __init__(self, reader: Consumer, seen: Counter[str]) -> None:
        self.reader = reader
        self.seen = seen
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while True:
            found = await self.reader.getmany(timeout_ms=50, max_records=20)
            self.seen.update(r.value.decode() for rows in found.values() for r in rows)
            if found:
                # Where it fails, whoever has the partitions reads them again.
                with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
                    await self.reader.commit()

    async def stop(self) -> None:
        """Stops reading."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_1200_records_through_rebalances(stage: Stage, strategy: str) -> None:
    """Members join, leave and crash; every record is read, and all is committed.

    Half of the records come when one has crashed: what it had has to go to others.
    """
    await stage.fill([100] * 6, batch=10)
    seen: Counter[str] = Counter()
    workers: list[Worker] = []

    async def join() -> None:
        reader = stage.member(
            partition_assignment_strategy=strategy,
            enable_auto_commit=False,
            session_timeout_ms=2_000,
        )
        await reader.start()
        workers.append(Worker(reader, seen))

    async def until(count: int) -> None:
        while len(seen) < count:
            await asyncio.wait([w.task for w in workers], timeout=0.01)
            assert not any(w.task.done() for w in workers), workers

    async with asyncio.timeout(PATIENCE):
        await join()
        await until(50)
        await join()
        await join()
        await until(200)
        leaver = workers.pop(0)
        await leaver.stop()
        await leaver.reader.close()
        await join()
        await until(350)
        crashed = workers.pop(0)
        await crashed.stop()
        await crash(crashed.reader)
        await stage.fill([100] * 6, batch=10, is_new=False, start=100)
        await until(1_200)
        for worker in workers:
            await worker.stop()
        for worker in workers:
            await worker.reader.close()
    assert len(seen) == 1_200
    async with stage.consumer() as reader:
        found = await reader.committed(*stage.places(*range(6)))
        assert [r.offset for r in found.values() if r] == [200] * 6
