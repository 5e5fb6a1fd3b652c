"""Positions under a new leader are validated before the next fetch (KIP-320)."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.consuming.fake_logs import T0, Logs, names, reading, values
from tests.client.fake_broker import Asked
from tests.client.stage import consumer, fill, take

from kohort.broker.server import Broker
from kohort.client.errors import LogTruncationError, OffsetOutOfRangeError
from kohort.client.offsets import OffsetAndMetadata
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS

CHECK = "OffsetForLeaderEpoch"


def filled(broker: Logs) -> None:
    """Six records of epoch 0, in batches of two."""
    for first in (0, 2, 4):
        broker.logs[0].append(*names(first, first + 2))


async def test_what_replaces_consumed_records_is_not_skipped() -> None:
    """An unclean leader lacks two records and has others in their place."""
    async with Logs() as broker:
        filled(broker)
        async with reading(broker) as reader:
            assert await values(reader, 6) == names(0, 6)
            broker.logs[0].elect(cut_off_at=4)
            broker.logs[0].append("new4", "new5", "new6")
            assert await values(reader, 3) == ["new4", "new5", "new6"]
        (check,) = broker.requests(CHECK)
        (row,) = check.topics[0].partitions
        assert (check.replica_id, row.current_leader_epoch, row.leader_epoch) == (
            -1,
            1,
            0,
        )


async def test_without_a_policy_it_is_an_error_that_a_seek_solves() -> None:
    """The error has the offset at which the log and the consumed records diverge."""
    async with Logs() as broker:
        filled(broker)
        async with reading(broker, auto_offset_reset="none") as reader:
            reader.seek(T0, 0)
            await values(reader, 6)
            broker.logs[0].elect(cut_off_at=4)
            broker.logs[0].append("new4")
            with pytest.raises(LogTruncationError, match=r"offset 6, at 4,") as caught:
                await values(reader, 1)
            assert isinstance(caught.value, OffsetOutOfRangeError)
            assert (caught.value.topic, caught.value.partition) == T0
            reader.seek(T0, 4)
            assert await values(reader, 1) == ["new4"]


async def test_a_leader_that_knows_no_such_epoch_resets() -> None:
    """No record of that epoch is left: the reset policy applies."""
    async with Logs() as broker:
        broker.logs[0].epoch = 3
        filled(broker)
        async with reading(broker) as reader:
            await values(reader, 6)
            broker.logs[0].elect(cut_off_at=0)
            broker.logs[0].append("other")
            assert await values(reader, 1) == ["other"]
        assert len(broker.requests(CHECK)) == 1


async def test_a_log_that_is_whole_is_read_on() -> None:
    """After a clean election, no record is lost or repeated."""
    async with Logs() as broker:
        filled(broker)
        async with reading(broker) as reader:
            # Three records are prefetched when the leader changes.
            assert await values(reader, 3) == names(0, 3)
            broker.logs[0].elect()
            broker.logs[0].append("r6")
            broker.logs[0].elect()
            broker.logs[0].append("r7")
            assert await values(reader, 5) == names(3, 8)
            assert await reader.position(T0) == 8


async def test_a_position_with_an_epoch_is_checked_first() -> None:
    """A committed offset has one: nothing is fetched before the leader confirms it."""
    async with Logs(holds=CHECK) as broker, reading(broker) as reader:
        filled(broker)
        reader.seek(T0, OffsetAndMetadata(6, "", 0))
        broker.logs[0].elect(cut_off_at=2)
        broker.logs[0].append("new2")
        await broker.has_got(CHECK, 1)
        assert not broker.requests("Fetch")
        assert await reader.getmany() == {}
        waiting = asyncio.create_task(reader.position(T0))
        await asyncio.sleep(0)
        assert not waiting.done()
        broker.holds = ""
        broker.tell_ends(broker.held[0])
        assert await waiting == 2
        assert await values(reader, 1) == ["new2"]


async def test_a_seek_while_the_leader_is_asked_counts() -> None:
    """The late response is for the position before the seek."""
    async with Logs(holds=CHECK) as broker, reading(broker) as reader:
        filled(broker)
        reader.seek(T0, OffsetAndMetadata(6, "", 0))
        broker.logs[0].elect(cut_off_at=2)
        broker.logs[0].append("new2", "new3")
        await broker.has_got(CHECK, 1)
        reader.seek(T0, 3)
        broker.tell_ends(broker.held[0])
        assert await values(reader, 1) == ["new3"]


async def test_errors_of_the_check_are_tried_again() -> None:
    """Another new leader, and one that does not know of its election yet."""
    codes = [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]

    def refuse(asked: Asked) -> bool:
        if asked.api.name != CHECK or not codes:
            return False
        row = EpochEndOffset(codes.pop(), 0)
        topics = [OffsetForLeaderTopicResult("t", [row])]
        asked.reply(OffsetForLeaderEpochResponse(0, topics))
        return True

    async with Logs(first=refuse) as broker:
        filled(broker)
        async with reading(broker) as reader:
            await values(reader, 6)
            broker.logs[0].elect(cut_off_at=4)
            broker.logs[0].append("new4")
            assert await values(reader, 1) == ["new4"]
        assert len(broker.requests(CHECK)) == 4


async def test_a_broker_from_before_the_check() -> None:
    """It offers the API to brokers only: positions are not validated."""
    versions = {api.name: (api.oldest, api.newest) for api in APIS}
    async with Logs(versions=versions | {CHECK: (0, 2)}) as broker:
        filled(broker)
        async with reading(broker) as reader:
            await values(reader, 6)
            broker.logs[0].elect()
            broker.logs[0].append("r6")
            assert await values(reader, 1) == ["r6"]
        assert not broker.requests(CHECK)


async def test_behind_a_marker_of_a_later_epoch() -> None:
    """The position has the marker's epoch: nothing was truncated."""
    async with Logs() as broker:
        filled(broker)
        log = broker.logs[0]
        log.elect()
        log.mark(7, commits=True)
        async with reading(broker, auto_offset_reset="none") as reader:
            reader.seek(T0, 0)
            await values(reader, 6)
            assert await reader.getmany() == {}
            assert await reader.position(T0) == 7
            log.elect()
            log.append("r7")
            assert await values(reader, 1) == ["r7"]
        (check,) = broker.requests(CHECK)
        assert check.topics[0].partitions[0].leader_epoch == 1


@pytest.mark.parametrize("kind", ["for", "getmany"])
async def test_leaders_that_move_while_records_are_read(kind: str) -> None:
    """On 3 nodes: each record once, in order, from all leaders."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config, nodes=3) as broker:
        await fill(broker, counts=[300], batch=3)
        async with consumer(
            broker, group_id=None, max_partition_fetch_bytes=400
        ) as reader:
            reader.assign([T0])
            found: list[str] = []
            while len(found) < 300:
                found += await (take if kind == "getmany" else values)(reader, 50)
                broker.move_partition("t", 0, 1 + len(found) // 50 % 3)
        assert found == [f"0:{number}" for number in range(300)]


async def test_a_leader_that_stops_and_comes_back() -> None:
    """Prefetched records are kept, and none is repeated."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config, nodes=3) as broker:
        await fill(broker, counts=[200], batch=10)
        async with consumer(
            broker, group_id=None, max_partition_fetch_bytes=500
        ) as reader:
            reader.assign([T0])
            found = await take(reader, 20)
            leader = broker.cluster.topics.by_name["t"].leaders[0]
            await broker.stop_node(leader)
            await broker.start_node(leader)
            found += await take(reader, 200 - len(found))
        assert found == [f"0:{number}" for number in range(200)]
