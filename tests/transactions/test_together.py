"""Requests about one transactional id that come together over the wire.

kohort handles those that arrive in one turn of its event loop as Apache Kafka 4.3
handles those that arrive within a millisecond or two: CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_restart import killed
from tests.transactions.producing import Producer
from tests.wire.client import WireClient, connected, connections

from kohort.broker.server import Broker
from kohort.control.transaction import Transaction
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kohort.protocol.apis.k26_end_txn import EndTxnRequest
from kohort.protocol.errors import ErrorCode

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
DELAY = "transaction.markers.delay.ms"
ADD, END, INIT = ("AddPartitionsToTxn", 3), ("EndTxn", 3), ("InitProducerId", 4)


def error_of(answer: Any) -> int:
    """The only error code of a response."""
    rows = getattr(answer, "results_by_topic_v3_and_below", None)
    if rows is not None:
        return int(rows[0].results_by_partition[0].partition_error_code)
    return int(answer.error_code)


async def pipelined(client: WireClient, *apis: tuple[str, int]) -> list[int]:
    """Initializes a producer, and sends its requests together; their error codes."""
    producer = Producer(client)
    await producer.init()
    known = producer.producer_id, producer.epoch
    messages = {
        ADD: AddPartitionsToTxnRequest(
            (), "tx", *known, [AddPartitionsToTxnTopic("t", [0, 1])]
        ),
        END: EndTxnRequest("tx", *known, committed=True),
        INIT: InitProducerIdRequest("tx", 60_000),
    }
    for api in apis:
        await client.send(*api, messages[api])
    return [error_of(await client.response(*api)) for api in apis]


@pytest.mark.parametrize("nodes", [1, 2])
async def test_requests_behind_end_txn_on_its_connection(nodes: int) -> None:
    """They are handled before the markers, which need no time on the clock."""
    async with Broker(nodes=nodes, clock="manual") as broker:
        # One of the partitions may be led by another node than the coordinator.
        leader = broker.cluster.transactions.for_id("tx").node_id
        broker.cluster.create_topic("t", 2, replicas=[[leader], [nodes]])
        async with connected(broker, leader) as client:
            sent = ADD, END, ADD, END, INIT
            assert await pipelined(client, *sent) == [0, 0, BUSY, BUSY, BUSY]
            producer = Producer(client)
            assert await producer.state() == "CompleteCommit"
            assert await producer.init() == 0
        ends = [p.log_end_offset for p in broker.cluster.topics.by_name["t"].partitions]
        assert ends == [1, 1]


async def test_producers_that_start_together() -> None:
    """One of ten gets an epoch; the others try again."""
    async with Broker(clock="manual") as broker, connections(broker, 10) as clients:
        assert await Producer(clients[0]).init() == 0
        request = InitProducerIdRequest("tx", 60_000)
        for client in clients:
            await client.send(*INIT, request)
        codes = [error_of(await client.response(*INIT)) for client in clients]
        assert sorted(codes) == [0] + [BUSY] * 9


async def test_a_client_that_waits_for_each_answer() -> None:
    """It does not meet the time before the markers."""
    async with Broker(clock="manual") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        producer = Producer(client)
        await producer.init()
        for version in (4, 5):
            for commit in (True, False):
                assert await producer.add() == [0]
                assert await producer.produce(b"one") == 0
                assert await producer.end(commit=commit, version=version) == 0
        assert await producer.init() == 0


async def test_markers_before_the_answer() -> None:
    """With a delay of 0 nothing finds the id busy."""
    async with Broker({DELAY: 0}) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        assert await pipelined(client, ADD, END, ADD, END, INIT) == [0] * 5


async def test_a_delay_of_the_markers() -> None:
    """It is on the broker's clock; a release ends it."""
    async with (
        Broker({DELAY: 50}, clock="manual") as broker,
        connected(broker) as client,
    ):
        (partition,) = broker.cluster.create_topic("t", 1).partitions
        producer, transaction = Producer(client), Transaction(broker, "tx")
        await producer.init()
        for count in (1, 2):
            assert await producer.add() == [0]
            assert await producer.produce(b"one") == 0
            before = partition.last_stable_offset
            assert await producer.end() == 0
            assert await producer.add() == [BUSY]
            assert await producer.init() == BUSY
            assert transaction.state == "PrepareCommit"
            assert partition.last_stable_offset == before
            if count == 1:
                await broker.clock.advance(0.05)
            else:
                transaction.release()
            assert transaction.state == "CompleteCommit"
            assert partition.last_stable_offset == before + 2


async def test_a_kill_before_the_markers(tmp_path: Path) -> None:
    """The commit was acknowledged, so the next start writes them."""
    path = tmp_path / "data"
    async with (
        Broker({DELAY: 50}, clock="manual", data_dir=path) as broker,
        connected(broker) as client,
    ):
        broker.cluster.create_topic("t", 1)
        producer = Producer(client)
        await producer.init()
        await producer.add()
        assert await producer.produce(b"one") == 0
        assert await producer.end(version=5) == 0
        copy = killed(path)
    async with Broker(data_dir=copy) as broker, connected(broker) as client:
        await broker.wait_until_loaded()
        producer.client = client
        assert await producer.state() == "CompleteCommit"
        (partition,) = broker.cluster.topics.by_name["t"].partitions
        assert partition.last_stable_offset == partition.log_end_offset == 2
