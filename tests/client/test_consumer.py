"""What an application does with a consumer of its own."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    Stage,
    poll_until,
    take,
)
from tests.client.time_up import is_up_after_a_failure

from kohort.broker.server import Broker
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    ClosedError,
    CommitFailedError,
    ConfigError,
    ConnectionFailedError,
    KohortError,
    NoOffsetForPartitionError,
)
from kohort.client.offsets import OffsetAndMetadata


async def test_all_records_in_order_by_iteration(stage: Stage) -> None:
    """`async for` gives each partition's records in their order."""
    await stage.fill([120, 80])
    found: dict[int, list[int]] = {0: [], 1: []}
    async with asyncio.timeout(PATIENCE), stage.member() as reader:
        async for record in reader:
            assert (record.topic, record.key) == (stage.topic, b"k")
            assert record.timestamp == 1_000 + record.offset
            found[record.partition].append(record.offset)
            if sum(map(len, found.values())) == 200:
                break
        assert await reader.position(stage.p0) == 120
        assert reader.highwater(stage.p0) == 120
    assert found == {0: [*range(120)], 1: [*range(80)]}


async def test_iteration_ends_when_the_consumer_is_closed(stage: Stage) -> None:
    """Another task closes it; the loop ends without an error."""
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
    """max_records, max_poll_records, and partitions that are asked for."""
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


async def test_nothing_to_read_is_nothing_given(stage: Stage) -> None:
    """Getmany comes back with nothing when its time is up."""
    await stage.fill([0])
    async with stage.member() as reader:
        assert await reader.getmany(timeout_ms=50) == {}
        assert await reader.getmany() == {}


async def test_paused_partitions_give_nothing_until_resumed(stage: Stage) -> None:
    """The other partition goes on; afterwards nothing is missing."""
    await stage.fill([10, 10])
    async with stage.consumer(group_id=None) as reader:
        reader.assign([stage.p0, stage.p1])
        reader.pause(stage.p0)
        assert {v[0] for v in await take(reader, 10)} == {"1"}
        assert reader.paused() == {stage.p0}
        assert await reader.getmany(timeout_ms=50) == {}
        reader.resume(stage.p0)
        assert await take(reader, 10) == [f"0:{n}" for n in range(10)]


async def test_seeking(stage: Stage) -> None:
    """To an offset, both ends, and a point in time."""
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
    """Beginning, end, and by time, of partitions that are not consumed."""
    await stage.fill([5, 9])
    async with stage.consumer(group_id=None) as reader:
        assert await reader.beginning_offsets([stage.p0, stage.p1]) == {
            stage.p0: 0,
            stage.p1: 0,
        }
        assert await reader.end_offsets([stage.p0, stage.p1]) == {
            stage.p0: 5,
            stage.p1: 9,
        }
        found = await reader.offsets_for_times({stage.p0: 1_003, stage.p1: 1_009})
        row = found[stage.p0]
        assert row is not None
        assert (row.offset, row.timestamp, found[stage.p1]) == (3, 1_003, None)


@pytest.mark.parametrize(("policy", "first"), [("earliest", "0:0"), ("latest", None)])
async def test_where_to_begin(stage: Stage, policy: str, first: str | None) -> None:
    """auto_offset_reset counts where nothing is committed."""
    await stage.fill([3])
    async with stage.member(auto_offset_reset=policy) as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        if first is None:
            assert await reader.position(stage.p0) == 3
        else:
            reader.seek_to_beginning()
            assert (await take(reader, 1))[0] == first


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
    """OFFSET_OUT_OF_RANGE goes by the policy; without one it is an error."""
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


async def test_committing(stage: Stage) -> None:
    """Of positions and of offsets, with metadata; a successor goes on from there."""
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


async def test_commits_keep_their_order(stage: Stage) -> None:
    """One that is awaited comes after those that were not: the last one stays."""
    await stage.fill([10])
    async with stage.member() as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        tasks = [reader.commit_async({stage.p0: n}) for n in range(1, 9)]
        await reader.commit({stage.p0: 9})
        assert all(task.done() for task in tasks)
        assert await reader.committed(stage.p0) == {stage.p0: OffsetAndMetadata(9)}


async def test_auto_commit_when_closed_and_in_time(stage: Stage) -> None:
    """What was given out before a poll, or before close, is committed."""
    await stage.fill([10])
    async with stage.member() as reader:
        await take(reader, 10)
    async with stage.member(auto_commit_interval_ms=0) as reader:
        assert await reader.committed(stage.p0) == {
            stage.p0: OffsetAndMetadata(10, "", 0)
        }
        await poll_until(lambda: bool(reader.assignment()), reader)
        reader.seek(stage.p0, 6)
        await take(reader, 4)
        await reader.getmany()
        found = await reader.committed(stage.p0)
        assert found[stage.p0] is not None


async def test_a_commit_after_the_group_has_moved_on(stage: Stage) -> None:
    """CommitFailedError: nothing of somebody else's is overwritten."""
    await stage.fill([2])
    async with stage.member(
        max_poll_interval_ms=200, enable_auto_commit=False
    ) as reader:
        listener = Recorder()
        reader.subscribe([stage.topic], listener=listener)
        await take(reader, 2)
        await stage.until_members(0)
        with pytest.raises(CommitFailedError) as caught:
            await reader.commit()
        assert not caught.value.retriable
        await poll_until(lambda: listener.kinds()[-2:] == ["lost", "assigned"], reader)


# -- subscriptions


async def test_a_pattern_follows_topics_that_come(stage: Stage) -> None:
    """A topic that is made later is consumed as well; another one is not."""
    await stage.fill([2], stage.name("logs-a"))
    await stage.fill([2], stage.name("other"))
    async with stage.consumer(metadata_max_age_ms=50) as reader:
        reader.subscribe(pattern=stage.name("logs-.*"))
        assert await take(reader, 2) == ["0:0", "0:1"]
        await stage.fill([3], stage.name("logs-b"))
        await poll_until(lambda: len(reader.assignment()) == 2, reader)
        assert reader.subscription() == {stage.name("logs-a"), stage.name("logs-b")}


async def test_unsubscribing_and_subscribing_again(stage: Stage) -> None:
    """The listener gives everything back; later there is another assignment."""
    await stage.fill([1])
    other = stage.name("u")
    await stage.fill([2], other)
    listener = Recorder()
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=listener)
        await take(reader, 1)
        await reader.unsubscribe()
        assert listener.kinds() == ["assigned", "revoked"]
        assert reader.assignment() == frozenset()
        reader.subscribe([other], listener=listener)
        assert await take(reader, 2) == ["0:0", "0:1"]
        reader.subscribe([stage.topic, other], listener=listener)
        await poll_until(lambda: len(reader.assignment()) == 2, reader)


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
    async with stage.consumer(group_id=None) as reader:
        with pytest.raises(ConfigError):
            reader.subscribe([stage.topic])
        with pytest.raises(ConfigError):
            await reader.commit({stage.p0: 1})
    with pytest.raises(ConfigError, match="assignment"):
        stage.member(partition_assignment_strategy="none-such").start().send(None)


async def test_partitions_by_hand_with_a_group_for_offsets(stage: Stage) -> None:
    """assign() commits as nobody's member, and begins at what is committed."""
    await stage.fill([6])
    async with stage.consumer() as reader:
        reader.assign([stage.p0])
        await take(reader, 6)
        await reader.commit({stage.p0: 4})
        reader.assign([])
        reader.assign([stage.p0])
        assert await take(reader, 2) == ["0:4", "0:5"]


# -- errors


async def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """start() raises, and everything is closed."""
    async with Broker() as gone:
        address = gone.bootstrap_servers
    reader = Consumer(bootstrap_servers=address, group_id="g")
    is_up_after_a_failure(monkeypatch)
    with pytest.raises(KohortError) as caught:
        await reader.start()
    assert isinstance(caught.value.__cause__, ConnectionFailedError)
    await reader.close()


async def test_what_a_listener_raises_comes_out_of_the_poll(stage: Stage) -> None:
    """The group goes on all the same."""
    await stage.fill([2])
    listener = Recorder()

    async def fail(kind: str) -> None:
        listener.is_called = False
        raise ValueError(kind)

    listener.inside = fail
    async with stage.consumer() as reader:
        reader.subscribe([stage.topic], listener=listener)
        with pytest.raises(ValueError, match="assigned"):
            await take(reader, 1)
        listener.inside = None
        assert await take(reader, 2) == ["0:0", "0:1"]


async def test_values_that_a_deserializer_does_not_take(stage: Stage) -> None:
    """SerializationError names the record; a seek goes past it."""
    await stage.fill([3])

    def number(value: bytes) -> int:
        if value == b"0:1":
            raise ValueError("one")
        return int(value[2:])

    async with stage.consumer(group_id=None, value_deserializer=number) as reader:
        reader.assign([stage.p0])
        async with asyncio.timeout(PATIENCE):
            assert (await reader.getone()).value == 0
            for _ in range(2):
                with pytest.raises(KohortError, match="offset 1"):
                    await reader.getone()
            reader.seek(stage.p0, 2)
            assert (await reader.getone()).value == 2


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
async def test_codecs(stage: Stage, codec: int) -> None:
    """Batches of every codec, many to a fetch, in small fetches."""
    await stage.fill([60], batch=7, codec=codec)
    async with stage.consumer(group_id=None, max_partition_fetch_bytes=300) as reader:
        reader.assign([stage.p0])
        assert await take(reader, 60) == [f"0:{n}" for n in range(60)]
