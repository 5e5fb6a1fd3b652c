"""Markers of transactions over the wire, and the readers that wait for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import until
from tests.wire.client import WireClient, connected, connections

from kohort.broker.cluster.markers import EndMarker, write_marker
from kohort.broker.log.producers import Verification
from kohort.broker.server import Broker
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.apis.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch

LONG_MS = 600_000
READ_COMMITTED = 1
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Scene:
    """A broker with a topic, and a client."""

    def __init__(self, broker: Broker, client: WireClient) -> None:
        self.broker = broker
        self.client = client
        self.log = broker.cluster.create_topic("t", 2).partitions[0]

    def send(self, producer: int, *, sequence: int = 0, epoch: int = 0) -> None:
        """Appends a batch of a transaction that the coordinator knows of."""
        batch = build_batch(
            [Record(0, -1, b"k", b"v")],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        now_ms = self.broker.cluster.now_ms()
        found = self.log.verify(batch, now_ms=now_ms, adds=False)
        verification = found if isinstance(found, Verification) else None
        result = self.log.append(batch, now_ms=now_ms, verification=verification)
        assert not result.error_code

    async def mark(
        self,
        producer: int,
        *topics: tuple[str, list[int]],
        version: int = 1,
        **fields: Any,
    ) -> list[tuple[int, str, int, int]]:
        """(producer, topic, partition, error) of each row of a response."""
        rows = [WritableTxnMarkerTopic(*topic) for topic in topics]
        marker = WritableTxnMarker(producer, topics=rows, **fields)
        request = WriteTxnMarkersRequest([marker])
        response = await self.client.call("WriteTxnMarkers", version, request)
        return [
            (found.producer_id, topic.name, row.partition_index, row.error_code)
            for found in response.markers
            for topic in found.topics
            for row in topic.partitions
        ]

    async def fetch(self, wait_ms: int = 0, offset: int = 0) -> Any:
        """The row of a fetch of committed records."""
        await self.client.send("Fetch", 11, fetch_request(wait_ms, offset))
        return await self.row()

    async def row(self) -> Any:
        """The row of the next fetch response."""
        response = await self.client.response("Fetch", 11)
        return response.responses[0].partitions[0]


def fetch_request(wait_ms: int, offset: int = 0) -> FetchRequest:
    """A fetch of committed records from partition 0."""
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=10**6)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic("t", partitions=[wanted])],
    )


@pytest.fixture(params=["memory", "files"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Batches in memory and in files."""
    data_dir = tmp_path / "data" if request.param == "files" else None
    async with Broker(data_dir=data_dir) as broker, connections(broker, 1) as clients:
        yield Scene(broker, clients[0])


async def test_a_reader_waits_for_the_end_of_a_transaction(scene: Scene) -> None:
    """Records of the transaction do not wake it, the marker does."""
    scene.send(1)
    await scene.client.send("Fetch", 11, fetch_request(LONG_MS))
    await until(lambda: bool(scene.log.watchers))
    scene.send(1, sequence=1)
    assert scene.log.watchers
    end = EndMarker(1, 0, False, 0, 1)
    codes: list[int] = []
    write_marker(scene.broker.cluster, None, end, "t", 0, codes.append)
    assert codes == [ErrorCode.NONE]
    row = await scene.row()
    assert (row.high_watermark, row.last_stable_offset) == (3, 3)
    aborted = [
        (each.producer_id, each.first_offset) for each in row.aborted_transactions
    ]
    assert aborted == [(1, 0)]


async def test_a_reader_behind_the_last_stable_offset(scene: Scene) -> None:
    """It gets nothing, and no error."""
    scene.send(1)
    scene.send(1, sequence=1)
    row = await scene.fetch(offset=1)
    assert (row.error_code, row.records, row.last_stable_offset) == (0, b"", 0)
    assert row.aborted_transactions == []


async def test_markers_from_outside(scene: Scene) -> None:
    """Version 1 and 2 end a transaction; each partition has its own answer."""
    scene.send(1)
    rows = await scene.mark(1, ("t", [0, 1, 2]), ("none", [0]))
    assert rows == [
        (1, "t", 0, 0),
        (1, "t", 1, 0),
        (1, "t", 2, UNKNOWN),
        (1, "none", 0, UNKNOWN),
    ]
    assert scene.log.last_stable_offset == 2
    scene.send(1, sequence=1)
    fields = {"version": 2, "transaction_version": 2}
    assert await scene.mark(1, ("t", [0]), **fields) == [(1, "t", 0, FENCED)]
    rows = await scene.mark(1, ("t", [0]), producer_epoch=1, **fields)
    assert rows == [(1, "t", 0, 0)]
    assert (await scene.fetch()).last_stable_offset == 4


async def test_helpful_strictness_answers_a_repeated_partition() -> None:
    """Kafka writes one marker, and sends no response."""
    async with (
        Broker({"kohort.strictness": "helpful"}) as broker,
        connected(broker) as client,
    ):
        scene = Scene(broker, client)
        scene.send(1)
        assert await scene.mark(1, ("t", [0, 0, 9, 9])) == [
            (1, "t", 0, 0),
            (1, "t", 9, UNKNOWN),
        ]
        assert scene.log.log_end_offset == 2


async def test_a_zombie_coordinator(scene: Scene) -> None:
    """A marker with a lower coordinator epoch is refused."""
    assert (await scene.mark(1, ("t", [0]), coordinator_epoch=5))[0][-1] == 0
    (row,) = await scene.mark(1, ("t", [0]), coordinator_epoch=4)
    assert row[-1] == ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def test_producers_with_transactions(scene: Scene) -> None:
    """DescribeProducers shows an open transaction, and the last coordinator."""
    request = DescribeProducersRequest([TopicRequest("t", [0])])

    async def described() -> tuple[int, int, int]:
        response = await scene.client.call("DescribeProducers", 0, request)
        (state,) = response.topics[0].partitions[0].active_producers
        transaction = state.current_txn_start_offset
        return state.last_sequence, state.coordinator_epoch, transaction

    await scene.mark(1, ("t", [0]), coordinator_epoch=3)
    assert await described() == (-1, 3, -1)
    scene.send(1)
    assert await described() == (0, 3, 1)
    await scene.mark(1, ("t", [0]), producer_epoch=1, coordinator_epoch=4)
    assert await described() == (-1, 4, -1)


async def test_the_event_of_a_marker(scene: Scene) -> None:
    """It has the transaction's offsets, and the number of records that it let go."""
    scene.send(1)
    scene.send(2)
    with scene.broker.events.subscribe() as reader:
        await scene.mark(1, ("t", [0]), transaction_result=True)
        event = await anext(reader)
        while event["kind"] != "transaction_ended_in_partition":
            event = await anext(reader)
    assert (event["topic"], event["partition"], event["is_commit"]) == ("t", 0, True)
    assert (event["first_offset"], event["end_offset"]) == (0, 2)
    assert event["held_back"] == 1
    assert event["duration_ns"] is not None
    assert event["duration_ns"] >= 0
