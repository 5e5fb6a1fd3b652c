"""A consumer's ordinary use by an application."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.stage import (
    PATIENCE,
    Stage,
    either_protocol,
    poll_until,
    take,
)

from kohort.client import KohortError, OffsetAndMetadata, SubscriptionPattern
from kohort.client.errors import ClosedError, ConfigError, NoOffsetForPartitionError
from kohort.protocol.compression import CODECS


@either_protocol
async def test_iteration_ends_when_the_consumer_is_closed(stage: Stage) -> None:
    """Another task closes the consumer; the loop ends without an error."""
    await stage.fill([1])
    reader = stage.member()
    await reader.start()
    seen = asyncio.Event()

    async def loop() -> int:
        count = 0
        async for _ in reader:
            count += 1
            seen.set()
        return count

    task = asyncio.create_task(loop())
    async with asyncio.timeout(PATIENCE):
        await seen.wait()
        await reader.close()
        assert await task == 1
    with pytest.raises(ClosedError):
        await reader.getmany()


async def test_getmany_bounds_what_it_gives(stage: Stage) -> None:
    """max_records, max_poll_records, and a choice of partitions."""
    await stage.fill([30, 30])
    async with stage.member(max_poll_records=10) as reader:
        seen: list[int] = []
        async with asyncio.timeout(PATIENCE):
            while len(seen) < 3:
                found = await reader.getmany(stage.p1, timeout_ms=500, max_records=3)
                assert set(found) <= {stage.p1}
                seen += [r.offset for r in found.get(stage.p1, [])]
        assert seen == [0, 1, 2]
        found = await reader.poll(timeout_ms=5_000)
        assert 0 < sum(map(len, found.values())) <= 10
        with pytest.raises(ConfigError):
            await reader.getmany(max_records=0)


async def test_seeking(stage: Stage) -> None:
    """To an offset, to both ends, and to a time."""
    await stage.fill([100])
    async with stage.consumer(group_id=None) as reader:
        reader.assign([stage.p0])
        reader.seek(stage.p0, 42)
        assert await reader.position(stage.p0) == 42
        assert (await take(reader, 1))[0] == "0:42"
        reader.seek_to_beginning()
        assert (await take(reader, 1))[0] == "0:0"
        reader.seek_to_end(stage.p0)
        assert await reader.position(stage.p0) == 100
        reader.seek_to_time(1_077, stage.p0)
        assert (await take(reader, 1))[0] == "0:77"
        reader.seek_to_time(10_000)
        assert await reader.position(stage.p0) == 100
        with pytest.raises(ConfigError):
            reader.seek(stage.p0, -1)
        with pytest.raises(ConfigError):
            reader.seek(stage.p1, 0)


async def test_offsets_of_logs(stage: Stage) -> None:
    """Beginning, end, and by time, of unassigned partitions."""
    await stage.fill([5, 9])
    p0, p1 = stage.p0, stage.p1
    async with stage.consumer(group_id=None) as reader:
        assert await reader.beginning_offsets([p0, p1]) == {p0: 0, p1: 0}
        assert await reader.end_offsets([p0, p1]) == {p0: 5, p1: 9}
        found = await reader.offsets_for_times({p0: 1_003, p1: 1_009})
        row = found[p0]
        assert row is not None
        assert (row.offset, row.timestamp, found[p1]) == (3, 1_003, None)


@pytest.mark.parametrize(("policy", "first"), [("earliest", "0:0"), ("latest", None)])
async def test_where_to_begin(stage: Stage, policy: str, first: str | None) -> None:
    """auto_offset_reset applies without a committed offset."""
    await stage.fill([3])
    async with stage.member(auto_offset_reset=policy) as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        if first is None:
            assert await reader.position(stage.p0) == 3
        else:
            reader.seek_to_beginning()
            assert (await take(reader, 1))[0] == first


@either_protocol
async def test_nowhere_to_begin_is_an_error_that_a_seek_solves(stage: Stage) -> None:
    """auto_offset_reset is none."""
    await stage.fill([3])
    async with stage.member(auto_offset_reset="none") as reader:
        with pytest.raises(NoOffsetForPartitionError) as caught:
            await take(reader, 1)
        assert (caught.value.topic, caught.value.group) == (stage.topic, stage.group)
        reader.seek(stage.p0, 1)
        assert await take(reader, 2) == ["0:1", "0:2"]


async def test_an_offset_that_is_not_there_resets(stage: Stage) -> None:
    """OFFSET_OUT_OF_RANGE applies the policy; without a policy it is an error."""
    await stage.fill([3])
    async with stage.consumer(group_id=None) as reader:
        reader.assign([stage.p0])
        reader.seek(stage.p0, 99)
        assert await take(reader, 3) == ["0:0", "0:1", "0:2"]
    async with stage.consumer(group_id=None, auto_offset_reset="none") as reader:
        reader.assign([stage.p0])
        reader.seek(stage.p0, 99)
        with pytest.raises(KohortError, match="there is no offset 99") as caught:
            await take(reader, 1)
        assert caught.value.broker


# -- commits


@either_protocol
async def test_committing(stage: Stage) -> None:
    """Positions and explicit offsets, with metadata; a successor continues there."""
    await stage.fill([10, 10])
    settings = {"enable_auto_commit": False}
    async with stage.member(**settings) as reader:
        await take(reader, 20)
        assert await reader.committed(stage.p0, stage.p1) == {
            stage.p0: None,
            stage.p1: None,
        }
        await reader.commit()
        await reader.commit({stage.p1: OffsetAndMetadata(4, "four")})
        await reader.commit_async({stage.p0: 7})
        found = await reader.committed(stage.p0, stage.p1)
        assert [(r.offset, r.metadata) for r in found.values() if r] == [
            (7, ""),
            (4, "four"),
        ]
        with pytest.raises(ConfigError):
            await reader.commit({stage.p0: -2})
    async with stage.member(**settings) as reader:
        assert sorted(await take(reader, 9))[:3] == ["0:7", "0:8", "0:9"]


@either_protocol
async def test_auto_commit_in_time(stage: Stage) -> None:
    """A poll commits the records returned before it."""
    await stage.fill([10])
    async with stage.member(auto_commit_interval_ms=0) as reader:
        await take(reader, 10)
        async with asyncio.timeout(PATIENCE):
            while (await reader.committed(stage.p0))[stage.p0] != (10, "", 0):
                await reader.getmany()


# -- subscriptions


async def test_what_does_not_go_together(stage: Stage) -> None:
    """Topics and pattern, topics and partitions, a subscription without a group."""
    async with stage.member() as reader:
        for arguments in ({}, {"topics": ["t"], "pattern": "t"}):
            with pytest.raises(ConfigError):
                reader.subscribe(**arguments)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            reader.assign([stage.p0])
        with pytest.raises(ConfigError, match="listener: function"):
            reader.subscribe([stage.topic], listener=take)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="group_protocol=consumer"):
            reader.subscribe(pattern=SubscriptionPattern("t.*"))
    async with stage.consumer(group_id=None) as reader:
        with pytest.raises(ConfigError):
            reader.subscribe([stage.topic])
        with pytest.raises(ConfigError):
            await reader.commit({stage.p0: 1})
        with pytest.raises(ConfigError, match="group_id"):
            reader.group_metadata()
    with pytest.raises(ConfigError, match="assignment"):
        stage.member(partition_assignment_strategy="none-such").start().send(None)


async def test_partitions_by_hand_with_a_group_for_offsets(stage: Stage) -> None:
    """assign() commits without a member, and starts at the committed offset."""
    await stage.fill([6])
    async with stage.consumer() as reader:
        reader.assign([stage.p0])
        await take(reader, 6)
        await reader.commit({stage.p0: 4})
        reader.assign([])
        reader.assign([stage.p0])
        assert await take(reader, 2) == ["0:4", "0:5"]


@pytest.mark.parametrize("codec", CODECS)
async def test_codecs(stage: Stage, codec: str) -> None:
    """Batches of every codec, many per fetch, in small fetches."""
    await stage.fill([60], batch=7, compression_type=codec)
    async with stage.consumer(group_id=None, max_partition_fetch_bytes=300) as reader:
        reader.assign([stage.p0])
        assert await take(reader, 60) == [f"0:{n}" for n in range(60)]
