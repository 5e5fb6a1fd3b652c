"""Produce, Fetch and ListOffsets over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected, connections
from tests.wire.requests import fetch, list_offsets, produce

from kohort.broker.server import Broker
from kohort.protocol.apis.k01_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.records import Record, build_batch, read_headers, read_records

NOW_MS = 1_700_000_000_000


def batch(*values: bytes, **header: int) -> bytes:
    """A record batch with these values."""
    records = [Record(i, NOW_MS + i, None, v, ()) for i, v in enumerate(values)]
    return build_batch(records, **header)


def rows_of(response: Any) -> list[Any]:
    """The partitions of a response about one topic."""
    return [row for topic in response.responses for row in topic.partitions]


def values_of(row: Any) -> list[bytes | None]:
    """The values of all records of a partition's row, by offset."""
    data = bytes(row.records)
    return [
        record.value
        for _, position in read_headers(data)
        for record in read_records(data, position)
    ]


async def produced(client: WireClient, *rows: tuple[int, bytes]) -> Sequence[Any]:
    """Produces, and returns the rows of the response."""
    response = await client.call("Produce", 9, produce(*rows))
    partitions: Sequence[Any] = response.responses[0].partition_responses
    return partitions


async def test_what_is_produced_is_fetched() -> None:
    """Batches come back as they were sent, except for their offset."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        rows = await produced(client, (0, batch(b"a", b"b")), (1, batch(b"c")))
        assert [(r.error_code, r.base_offset) for r in rows] == [(0, 0), (0, 0)]
        assert (await produced(client, (0, batch(b"d"))))[0].base_offset == 2
        response = await client.call("Fetch", 11, fetch(0, 0))
        assert [values_of(row) for row in rows_of(response)] == [
            [b"a", b"b", b"d"],
            [b"c"],
        ]
        assert [row.high_watermark for row in rows_of(response)] == [3, 1]


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce(version: int) -> None:
    """By name before v13, by id from then on."""
    async with Broker() as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 1)
        request = produce((0, batch(b"x")), topic_id=topic.id)
        response = await client.call("Produce", version, request)
        (row,) = response.responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (0, 0)


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_of_fetch(version: int) -> None:
    """By name before v13, by id from then on."""
    async with Broker() as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 1)
        await produced(client, (0, batch(b"x")))
        request = fetch(0, topic_id=topic.id)
        (row,) = rows_of(await client.call("Fetch", version, request))
        assert values_of(row) == [b"x"]


async def test_a_damaged_batch_ends_nothing_but_itself() -> None:
    """CORRUPT_MESSAGE for its partition; the records of the other one are appended."""
    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        rows = await produced(client, (0, bytes(damaged)), (1, batch(b"fine")))
        assert [r.error_code for r in rows] == [ErrorCode.CORRUPT_MESSAGE, 0]
        assert (await produced(client, (0, batch(b"next"))))[0].base_offset == 0


async def test_unknown_topics_and_partitions() -> None:
    """Each gets its own error."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        (row,) = await produced(client, (7, batch(b"x")))
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elsewhere = produce((0, batch(b"x")), topic="nowhere")
        response = await client.call("Produce", 9, elsewhere)
        (row,) = response.responses[0].partition_responses
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown = fetch(0, topic_id=bytes(15) + b"!")
        response = await client.call("Fetch", 13, unknown)
        assert rows_of(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        # After an error the fetch does not wait for records.
        response = await client.call("Fetch", 11, fetch(99, wait_ms=600_000))
        assert rows_of(response)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_repeated_batch_is_recognised() -> None:
    """It gets its first offset again; a gap in the sequence is refused (KIP-98)."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        producer = {"producer_id": 5, "producer_epoch": 0}
        first = batch(b"a", b"b", base_sequence=0, **producer)
        assert (await produced(client, (0, first)))[0].base_offset == 0
        assert (await produced(client, (0, first)))[0].base_offset == 0
        gap = batch(b"z", base_sequence=9, **producer)
        (row,) = await produced(client, (0, gap))
        assert row.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        (found,) = rows_of(await client.call("Fetch", 11, fetch(0)))
        assert values_of(found) == [b"a", b"b"]


async def test_produce_without_acks_is_not_answered() -> None:
    """The next request is answered; if the Produce fails, the connection is closed."""
    async with Broker() as broker:
        broker.cluster.create_topic("t", 1)
        async with connected(broker) as client:
            await client.send("Produce", 9, produce((0, batch(b"x")), acks=0))
            assert (await produced(client, (0, batch(b"y"))))[0].base_offset == 1
            await client.send("Produce", 9, produce((5, batch(b"x")), acks=0))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.response("Produce", 9)


def bomb(count: int, time_ms: int = NOW_MS) -> bytes:
    """A few kilobytes with this many records."""
    return build_batch([Record(0, time_ms, b"k")] * count, codec=4)


@pytest.mark.parametrize("in_files", [False, True], ids=["memory", "files"])
async def test_others_are_served_while_a_bomb_is_read(
    in_files: bool, tmp_path: Path
) -> None:
    """Produce to a compacted topic, and the search for a time, take many turns."""
    config = {"log.cleanup.policy": "compact"}
    async with (
        Broker(config, data_dir=tmp_path if in_files else None) as broker,
        connections(broker, 2) as (attacker, other),
    ):
        log = broker.cluster.create_topic("t", 1).partitions[0]
        await attacker.send("Produce", 9, produce((0, bomb(200_000))))
        for _ in range(3):
            await other.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        assert log.log_end_offset == 0
        assert (await produced(other, (0, bomb(3))))[0].base_offset == 0
        response = await attacker.response("Produce", 9)
        (row,) = response.responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (0, 3)
        wanted = list_offsets("t", 0, timestamp=NOW_MS)
        response = await attacker.call("ListOffsets", 1, wanted)
        assert response.topics[0].partitions[0].offset == 0


async def test_a_topic_that_goes_while_its_batch_is_read() -> None:
    """Nothing is appended to a new topic of the same name."""
    async with (
        Broker({"log.cleanup.policy": "compact"}) as broker,
        connections(broker, 2) as (client, other),
    ):
        broker.cluster.create_topic("t", 1)
        await client.send("Produce", 9, produce((0, bomb(200_000))))
        await other.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        delete_topic(broker, "t")
        (row,) = (await client.response("Produce", 9)).responses[0].partition_responses
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@asynccontextmanager
async def searched(broker: Broker) -> AsyncIterator[WireClient]:
    """A search of node 1 for a time, which is in progress; yields its connection."""
    async with connected(broker, 1) as client, connected(broker, 1) as other:
        log = broker.cluster.create_topic("t", 0, replicas=[[1]]).partitions[0]
        some = [Record(0, NOW_MS, b"k")] * 200_000 + [Record(0, NOW_MS + 1, b"k")]
        log.append(build_batch(some, codec=4), now_ms=NOW_MS)
        wanted = list_offsets("t", 0, timestamp=NOW_MS + 1)
        await client.send("ListOffsets", 1, wanted)
        await other.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        yield client


async def test_a_topic_that_goes_while_it_is_searched() -> None:
    """A search by time is answered for the topic that has the name in the end."""
    async with Broker() as broker, searched(broker) as client:
        delete_topic(broker, "t")
        broker.cluster.create_topic("t", 1)
        (row,) = (await client.response("ListOffsets", 1)).topics[0].partitions
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_leader_that_changes_during_a_search() -> None:
    """The client has to ask the next leader: the offset may be behind its log."""
    async with Broker(nodes=2) as broker, searched(broker) as client:
        broker.cluster.move_partition("t", 0, 2)
        (row,) = (await client.response("ListOffsets", 1)).topics[0].partitions
        assert (row.error_code, row.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        async with connected(broker, 2) as other:
            wanted = list_offsets("t", 0, timestamp=NOW_MS + 1)
            response = await other.call("ListOffsets", 1, wanted)
        (row,) = response.topics[0].partitions
        assert (row.error_code, row.offset) == (0, 200_000)


async def test_a_repeated_partition_in_list_offsets() -> None:
    """Kafka refuses it once, and answers the others."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        response = await client.call("ListOffsets", 1, list_offsets("t", 0, 1, 0))
        assert [row.error_code for row in response.topics[0].partitions] == [
            ErrorCode.INVALID_REQUEST,
            0,
        ]


async def test_a_fetch_waits_for_records() -> None:
    """An append to any of its partitions answers it at once."""
    async with Broker() as broker, connections(broker, 2) as (reader, writer):
        topic = broker.cluster.create_topic("t", 2)
        await reader.send("Fetch", 11, fetch(0, 0, wait_ms=600_000))
        while not topic.partitions[1].watchers:
            await writer.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        await produced(writer, (1, batch(b"late")))
        response = await reader.response("Fetch", 11)
        assert [values_of(row) for row in rows_of(response)] == [[], [b"late"]]
        assert not topic.partitions[0].watchers


async def test_a_fetch_waits_no_longer_than_asked() -> None:
    """After max_wait it is answered without records."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        (row,) = rows_of(await client.call("Fetch", 11, fetch(0, wait_ms=20)))
        assert (row.error_code, values_of(row)) == (0, [])


@pytest.mark.parametrize("version", [11, 18])
async def test_a_deleted_topic_wakes_its_readers(version: int) -> None:
    """The error is about the log, not the id: Kafka knew the topic at the request."""
    async with Broker() as broker, connected(broker) as reader:
        topic = broker.cluster.create_topic("t", 1)
        request = fetch(0, topic_id=topic.id, wait_ms=600_000)
        await reader.send("Fetch", version, request)
        async with connected(broker) as other:
            while not topic.partitions[0].watchers:
                await other.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        delete_topic(broker, "t")
        (row,) = rows_of(await reader.response("Fetch", version))
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert row.aborted_transactions is None


async def test_a_fetch_keeps_to_its_sizes() -> None:
    """The first batch is whole at any size (KIP-74), the last one is cut off."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        big = batch(b"x" * 30_000)
        for index in (0, 0, 1):
            await produced(client, (index, big))
        response = await client.call("Fetch", 11, fetch(0, 0, max_bytes=40_000))
        assert [len(values_of(row)) for row in rows_of(response)] == [1, 0]
        assert [len(row.records) for row in rows_of(response)] == [40_000, 0]
        response = await client.call("Fetch", 11, fetch(0, 0, max_bytes=1))
        assert [len(values_of(row)) for row in rows_of(response)] == [1, 0]
        response = await client.call("Fetch", 11, fetch(0, 0))
        assert [len(values_of(row)) for row in rows_of(response)] == [2, 1]


async def test_a_fetch_of_negative_size() -> None:
    """Kafka's log fails to read it, and the rest of the response has no room."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 3)
        await produced(client, (0, batch(b"a")), (2, batch(b"b")))
        response = await client.call("Fetch", 11, fetch(0, 0, 0, max_bytes=-1))
        found = [
            (row.error_code, row.high_watermark, len(values_of(row)))
            for row in rows_of(response)
        ]
        failed = (ErrorCode.UNKNOWN_SERVER_ERROR, -1, 0)
        assert found == [failed, (ErrorCode.NONE, 0, 0), (ErrorCode.NONE, 1, 1)]


async def test_aborted_transactions_of_errors() -> None:
    """Null if Kafka's request reached the log, else an empty list."""
    async with Broker() as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 1)
        stale = [FetchPartition(0, current_leader_epoch=7)]
        for request, error, aborted in (
            (fetch(9), ErrorCode.OFFSET_OUT_OF_RANGE, None),
            (
                fetch(topics=[FetchTopic("t", topic.id, stale)]),
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                None,
            ),
            (fetch(0, topic="u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()),
        ):
            (row,) = rows_of(await client.call("Fetch", 12, request))
            assert row.error_code == error
            assert (row.aborted_transactions is None) == (aborted is None)


async def test_a_fetch_session_without_partitions() -> None:
    """The client gets one, and may add partitions."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        first = await client.call("Fetch", 11, fetch(session_epoch=0))
        assert first.session_id > 0
        session = {"session_id": first.session_id, "session_epoch": 1}
        response = await client.call("Fetch", 11, fetch(0, **session))
        assert response.session_id == first.session_id


async def test_an_incremental_fetch_names_what_is_new() -> None:
    """The session knows its partitions; forgotten ones are not read (KIP-227)."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 3)
        first = await client.call("Fetch", 11, fetch(0, 0, 0, session_epoch=0))
        assert first.session_id > 0
        assert len(rows_of(first)) == 3
        session = {"session_id": first.session_id}
        await produced(client, (0, batch(b"a")), (2, batch(b"b")))
        forgotten = [ForgottenTopic("t", ZERO_UUID, [2])]
        response = await client.call(
            "Fetch",
            11,
            fetch(session_epoch=1, forgotten_topics_data=forgotten, **session),
        )
        assert [row.partition_index for row in rows_of(response)] == [0]
        response = await client.call("Fetch", 11, fetch(1, session_epoch=2, **session))
        assert rows_of(response) == []
        response = await client.call("Fetch", 11, fetch(session_epoch=2, **session))
        assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        await client.call("Fetch", 11, fetch(0, session_epoch=-1, **session))
        response = await client.call("Fetch", 11, fetch(session_epoch=3, **session))
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("timestamp", "version", "found"),
    [
        (-2, 1, (0, -1, 0)),
        (-1, 1, (0, -1, 3)),
        (NOW_MS + 1, 1, (0, NOW_MS + 1, 1)),
        (NOW_MS + 99, 1, (0, -1, -1)),
        (-3, 7, (0, NOW_MS + 2, 2)),
        (-3, 6, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        (-4, 8, (0, -1, 0)),
        (-4, 7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        (-5, 9, (0, -1, -1)),
        (-6, 11, (0, -1, -1)),
        (-6, 10, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        (-7, 11, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
    ],
)
async def test_offsets_of_points_in_time(
    timestamp: int, version: int, found: tuple[int, int, int]
) -> None:
    """(error code, timestamp, offset), for each special timestamp since its version."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await produced(client, (0, batch(b"a", b"b", b"c")))
        wanted = list_offsets("t", 0, timestamp=timestamp)
        response = await client.call("ListOffsets", version, wanted)
        (row,) = response.topics[0].partitions
        assert (row.error_code, row.timestamp, row.offset) == found
