"""Records that are appended while partitions have no reader: from the logs' ends."""

from __future__ import annotations

from typing import Any

from tests.broker.test_disconnections import until
from tests.broker.test_records_over_the_wire import batch
from tests.events.test_metrics import FAST
from tests.events.test_views_topic import ask_for
from tests.wire.client import WireClient, connected
from tests.wire.requests import join_group, produce

from kohort.broker.events.account import UnreadAccount
from kohort.broker.server import Broker
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions, encode

TWO = {"num.partitions": 2}


async def read(client: WireClient, instance: str | None, *topics: str) -> str:
    """A group of one member, which reads both partitions; returns its id."""
    offer = [("range", encode(Subscription(["t"])))]
    joined: Any = None
    member_id = ""
    while joined is None or joined.error_code:
        request = join_group("g", member_id, instance=instance, protocols=offer)
        joined = await client.call("JoinGroup", 9, request)
        member_id = joined.member_id
    shares = [TopicPartitions(topic, [0, 1]) for topic in topics]
    given = SyncGroupRequestAssignment(member_id, encode(Assignment(shares)))
    generation = joined.generation_id
    leading = [given] if joined.members else []
    sync = SyncGroupRequest(
        "g", generation, member_id, instance, "consumer", "range", leading
    )
    answer = await client.call("SyncGroup", 5, sync)
    assert answer.error_code == 0
    return member_id


async def send(client: WireClient, topic: str, *counts: int) -> None:
    """Sends records to partitions 0, 1, ..."""
    for partition, count in enumerate(counts):
        rows = (partition, batch(*[b"-"] * count))
        answer = await client.call("Produce", 9, produce(rows, topic=topic))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def test_the_records_of_a_gap_are_those_appended_in_it() -> None:
    """Not those before it, though it is noticed later, nor those after it."""
    async with (
        Broker(FAST | TWO, clock="manual") as broker,
        connected(broker) as other,
    ):
        for topic in ("t", "u"):
            await ask_for(other, topic)
        with broker.events.subscribe(accounts=True) as reader:
            async with connected(broker) as client:
                await read(client, "i", "t", "u")
                await send(other, "t", 3, 3)
                await broker.clock.advance(1)
            await until(reader, "member_disconnected")
            await broker.clock.advance(1)
            await send(other, "t", 5, 2)
            await send(other, "u", 1, 1)
            await broker.clock.advance(1)
            async with connected(broker) as client:
                await read(client, "i", "t", "u")
                await broker.clock.advance(1)
                await send(other, "t", 4, 4)
                event = await until(reader, "unread_account")
    (row,) = UnreadAccount.of(event).unread
    assert (row.count, row.duration_ns, row.records) == (4, 2_000_000_000, 9)
    assert [(end.topic, end.offsets, end.records) for end in row.log_ends or ()] == [
        ("t", (8, 5), 7),
        ("u", (1, 1), 2),
    ]


async def test_records_of_a_moment_at_which_the_clock_stands_still() -> None:
    """Unknown: those before the gap have the same time as those in it."""
    async with (
        Broker(FAST | TWO, clock="manual") as broker,
        connected(broker) as other,
    ):
        await ask_for(other, "t")
        with broker.events.subscribe(accounts=True) as reader:
            async with connected(broker) as client:
                await read(client, "i", "t")
                await send(other, "t", 3, 3)
            await until(reader, "member_disconnected")
            await broker.clock.advance(1)
            async with connected(broker) as client:
                await read(client, "i", "t")
                event = await until(reader, "unread_account")
    (row,) = UnreadAccount.of(event).unread
    assert (row.records, row.log_ends) == (None, None)
