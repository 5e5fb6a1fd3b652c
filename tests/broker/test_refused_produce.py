"""Produce requests that Apache Kafka 4.3 refuses, and the order of its checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.wire.client import WireClient, connected
from tests.wire.malformed_batches import TRANSACTIONAL, batch, good, malformed_batches

from kohort.broker.handlers import k00_produce
from kohort.broker.server import Broker
from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

NOW_MS = 1_700_000_000_000
GOOD = batch(NOW_MS, good())
OLD = batch(NOW_MS, good(), magic=1)
CORRUPT = batch(NOW_MS, good(), length=13)
LARGE = batch(NOW_MS, good(60), 60)
IN_TRANSACTION = batch(NOW_MS, good(), attributes=TRANSACTIONAL, producer=(1, 0, 0))

INVALID, UNKNOWN = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Row = tuple[str, int, bytes | None]


async def answers(
    client: WireClient, *rows: Row, acks: int = -1, version: int = 9
) -> dict[tuple[str, int], Any]:
    """The responses to batches, given as (topic, partition, batch)."""
    topics = [
        TopicProduceData(name, partition_data=[PartitionProduceData(index, data)])
        for name, index, data in rows
    ]
    request = ProduceRequest(None, acks, 1000, topics)
    response = await client.call("Produce", version, request)
    found = [
        ((topic.name, row.index), row)
        for topic in response.responses
        for row in topic.partition_responses
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def codes(found: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], int]:
    """Error codes by topic and partition."""
    return {at: row.error_code for at, row in found.items()}


async def test_unknown_comes_before_damaged_and_both_before_acks() -> None:
    """Existence is checked before bytes, and both before acks."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        found = await answers(
            client,
            ("t", 0, GOOD),
            ("t", 1, OLD),
            ("t", 9, OLD),
            ("nope", 0, OLD),
            acks=5,
        )
        assert codes(found) == {
            ("t", 0): ErrorCode.INVALID_REQUIRED_ACKS,
            ("t", 1): INVALID,
            ("t", 9): UNKNOWN,
            ("nope", 0): UNKNOWN,
        }
        assert {row.log_start_offset for row in found.values()} == {-1}


async def test_internal_topics() -> None:
    """Batches for internal topics are checked before they are refused."""
    async with Broker() as broker, connected(broker) as client:
        await client.call("FindCoordinator", 3, FindCoordinatorRequest("g", 0))
        topic = "__consumer_offsets"
        found = await answers(client, (topic, 0, OLD), (topic, 1, GOOD))
        refused = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert list(codes(found).values()) == [INVALID, refused]


@pytest.mark.parametrize(
    ("bad", "code", "has_message"),
    [
        (CORRUPT, ErrorCode.CORRUPT_MESSAGE, True),
        (batch(NOW_MS, b"", length=9), ErrorCode.CORRUPT_MESSAGE, True),
        (IN_TRANSACTION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False),
    ],
)
async def test_one_partition_refuses_the_request(
    bad: bytes,
    code: ErrorCode,
    has_message: bool,
) -> None:
    """Kafka looks for transactions in all partitions before anything else."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        rows = ("t", 0, GOOD), ("t", 1, bad), ("nope", 0, GOOD)
        found = await answers(client, *rows)
        assert set(codes(found).values()) == {code}
        assert len(found) == 3
        assert {bool(row.error_message) for row in found.values()} == {has_message}
        (row,) = (await answers(client, ("t", 0, GOOD))).values()
        assert row.base_offset == 0


async def test_a_partition_that_is_named_twice() -> None:
    """Kafka appends the last batch, and answers once; an error of either stays."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        one, two = batch(NOW_MS, good(1), 1), batch(NOW_MS, good(2), 2)
        (row,) = (await answers(client, ("t", 0, one), ("t", 0, two))).values()
        assert (row.error_code, row.base_offset) == (0, 0)
        (row,) = (await answers(client, ("t", 0, one))).values()
        assert row.base_offset == 2
        for rows in (("t", 0, OLD), ("t", 0, one)), (("t", 0, one), ("t", 0, OLD)):
            (row,) = (await answers(client, *rows)).values()
            assert row.error_code == INVALID
        (row,) = (await answers(client, ("t", 0, one))).values()
        assert row.base_offset == 5


async def test_a_topic_without_partitions() -> None:
    """The response leaves it out."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("t")])
        assert not (await client.call("Produce", 9, request)).responses


async def test_more_replicas_in_sync_than_there_are() -> None:
    """A larger ``min.insync.replicas`` counts as the replication factor."""
    async with Broker() as broker, connected(broker) as client:
        overrides = {"min.insync.replicas": "2", "max.message.bytes": "200"}
        broker.cluster.create_topic("t", 1, overrides=overrides)
        found = await answers(client, ("t", 0, LARGE))
        assert codes(found) == {("t", 0): ErrorCode.MESSAGE_TOO_LARGE}
        found = await answers(client, ("t", 0, GOOD))
        assert codes(found) == {("t", 0): ErrorCode.NONE}


async def test_record_errors_of_a_request_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All batches are refused; those above the limit without a list."""
    monkeypatch.setattr(k00_produce, "_MOST_RECORD_ERRORS", 5)
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 4, overrides={"cleanup.policy": "compact"})
        # A compacted topic needs keys.
        data = build_batch([Record(number, NOW_MS, None, b"v") for number in range(2)])
        rows = await answers(client, *[("t", index, data) for index in range(4)])
        assert set(codes(rows).values()) == {INVALID}
        listed = [len(rows["t", index].record_errors) for index in range(4)]
        assert listed == [2, 2, 0, 0]


@pytest.mark.parametrize("version", [3, 7, 8, 9])
async def test_record_errors(version: int) -> None:
    """Refused records are listed since v8 (KIP-467)."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        data = malformed_batches(broker.cluster.now_ms())["2 hours ahead"]
        (row,) = (await answers(client, ("t", 0, data), version=version)).values()
        assert row.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [e.batch_index for e in row.record_errors] == [1] * (version >= 8)
        assert bool(row.error_message) == (version >= 8)
