"""Producers while leaders move, nodes stop and responses are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.client.producer_stage import (
    all_records,
    made,
    producer,
    values,
)
from tests.client.stage import PATIENCE

from kohort.broker.server import Broker
from kohort.client import Admin, Producer
from kohort.client.producing.results import Delivery
from kohort.protocol.records import read_records

KEYS = [b"k%d" % n for n in range(7)]


async def sent(sender: Producer, numbers: Sequence[int]) -> list[Delivery]:
    """Sends numbered records, each with the key of its number."""
    return [
        await sender.send("t", b"%06d" % n, key=KEYS[n % len(KEYS)]) for n in numbers
    ]


def assert_all_are_there_once_and_in_order(broker: Broker, count: int) -> None:
    """The numbers of each key increase by the number of keys."""
    found: dict[bytes | None, list[int]] = {}
    for rows in all_records(broker, "t"):
        for row in rows:
            found.setdefault(row.key, []).append(int(row.value or b""))
    for first, key in enumerate(KEYS):
        assert found[key] == list(range(first, count, len(KEYS)))


async def test_leaders_that_move_lose_and_repeat_nothing() -> None:
    """Three partitions move around three nodes while records are sent."""
    async with Broker(nodes=3) as broker, asyncio.timeout(PATIENCE):
        await made(broker, 3)
        async with producer(broker, batch_size=200, linger_ms=0) as sender:
            deliveries = []
            for turn in range(12):
                deliveries += await sent(sender, range(turn * 100, turn * 100 + 100))
                broker.move_partition("t", turn % 3, 1 + turn % 3)
                # Some of these are sent to the former leader.
                await deliveries[turn * 100]
            await sender.flush()
            rows = all_records(broker, "t")
            for number, delivery in enumerate(deliveries):
                where = delivery.result()
                assert rows[where.partition][where.offset].value == b"%06d" % number
        assert_all_are_there_once_and_in_order(broker, 1_200)


async def test_nodes_that_stop_lose_and_repeat_nothing() -> None:
    """Each of three nodes stops and starts while records are sent."""
    async with Broker({"default.replication.factor": 3}, nodes=3) as broker:
        async with asyncio.timeout(PATIENCE), producer(broker, batch_size=200) as it:
            number = 0
            for node_id in (1, 2, 3):
                await sent(it, range(number, number + 100))
                await broker.stop_node(node_id)
                deliveries = await sent(it, range(number + 100, number + 200))
                await asyncio.wait(deliveries)
                await broker.start_node(node_id)
                number += 200
        assert_all_are_there_once_and_in_order(broker, number)


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_answers_that_are_lost_repeat_nothing(codec: str) -> None:
    """Every third response to Produce is lost: its batch is retried."""
    async with Broker() as broker:
        rule = broker.faults.disconnect("Produce", "after", every=3)
        settings = {"batch_size": 150, "linger_ms": 0, "compression_type": codec}
        async with asyncio.timeout(PATIENCE):
            async with producer(broker, **settings) as sender:
                deliveries = await sent(sender, range(300))
                rows = await asyncio.gather(*deliveries)
            assert rule.strikes > 3
        assert_all_are_there_once_and_in_order(broker, 300)
        found = values(broker, "t")
        assert [found[row.offset] for row in rows] == [b"%06d" % n for n in range(300)]


async def test_without_numbers_nothing_is_lost_when_answers_are() -> None:
    """Some is written twice, as with acks=1 without idempotence."""
    async with Broker() as broker:
        rule = broker.faults.disconnect("Produce", "after", every=3)
        settings = {"batch_size": 150, "acks": 1, "enable_idempotence": False}
        async with asyncio.timeout(PATIENCE):
            async with producer(broker, **settings) as sender:
                await asyncio.gather(*await sent(sender, range(100)))
            assert rule.strikes
        found = values(broker, "t")
        assert set(found) == {b"%06d" % n for n in range(100)}
        assert len(found) > 100


async def test_the_new_leader_is_taken_from_the_answer_of_the_old_one() -> None:
    """Neither the back-off nor metadata (KIP-951), which take a minute here."""
    async with Broker(nodes=3) as broker, asyncio.timeout(PATIENCE / 2):
        await made(broker, 1)
        slow = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
        async with producer(broker, **slow) as sender:
            await sender.send_and_wait("t", b"0")
            for number, node_id in enumerate((1, 2, 3, 1)):
                broker.move_partition("t", 0, node_id)
                where = await sender.send_and_wait("t", b"1")
                assert where.offset == number + 1


async def test_a_topic_that_is_made_again_is_written_to() -> None:
    """It has another id and no sequence numbers; records are written."""
    async with Broker() as broker, asyncio.timeout(PATIENCE):
        await made(broker, 2)
        async with producer(broker) as sender:
            await asyncio.gather(*await sent(sender, range(20)))
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                (await admin.delete_topics(["t"])).check()
            await made(broker, 2)
            await asyncio.gather(*await sent(sender, range(21)))
        assert_all_are_there_once_and_in_order(broker, 21)


async def test_moves_do_not_stop_a_producer_without_acks() -> None:
    """Records for the wrong node are lost with acks=0; the rest is written."""
    async with Broker(nodes=3) as broker, asyncio.timeout(PATIENCE):
        await made(broker, 1)
        async with producer(broker, acks=0, linger_ms=0) as sender:
            number = 0
            for node_id in (1, 2, 3):
                broker.move_partition("t", 0, node_id)
                before = len(values(broker, "t"))
                while len(values(broker, "t")) == before:
                    where = await sender.send_and_wait("t", b"%d" % number)
                    assert where.offset == -1
                    number += 1
        log = broker.cluster.topics.by_name["t"].partitions[0]
        found = [r.value for b in log.batches(0) for r in read_records(b)]
        assert len(found) == len(set(found)) <= number
