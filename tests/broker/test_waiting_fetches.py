"""Waiting fetches: their memory, their cost at an append, their order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import until
from tests.broker.topics import delete_topic
from tests.wire import requests
from tests.wire.client import WireClient, connections

from kohort.broker.flow_control import MOST_UNREAD
from kohort.broker.server import Broker
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.records import Record, build_batch

LONG_MS = 600_000
MEGABYTE = 1024 * 1024


class Scene:
    """A broker with one topic, and clients that wait for its records."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        self.broker = broker
        self.logs = broker.cluster.create_topic("t", partitions).partitions

    def append(self, index: int = 0, size: int = 0) -> None:
        """Appends one batch of slightly more bytes than this."""
        batch = build_batch([Record(0, -1, b"k", bytes(size))])
        log = self.logs[index]
        assert not log.append(batch, now_ms=self.broker.cluster.now_ms()).error_code

    async def waits(self, client: WireClient, request: FetchRequest) -> None:
        """Sends a fetch, and returns once it waits."""
        before = [len(log.watchers) for log in self.logs]
        await client.send("Fetch", 11, request)
        await until(lambda: [len(log.watchers) for log in self.logs] != before)

    async def answer(self, client: WireClient) -> list[tuple[int, int]]:
        """Error and bytes of each row of a fetch response."""
        response = await client.response("Fetch", 11)
        rows = [row for topic in response.responses for row in topic.partitions]
        return [(row.error_code, len(row.records or b"")) for row in rows]


@pytest.fixture(params=["memory", "files"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Batches in memory and in files."""
    data_dir = tmp_path / "data" if request.param == "files" else None
    async with Broker(data_dir=data_dir) as broker:
        yield Scene(broker, 2)


def fetch(*offsets: int, **fields: Any) -> FetchRequest:
    """A fetch with a long wait, of partitions 0, 1, ... from these offsets."""
    return requests.fetch(*offsets, wait_ms=LONG_MS, **fields)


def bytes_read() -> int:
    """Bytes that this process has read from files and sockets."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


async def test_a_repeated_partition_is_fetched_once(scene: Scene) -> None:
    """As in Kafka, the last of its rows counts; it waits only once."""
    scene.append()
    rows = [FetchPartition(0, fetch_offset=9, partition_max_bytes=1)] * 5_000
    rows += [FetchPartition(0, fetch_offset=0, partition_max_bytes=2**20)]
    async with connections(scene.broker, 1) as (client,):
        await client.send("Fetch", 11, fetch(topics=[FetchTopic("t", ZERO_UUID, rows)]))
        ((error, size),) = await scene.answer(client)
        assert (error, size > 0) == (0, True)
        rows = [FetchPartition(0, fetch_offset=1, partition_max_bytes=2**20)] * 5_000
        await scene.waits(client, fetch(topics=[FetchTopic("t", ZERO_UUID, rows)]))
        assert len(scene.logs[0].watchers) == 1


async def test_a_fetch_that_waits_reads_nothing(scene: Scene) -> None:
    """It knows the sizes of the records, and an append does not read them again."""
    for _ in range(8):
        scene.append(size=MEGABYTE // 2)
    async with connections(scene.broker, 20) as many:
        for client in many:
            await scene.waits(client, fetch(0, min_bytes=50 * MEGABYTE))
        before = bytes_read()
        for _ in range(20):
            scene.append(1)
            scene.append(0)
        # Each of them used to read 4 MB.
        assert bytes_read() - before < MEGABYTE
        assert len(scene.logs[0].watchers) == 20


async def test_min_bytes_are_those_of_all_partitions(scene: Scene) -> None:
    """Existing records count, and new ones in any partition."""
    scene.append(0, 3_000)
    async with connections(scene.broker, 1) as (client,):
        await scene.waits(client, fetch(0, 0, min_bytes=9_000))
        scene.append(1, 3_000)
        assert scene.logs[0].watchers
        scene.append(0, 3_000)
        first, second = await scene.answer(client)
        assert first[1] > 6_000
        assert second[1] > 3_000
        assert not any(log.watchers for log in scene.logs)


async def test_a_partition_counts_up_to_its_limit(scene: Scene) -> None:
    """Bytes beyond the limit of the response do not count either."""
    rows = [
        FetchPartition(index, fetch_offset=0, partition_max_bytes=500)
        for index in range(2)
    ]
    topics = [FetchTopic("t", ZERO_UUID, rows)]
    scene.append(0)
    async with connections(scene.broker, 1) as (client,):
        await scene.waits(client, fetch(topics=topics, min_bytes=900))
        for _ in range(20):
            scene.append(0)
        assert scene.logs[0].watchers
        for _ in range(20):
            scene.append(1)
        sizes = [size for _, size in await scene.answer(client)]
        assert all(0 < size <= 500 for size in sizes)


async def test_a_first_batch_above_all_limits(scene: Scene) -> None:
    """It is sent whole (KIP-74); for waiting fetches it counts up to the limit."""
    rows = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1)]
    topics = [FetchTopic("t", ZERO_UUID, rows)]
    async with connections(scene.broker, 2) as (early, late):
        await scene.waits(early, fetch(topics=topics, min_bytes=5_000))
        scene.append(size=6_000)
        assert scene.logs[0].watchers
        await late.send("Fetch", 11, fetch(topics=topics, min_bytes=5_000))
        ((_, size),) = await scene.answer(late)
        assert size > 6_000
        assert scene.logs[0].watchers


async def test_more_than_a_response_holds_is_not_waited_for(scene: Scene) -> None:
    """Kafka waits for at most ``fetch.max.bytes``."""
    for _ in range(5):
        scene.append(size=3_000)
    async with connections(scene.broker, 1) as (client,):
        await client.send("Fetch", 11, fetch(0, min_bytes=2**31 - 1, max_bytes=10_000))
        ((_, size),) = await scene.answer(client)
        assert 9_000 < size <= 10_000


async def test_an_error_is_answered_at_once(scene: Scene) -> None:
    """Whatever the other partitions have; an offset beyond the end is an error."""
    async with connections(scene.broker, 1) as (client,):
        await client.send("Fetch", 11, fetch(0, 7))
        assert await scene.answer(client) == [
            (0, 0),
            (ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        ]


async def test_many_fetches_are_answered_one_a_turn(scene: Scene) -> None:
    """The append answers none of them; other work runs in between."""
    async with connections(scene.broker, 41) as (other, *many):
        for client in many:
            await scene.waits(client, fetch(0))
        scene.append()
        assert len(scene.broker.cluster.long_work) == 40
        assert not scene.logs[0].watchers
        await other.call("Heartbeat", 0, HeartbeatRequest("g", 0, "m"))
        assert len(scene.broker.cluster.long_work) > 20
        for client in many:
            ((error, size),) = await scene.answer(client)
            assert (error, size > 0) == (0, True)


async def test_few_fetches_are_answered_by_the_append(scene: Scene) -> None:
    """A few fetches are answered without losing a turn."""
    async with connections(scene.broker, 2) as many:
        for client in many:
            await scene.waits(client, fetch(0))
        scene.append()
        assert len(scene.broker.cluster.long_work) == 0
        for client in many:
            assert (await scene.answer(client))[0][1] > 0


async def test_a_deleted_topic_answers_many_one_a_turn(scene: Scene) -> None:
    """They are answered, and the deletion waits for none of them."""
    async with connections(scene.broker, 40) as many:
        for client in many:
            await scene.waits(client, fetch(0, 0))
        delete_topic(scene.broker, "t")
        assert len(scene.broker.cluster.long_work) == 40
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        for client in many:
            assert await scene.answer(client) == [unknown, unknown]


async def test_a_long_answer_is_read_in_turns(scene: Scene) -> None:
    """A topic that is deleted meanwhile ends as unknown."""
    for _ in range(12):
        scene.append(size=MEGABYTE // 2)
    async with connections(scene.broker, 1) as (client,):
        await client.send("Fetch", 11, fetch(0))
        await until(lambda: len(scene.broker.cluster.long_work) > 0)
        ((error, size),) = await scene.answer(client)
        assert (error, size > 6 * MEGABYTE) == (0, True)
        await client.send("Fetch", 11, fetch(0))
        await until(lambda: len(scene.broker.cluster.long_work) > 0)
        delete_topic(scene.broker, "t")
        assert await scene.answer(client) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]


async def test_clients_that_do_not_read_get_less(scene: Scene) -> None:
    """Unread responses are counted; beyond a limit fetches get one piece."""
    for _ in range(40):
        scene.append(size=MEGABYTE - 10_000)
    unread = scene.broker.cluster.unread
    async with connections(scene.broker, 2) as (stuck, client):
        await stuck.send("Fetch", 11, fetch(0))
        await until(lambda: unread.size > MEGABYTE)
        await until(lambda: len(scene.broker.cluster.long_work) == 0)
        unread.size += MOST_UNREAD
        await client.send("Fetch", 11, fetch(0))
        ((error, size),) = await scene.answer(client)
        assert (error, MEGABYTE // 2 < size <= MEGABYTE) == (0, True)
        unread.size -= MOST_UNREAD
        await client.send("Fetch", 11, fetch(0))
        ((error, size),) = await scene.answer(client)
        assert (error, size > 30 * MEGABYTE) == (0, True)
    await until(lambda: unread.size == 0)


async def test_a_session_that_waits_names_what_has_changed(scene: Scene) -> None:
    """Earlier and new records, and a log that starts later."""
    logs = scene.broker.cluster.create_topic("s", 5).partitions
    batch = build_batch([Record(0, -1, b"k", bytes(100))])
    for index in (0, 1, 2):
        logs[index].append(batch, now_ms=0)
    offsets = {0: 0, 1: 1, 2: 1, 3: 0, 4: 0}
    rows = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=MEGABYTE)
        for index, offset in offsets.items()
    ]
    topics = [FetchTopic("s", ZERO_UUID, rows)]
    async with connections(scene.broker, 1) as (client,):
        request = requests.fetch(topics=topics, session_epoch=0)
        first = await client.call("Fetch", 11, request)
        session = {"session_id": first.session_id, "session_epoch": 1}
        await client.send("Fetch", 11, fetch(min_bytes=200, **session))
        await until(lambda: bool(logs[4].watchers))
        assert logs[1].delete_records(1) == (0, 1)
        assert logs[3].watchers
        logs[3].append(batch, now_ms=0)
        response = await client.response("Fetch", 11)
        assert [
            (row.partition_index, row.log_start_offset, len(row.records or b"") > 0)
            for row in response.responses[0].partitions
        ] == [(0, 0, True), (1, 1, False), (3, 0, True)]
