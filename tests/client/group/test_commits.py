"""Offsets during rebalances: none goes back, no record is read twice."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.client.sent_requests import SentRequests
from tests.client.stage import (
    PATIENCE,
    Recorder,
    Stage,
    either_protocol,
    every_protocol,
    is_shared,
    poll_until,
    shares,
    take,
    text,
)

from kohort.client import Consumer, OffsetAndMetadata, TopicPartition

BEFORE = 20
"""Asynchronous commits before the partitions are revoked."""


def committed(sent: SentRequests, stage: Stage, place: TopicPartition) -> list[int]:
    """The committed offsets of a partition, in the broker's order."""
    return [
        row.committed_offset
        for each in sent.answered("OffsetCommit", stage.group)
        for topic in each.request.topics
        for row in topic.partitions
        if (topic.name, row.partition_index) == place
    ]


@every_protocol
async def test_a_commit_on_revocation_comes_last(
    stage: Stage, sent: SentRequests
) -> None:
    """The double-commit hazard: many are queued when the callback awaits one."""
    await stage.fill([100, 100])
    settings = {"enable_auto_commit": False}
    listener = Recorder()
    offsets = iter(range(1, 1_000_000))
    last: dict[TopicPartition, int] = {}
    async with stage.consumer(**settings) as a, stage.consumer(**settings) as b:

        async def inside(kind: str) -> None:
            if kind == "revoked":
                gone = listener.calls[-1][1]
                for _ in range(BEFORE):
                    a.commit_async(dict.fromkeys(gone, next(offsets)))
                last.update(dict.fromkeys(gone, next(offsets)))
                await a.commit({place: last[place] for place in gone})

        listener.inside = inside
        a.subscribe([stage.topic], listener=listener)
        await poll_until(lambda: shares(a) == [2], a)
        b.subscribe([stage.topic])
        await poll_until(lambda: bool(last) and is_shared(2, a, b), a, b)
        found = await b.committed(*last)
        assert {p: row and row.offset for p, row in found.items()} == last
        for place, offset in last.items():
            history = committed(sent, stage, place)
            assert len(history) > BEFORE
            assert history == sorted(history)
            assert history[-1] == offset


@either_protocol
async def test_auto_commit_before_partitions_go(stage: Stage) -> None:
    """The next owner continues where the previous one stopped."""
    await stage.fill([50] * 4, batch=5)
    seen: Counter[str] = Counter()
    async with stage.member(max_poll_records=7) as a:
        while len(seen) < 60:
            seen.update(await take(a, 1))
        async with stage.member() as b:

            async def read(reader: Consumer) -> None:
                while len(seen) < 200:
                    found = await reader.getmany(timeout_ms=20)
                    rows = [r for some in found.values() for r in some]
                    seen.update(map(text, rows))

            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(read(a), read(b))
    assert set(seen.values()) == {1}, "nothing is read twice"


@either_protocol
async def test_close_commits_the_final_offsets(
    stage: Stage, sent: SentRequests
) -> None:
    """Auto-commit covers returned records, not fetched ones; before it leaves."""
    await stage.fill([10])
    async with stage.member(auto_commit_interval_ms=600_000) as a:
        async with asyncio.timeout(PATIENCE):
            for _ in range(4):
                await a.getone()
        assert not sent.requests("OffsetCommit", stage.group)
    (left,) = sent.leaves(stage.group)
    (committed,) = sent.requests("OffsetCommit", stage.group)
    assert sent.exchanges.index(committed) < sent.exchanges.index(left)
    async with stage.member() as b:
        assert await b.committed(stage.p0) == {stage.p0: OffsetAndMetadata(4, "", 0)}
        assert (await take(b, 6))[0] == "0:4"


@either_protocol
async def test_without_auto_commit_close_commits_nothing(
    stage: Stage, sent: SentRequests
) -> None:
    """Uncommitted records are read again."""
    await stage.fill([3])
    for _ in range(2):
        async with stage.member(enable_auto_commit=False) as a:
            assert await take(a, 3) == ["0:0", "0:1", "0:2"]
    assert not sent.requests("OffsetCommit", stage.group)
