"""What an application does with a consumer, against a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.client.consuming import (
    PATIENCE,
    Recorder,
    consumer,
    fill,
    poll_until,
    take,
    until_members,
)

from kohort.broker.server import Broker
from kohort.client.errors import (
    ClosedError,
    CommitFailedError,
    ConfigError,
    ConnectionFailedError,
    KohortError,
    NoOffsetForPartitionError,
)
from kohort.client.offsets import OffsetAndMetadata, TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    """A broker without an initial delay."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


async def test_all_records_in_order_by_iteration(broker: Broker) -> None:
    """`async for` gives each partition's records in their order."""
    await fill(broker, counts=[120, 80])
    found: dict[int, list[int]] = {0: [], 1: []}
    async with asyncio.timeout(PATIENCE), consumer(broker, "t", group_id="g") as reader:
        async for record in reader:
            assert (record.topic, record.key) == ("t", b"k")
            assert record.timestamp == 1_000 + record.offset
            found[record.partition].append(record.offset)
            if sum(map(len, found.values())) == 200:
                break
        assert await reader.position(T0) == 120
        assert reader.highwater(T0) == 120
    assert found == {0: [*range(120)], 1: [*range(80)]}


async def test_iteration_ends_when_the_consumer_is_closed(broker: Broker) -> None:
    """Another task closes it; the loop ends without an error."""
    await fill(broker, counts=[1])
    reader = consumer(broker, "t", group_id="g")
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


async def test_getmany_bounds_what_it_gives(broker: Broker) -> None:
    """max_records, max_poll_records, and partitions that are asked for."""
    await fill(broker, counts=[30, 30])
    async with consumer(broker, "t", group_id="g", max_poll_records=10) as reader:
        seen: list[int] = []
        async with asyncio.timeout(PATIENCE):
            while len(seen) < 3:
                found = await reader.getmany(T1, timeout_ms=500, max_records=3)
                assert set(found) <= {T1}
                seen += [r.offset for r in found.get(T1, [])]
        assert seen == [0, 1, 2]
        found = await reader.poll(timeout_ms=5_000)
        assert 0 < sum(map(len, found.values())) <= 10
        with pytest.raises(ConfigError):
            await reader.getmany(max_records=0)


async def test_nothing_to_read_is_nothing_given(broker: Broker) -> None:
    """Getmany comes back with nothing when its time is up."""
    await fill(broker, counts=[0])
    async with consumer(broker, "t", group_id="g") as reader:
        assert await reader.getmany(timeout_ms=50) == {}
        assert await reader.getmany() == {}


async def test_paused_partitions_give_nothing_until_resumed(broker: Broker) -> None:
    """The other partition goes on; afterwards nothing is missing."""
    await fill(broker, counts=[10, 10])
    async with consumer(broker, group_id=None) as reader:
        reader.assign([T0, T1])
        reader.pause(T0)
        assert {v[0] for v in await take(reader, 10)} == {"1"}
        assert reader.paused() == {T0}
        assert await reader.getmany(timeout_ms=50) == {}
        reader.resume(T0)
        assert await take(reader, 10) == [f"0:{n}" for n in range(10)]


async def test_seeking(broker: Broker) -> None:
    """To an offset, both ends, and a point in time."""
    await fill(broker, counts=[100])
    async with consumer(broker, group_id=None) as reader:
        reader.assign([T0])
        reader.seek(T0, 42)
        assert await reader.position(T0) == 42
        assert (await take(reader, 1))[0] == "0:42"
        reader.seek_to_beginning()
        assert (await take(reader, 1))[0] == "0:0"
        reader.seek_to_end(T0)
        assert await reader.position(T0) == 100
        reader.seek_to_time(1_077, T0)
        assert (await take(reader, 1))[0] == "0:77"
        reader.seek_to_time(10_000)
        assert await reader.position(T0) == 100
        with pytest.raises(ConfigError):
            reader.seek(T0, -1)
        with pytest.raises(ConfigError):
            reader.seek(T1, 0)


async def test_offsets_of_logs(broker: Broker) -> None:
    """Beginning, end, and by time, of partitions that are not consumed."""
    await fill(broker, counts=[5, 9])
    async with consumer(broker, group_id=None) as reader:
        assert await reader.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
        assert await reader.end_offsets([T0, T1]) == {T0: 5, T1: 9}
        found = await reader.offsets_for_times({T0: 1_003, T1: 1_009})
        row = found[T0]
        assert row is not None
        assert (row.offset, row.timestamp, found[T1]) == (3, 1_003, None)


@pytest.mark.parametrize(("policy", "first"), [("earliest", "0:0"), ("latest", None)])
async def test_where_to_begin(broker: Broker, policy: str, first: str | None) -> None:
    """auto_offset_reset counts where nothing is committed."""
    await fill(broker, counts=[3])
    async with consumer(broker, "t", group_id="g", auto_offset_reset=policy) as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        if first is None:
            assert await reader.position(T0) == 3
        else:
            reader.seek_to_beginning()
            assert (await take(reader, 1))[0] == first


async def test_nowhere_to_begin_is_an_error_that_a_seek_solves(broker: Broker) -> None:
    """auto_offset_reset is none."""
    await fill(broker, counts=[3])
    async with consumer(broker, "t", group_id="g", auto_offset_reset="none") as reader:
        with pytest.raises(NoOffsetForPartitionError) as caught:
            await take(reader, 1)
        assert (caught.value.topic, caught.value.group) == ("t", "g")
        reader.seek(T0, 1)
        assert await take(reader, 2) == ["0:1", "0:2"]


async def test_an_offset_that_is_not_there_resets(broker: Broker) -> None:
    """OFFSET_OUT_OF_RANGE goes by the policy; without one it is an error."""
    await fill(broker, counts=[3])
    async with consumer(broker, group_id=None) as reader:
        reader.assign([T0])
        reader.seek(T0, 99)
        assert await take(reader, 3) == ["0:0", "0:1", "0:2"]
    async with consumer(broker, group_id=None, auto_offset_reset="none") as reader:
        reader.assign([T0])
        reader.seek(T0, 99)
        with pytest.raises(KohortError, match="there is no offset 99"):
            await take(reader, 1)


# -- commits


async def test_committing(broker: Broker) -> None:
    """Of positions and of offsets, with metadata; a successor goes on from there."""
    await fill(broker, counts=[10, 10])
    settings = {"group_id": "g", "enable_auto_commit": False}
    async with consumer(broker, "t", **settings) as reader:
        await take(reader, 20)
        assert await reader.committed(T0, T1) == {T0: None, T1: None}
        await reader.commit()
        await reader.commit({T1: OffsetAndMetadata(4, "four")})
        await reader.commit_async({T0: 7})
        found = await reader.committed(T0, T1)
        assert [(r.offset, r.metadata) for r in found.values() if r] == [
            (7, ""),
            (4, "four"),
        ]
        with pytest.raises(ConfigError):
            await reader.commit({T0: -2})
    async with consumer(broker, "t", **settings) as reader:
        assert sorted(await take(reader, 9))[:3] == ["0:7", "0:8", "0:9"]


async def test_commits_keep_their_order(broker: Broker) -> None:
    """One that is awaited comes after those that were not: the last one stays."""
    await fill(broker, counts=[10])
    async with consumer(broker, "t", group_id="g") as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        tasks = [reader.commit_async({T0: n}) for n in range(1, 9)]
        await reader.commit({T0: 9})
        assert all(task.done() for task in tasks)
        assert await reader.committed(T0) == {T0: OffsetAndMetadata(9)}


async def test_auto_commit_when_closed_and_in_time(broker: Broker) -> None:
    """What was given out before a poll, or before close, is committed."""
    await fill(broker, counts=[10])
    async with consumer(broker, "t", group_id="g") as reader:
        await take(reader, 10)
    async with consumer(broker, "t", group_id="g", auto_commit_interval_ms=0) as reader:
        assert await reader.committed(T0) == {T0: OffsetAndMetadata(10, "", 0)}
        await poll_until(lambda: bool(reader.assignment()), reader)
        reader.seek(T0, 6)
        await take(reader, 4)
        await reader.getmany()
        found = await reader.committed(T0)
        assert found[T0] is not None


async def test_a_commit_after_the_group_has_moved_on(broker: Broker) -> None:
    """CommitFailedError: nothing of somebody else's is overwritten."""
    await fill(broker, counts=[2])
    async with consumer(
        broker, "t", group_id="g", max_poll_interval_ms=200, enable_auto_commit=False
    ) as reader:
        listener = Recorder()
        reader.subscribe(["t"], listener=listener)
        await take(reader, 2)
        await until_members(broker, 0)
        with pytest.raises(CommitFailedError) as caught:
            await reader.commit()
        assert not caught.value.retriable
        await poll_until(lambda: listener.kinds()[-2:] == ["lost", "assigned"], reader)


# -- subscriptions


async def test_a_pattern_follows_topics_that_come(broker: Broker) -> None:
    """A topic that is made later is consumed as well; another one is not."""
    await fill(broker, "logs-a", [2])
    await fill(broker, "other", [2])
    async with consumer(broker, group_id="g", metadata_max_age_ms=50) as reader:
        reader.subscribe(pattern="logs-.*")
        assert await take(reader, 2) == ["0:0", "0:1"]
        await fill(broker, "logs-b", [3])
        await poll_until(lambda: len(reader.assignment()) == 2, reader)
        assert reader.subscription == {"logs-a", "logs-b"}


async def test_unsubscribing_and_subscribing_again(broker: Broker) -> None:
    """The listener gives everything back; later there is another assignment."""
    await fill(broker, "t", [1])
    await fill(broker, "u", [2])
    listener = Recorder()
    async with consumer(broker, group_id="g") as reader:
        reader.subscribe(["t"], listener=listener)
        await take(reader, 1)
        await reader.unsubscribe()
        assert listener.kinds() == ["assigned", "revoked"]
        assert reader.assignment() == frozenset()
        reader.subscribe(["u"], listener=listener)
        assert await take(reader, 2) == ["0:0", "0:1"]
        reader.subscribe(["t", "u"], listener=listener)
        await poll_until(lambda: len(reader.assignment()) == 2, reader)


async def test_what_does_not_go_together(broker: Broker) -> None:
    """Topics and pattern, topics and partitions, a subscription without a group."""
    async with consumer(broker, "t", group_id="g") as reader:
        for arguments in ({}, {"topics": ["t"], "pattern": "t"}):
            with pytest.raises(ConfigError):
                reader.subscribe(**arguments)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            reader.assign([T0])
    async with consumer(broker, group_id=None) as reader:
        with pytest.raises(ConfigError):
            reader.subscribe(["t"])
        with pytest.raises(ConfigError):
            await reader.commit({T0: 1})
    with pytest.raises(ConfigError, match="assignment"):
        consumer(
            broker, "t", group_id="g", partition_assignment_strategy="none-such"
        ).start().send(None)


async def test_partitions_by_hand_with_a_group_for_offsets(broker: Broker) -> None:
    """assign() commits as nobody's member, and begins at what is committed."""
    await fill(broker, counts=[6])
    async with consumer(broker, group_id="g") as reader:
        reader.assign([T0])
        await take(reader, 6)
        await reader.commit({T0: 4})
        reader.assign([])
        reader.assign([T0])
        assert await take(reader, 2) == ["0:4", "0:5"]


# -- errors


async def test_nobody_is_there() -> None:
    """start() raises, and everything is closed."""
    async with Broker() as gone:
        address = gone.bootstrap_servers
    reader = consumer(gone, group_id="g", bootstrap_servers=address)
    reader = type(reader)(
        bootstrap_servers=address, default_api_timeout_ms=300, group_id="g"
    )
    with pytest.raises(KohortError) as caught:
        await reader.start()
    assert isinstance(caught.value.__cause__, ConnectionFailedError)
    await reader.close()


async def test_what_a_listener_raises_comes_out_of_the_poll(broker: Broker) -> None:
    """The group goes on all the same."""
    await fill(broker, counts=[2])
    listener = Recorder()

    async def fail(kind: str) -> None:
        listener.is_called = False
        raise ValueError(kind)

    listener.inside = fail
    async with consumer(broker, group_id="g") as reader:
        reader.subscribe(["t"], listener=listener)
        with pytest.raises(ValueError, match="assigned"):
            await take(reader, 1)
        listener.inside = None
        assert await take(reader, 2) == ["0:0", "0:1"]


async def test_values_that_a_deserializer_does_not_take(broker: Broker) -> None:
    """SerializationError names the record; a seek goes past it."""
    await fill(broker, counts=[3])

    def number(value: bytes) -> int:
        if value == b"0:1":
            raise ValueError("one")
        return int(value[2:])

    async with consumer(broker, group_id=None, value_deserializer=number) as reader:
        reader.assign([T0])
        async with asyncio.timeout(PATIENCE):
            assert (await reader.getone()).value == 0
            for _ in range(2):
                with pytest.raises(KohortError, match="offset 1"):
                    await reader.getone()
            reader.seek(T0, 2)
            assert (await reader.getone()).value == 2


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
async def test_codecs(broker: Broker, codec: int) -> None:
    """Batches of every codec, many to a fetch, in small fetches."""
    await fill(broker, counts=[60], batch=7, codec=codec)
    async with consumer(broker, group_id=None, max_partition_fetch_bytes=300) as reader:
        reader.assign([T0])
        assert await take(reader, 60) == [f"0:{n}" for n in range(60)]
