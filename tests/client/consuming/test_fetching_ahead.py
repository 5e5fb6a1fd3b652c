"""Prefetching: its limits, its order, and the fate of prefetched records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.client.consuming.fake_logs import T0, T1, Logs, names, reading, values
from tests.client.fake_broker import Asked
from tests.client.stage import PATIENCE, consumer, fill, take, text

from kohort.broker.server import Broker
from kohort.client.errors import (
    CorruptMessageError,
    KohortError,
    MessageTooLargeError,
    RequestTimedOutError,
)
from kohort.client.offsets import TopicPartition
from kohort.protocol.apis.k01_fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.errors import ErrorCode


def answers(*data: bytes) -> Callable[[Asked], bool]:
    """Answers the first fetches with these bytes for partition 0."""
    left = [*data]

    def answer(asked: Asked) -> bool:
        if asked.api.name != "Fetch" or not left:
            return False
        row = PartitionData(0, 0, 100, 100, records=left.pop(0))
        topics = [FetchableTopicResponse("t", partitions=[row])]
        asked.reply(FetchResponse(responses=topics))
        return True

    return answer


# -- turns


async def test_iteration_gives_others_their_turn() -> None:
    """A loop without other awaits still lets other tasks run."""
    async with Logs() as broker:
        for _ in range(10):
            broker.logs[0].append(*names(0, 500))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with reading(broker) as reader:
            task = asyncio.create_task(other())
            count = 0
            async for _ in reader:
                count += 1
                if count == 1:
                    turns = 0
                if count == 5_000:
                    break
            task.cancel()
        assert turns >= 10


async def test_iteration_notices_what_is_done_between_two_records() -> None:
    """A seek, a pause and another assignment apply from the next record."""
    async with Logs(partitions=2) as broker:
        for number in (0, 1):
            broker.logs[number].append(*(f"{number}:{n}" for n in range(100)))
        async with reading(broker) as reader:
            found = []
            async for record in reader:
                found.append(text(record))
                place = TopicPartition(record.topic, record.partition)
                assert await reader.position(place) == record.offset + 1
                if len(found) == 2:
                    reader.seek(T0, 50)
                if len(found) == 4:
                    reader.assign([T0, T1])
                    reader.pause(T0)
                if len(found) == 6:
                    break
            assert found == ["0:0", "0:1", "0:50", "0:51", "1:0", "1:1"]
            reader.resume(T0)
            reader.assign([T0])
            assert await values(reader, 2) == ["0:52", "0:53"]


async def test_iteration_ends_between_two_records_when_closed() -> None:
    """A closed consumer does not return prefetched records."""
    async with Logs() as broker:
        broker.logs[0].append(*names(0, 100))
        async with reading(broker) as reader:
            count = 0
            async for _ in reader:
                count += 1
                await reader.close()
            assert count == 1


# -- prefetched records


async def test_a_paused_partition_keeps_what_lies_ahead() -> None:
    """As in the Java client since KAFKA-7548, it is not fetched again."""
    async with Logs(partitions=2) as broker:
        broker.logs[0].append(*names(0, 10))
        async with reading(broker, T0, T1) as reader:
            assert await values(reader, 3) == names(0, 3)
            reader.pause(T0)
            assert reader.paused() == {T0}
            broker.logs[1].append("other")
            broker.wake()
            assert await values(reader, 1) == ["other"]
            assert await reader.getmany(timeout_ms=20) == {}
            reader.resume(T0)
            assert await values(reader, 7) == names(3, 10)
            assert reader.highwater(T0) == 10
        rows = [row for f in broker.requests("Fetch") for row in f.topics[0].partitions]
        offsets = [row.fetch_offset for row in rows if not row.partition]
        assert offsets.count(0) == 1
        assert set(offsets) <= {0, 10}


async def test_an_answer_that_comes_after_a_seek_is_dropped() -> None:
    """The response is for a position before the seek."""
    async with Logs(holds="Fetch") as broker, reading(broker) as reader:
        broker.logs[0].append(*names(0, 5))
        broker.logs[0].append(*names(5, 10))
        await broker.has_got("Fetch", 1)
        broker.holds = ""
        reader.seek(T0, 7)
        broker.fetch(broker.held[0])
        assert await values(reader, 2) == names(7, 9)


async def test_a_position_is_looked_up_by_one_request_at_a_time() -> None:
    """With the consumer's isolation level, whatever the application does."""
    isolation = "read_committed"
    async with (
        Logs(holds="ListOffsets") as broker,
        reading(broker, isolation_level=isolation) as reader,
    ):
        broker.logs[0].append("a")
        await broker.has_got("ListOffsets", 1)
        reader.pause(T0)
        reader.resume(T0)
        with pytest.raises(RequestTimedOutError):
            await reader.position(T0, timeout_ms=50)
        (asked,) = broker.held
        assert asked.message.isolation_level == 1


async def test_what_lies_ahead_has_a_bound() -> None:
    """With 40 partitions of 20 kB each, a slow application has fetched few."""
    async with Logs(partitions=40) as broker, asyncio.timeout(PATIENCE):
        for log in broker.logs:
            for _ in range(20):
                log.append("x" * 1_000)
        async with broker.consumer(
            max_partition_fetch_bytes=4_000, fetch_max_bytes=16_000
        ) as reader:
            reader.assign([TopicPartition("t", number) for number in range(40)])
            await reader.getone()
            fetcher = reader._fetcher  # noqa: SLF001 - not public
            while tasks := fetcher.under_way():
                await asyncio.wait(tasks)
            held = sum(p.size for p in fetcher.partitions.values())
            assert 0 < held <= 2 * 16_000
            found = await take(reader, 40 * 20 - 1)
            assert len(found) == 40 * 20 - 1


async def test_no_fetch_waits_while_a_partition_left_out_runs_dry() -> None:
    """One partition always has more records; the other one is quiet."""
    async with Logs(partitions=2) as broker:
        for number in range(60):
            broker.logs[0].append(f"r{number}")
        async with reading(broker, T0, T1, max_partition_fetch_bytes=100) as reader:
            assert await values(reader, 60) == names(0, 60)
        waiting = [
            sorted(row.partition for row in fetch.topics[0].partitions)
            for fetch in broker.requests("Fetch")
            if fetch.max_wait_ms
        ]
        # The last fetch may find the first partition at its end.
        assert [0, 1] in waiting
        assert [1] not in waiting


async def test_a_quiet_partition_is_looked_at_beside_a_full_one() -> None:
    """Its record need not wait until all prefetched ones are read."""
    async with Logs(partitions=2) as broker:
        for number in range(60):
            broker.logs[0].append(f"r{number}")
        async with reading(
            broker, T0, T1, max_partition_fetch_bytes=1_000, fetch_max_wait_ms=20
        ) as reader:
            assert await values(reader, 1) == ["r0"]
            broker.logs[1].append("quiet")
            found: list[TopicPartition] = []
            while T1 not in found:
                before = len(broker.asked)
                found += await reader.getmany(max_records=1)
                if T1 not in found and len(found) > 2:
                    await broker.has_been_asked(before + 1)
            assert len(found) < 60


async def test_a_partition_that_is_not_asked_for_holds_nobody_up() -> None:
    """A `getmany` of one partition continues, whatever is prefetched of the other."""
    async with Logs(partitions=2) as broker:
        for number in range(30):
            for log in broker.logs:
                log.append(f"r{number}")
        async with reading(
            broker, T0, T1, max_partition_fetch_bytes=200, fetch_max_bytes=500
        ) as reader:
            found: list[str] = []
            async with asyncio.timeout(PATIENCE):
                while len(found) < 30:
                    rows = await reader.getmany(T1, timeout_ms=1_000)
                    found += map(text, rows.get(T1, ()))
            assert found == names(0, 30)


# -- damaged and oversized batches


async def test_a_record_larger_than_a_fetch_may_be() -> None:
    """Brokers send a first batch whole (KIP-74): the position advances."""
    least = {"max_partition_fetch_bytes": 50, "fetch_max_bytes": 50}
    async with Broker() as broker, consumer(broker, group_id=None, **least) as reader:
        await fill(broker, counts=[100], batch=50)
        reader.assign([T0])
        assert await take(reader, 100) == [f"0:{n}" for n in range(100)]


async def test_a_batch_that_never_comes_whole_is_an_error() -> None:
    """The fetch is retried after a back-off, and the poll raises the error."""
    async with Logs() as broker:
        broker.logs[0].append(*names(0, 3))
        whole = broker.logs[0].batches[0][3]
        broker.first = answers(whole[:-1], whole[:40])
        async with reading(broker) as reader:
            with pytest.raises(MessageTooLargeError, match="offset 0"):
                await reader.getone()
            with pytest.raises(MessageTooLargeError, match="40 bytes"):
                await reader.getone()
            assert await values(reader, 3) == names(0, 3)


async def test_bytes_that_are_no_batches_are_an_error() -> None:
    """Their records are not returned; later ones are."""
    async with Logs() as broker:
        broker.logs[0].append(*names(0, 3))
        broker.first = answers(b"\xff" * 80)
        async with reading(broker) as reader:
            with pytest.raises(CorruptMessageError) as caught:
                await reader.getone()
            assert (caught.value.topic, caught.value.partition) == T0
            assert await values(reader, 3) == names(0, 3)


@pytest.mark.parametrize("checks", [True, False])
async def test_a_batch_with_a_wrong_checksum_stays_an_error_until_a_seek(
    checks: bool,
) -> None:
    """Records before it are returned, none after it; unless checks are off."""
    async with Logs() as broker:
        for first in (0, 2, 4):
            broker.logs[0].append(*names(first, first + 2))
        parts = [row[3] for row in broker.logs[0].batches]
        broken = bytearray(parts[1])
        broken[-3] ^= 1
        broker.first = answers(parts[0] + broken + parts[2])
        async with reading(broker, check_crcs=checks) as reader:
            assert await values(reader, 2) == names(0, 2)
            if not checks:
                assert len(await values(reader, 2)) == 2
                return
            for _ in range(2):
                what = "partition 0: .* checksum at offset 2"
                with pytest.raises(CorruptMessageError, match=what) as caught:
                    await reader.getone()
                assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
                assert not caught.value.retriable
            assert await reader.position(T0) == 2, "nothing is skipped"
            reader.seek(T0, 4)
            assert await values(reader, 2) == names(4, 6)


async def test_iteration_raises_where_the_record_is() -> None:
    """A deserializer fails in the middle of the prefetched records."""

    def number(value: bytes) -> int:
        return int(value)

    async with Logs() as broker:
        broker.logs[0].append("0", "1", "x", "3")
        async with reading(broker, value_deserializer=number) as reader:
            found: list[int | None] = []

            async def read_all() -> None:
                async for record in reader:
                    found.append(record.value)  # noqa: PERF401 - some, then an error

            for _ in range(2):
                with pytest.raises(KohortError, match="offset 2"):
                    await read_all()
            assert found == [0, 1]
            assert await reader.position(T0) == 2
            reader.seek(T0, 3)
            assert (await reader.getone()).value == 3


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_transactions(isolation: str) -> None:
    """read_committed leaves out aborted ones; markers are always left out."""
    async with Logs() as broker:
        log = broker.logs[0]
        log.append("lost0", "lost1", producer=7)
        log.append("kept0", producer=8)
        log.mark(7, commits=False)
        log.append("kept1", producer=7)
        log.mark(8, commits=True)
        log.mark(7, commits=True)
        log.append("plain")
        log.aborted = [AbortedTransaction(7, 0)]
        kept = ["kept0", "kept1", "plain"]
        wanted = kept if isolation == "read_committed" else ["lost0", "lost1", *kept]
        async with reading(broker, isolation_level=isolation) as reader:
            assert await values(reader, len(wanted)) == wanted
            assert await reader.position(T0) == log.end


# -- followers


async def test_fetching_from_the_follower_that_the_leader_names() -> None:
    """KIP-392: and from the leader again if the follower lacks the offset."""
    async with Logs() as leader, Logs() as follower, asyncio.timeout(PATIENCE):
        leader.followers = {2: follower.port}
        leader.replica = 2
        for first in (0, 2):
            leader.logs[0].append(*names(first, first + 2))
        follower.logs[0].append(*names(0, 2))
        async with leader.consumer(client_rack="a", fetch_max_wait_ms=20) as reader:
            reader.assign([T0])
            assert await values(reader, 2) == names(0, 2)
            assert follower.requests("Fetch")[0].rack_id == "a"
            leader.replica = -1
            follower.logs[0].batches.clear()
            assert await values(reader, 2) == names(2, 4)
