"""Clients that exceed a quota: their throttle times and waits.

The times are Apache Kafka 4.3's, except for the milliseconds in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from tests.broker.test_cluster import until
from tests.broker.test_quotas import Entity, put
from tests.manual_clock import ManualClock
from tests.wire import requests
from tests.wire.client import WireClient, connected

from kohort.broker import server
from kohort.broker.cluster.quotas import LONGEST_MS, Rate
from kohort.broker.server import Broker
from kohort.protocol.apis.k01_fetch import FetchRequest
from kohort.protocol.apis.k03_metadata import MetadataResponse
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

EVERYBODY: Entity = (("client-id", None),)
NOBODY: Entity = (("client-id", "nobody"),)
SIZE = 50_000
"""Bytes of a value: most of a client's quota for ten seconds."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of a test's brokers."""
    clock = ManualClock()
    monkeypatch.setattr(server, "RealClock", lambda _: clock)
    return clock


class Scene(NamedTuple):
    """A broker with the topic "t", and a connection to it."""

    broker: Broker
    client: WireClient


@pytest.fixture
async def scene(clock: ManualClock) -> AsyncIterator[Scene]:
    """Time stands still unless a test moves it."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        yield Scene(broker, client)


async def produce(client: WireClient, size: int = SIZE, *, acks: int = -1) -> int:
    """Produces a value of this size; returns the throttle time."""
    batch = build_batch([Record(value=bytes(size))])
    response = await client.call("Produce", 9, requests.produce((0, batch), acks=acks))
    assert response.responses[0].partition_responses[0].error_code == 0
    throttle_ms: int = response.throttle_time_ms
    return throttle_ms


async def answered_after(
    scene: Scene, clock: ManualClock, wait_ms: int, late_ms: int = 0
) -> MetadataResponse:
    """The next response to Metadata, which must come exactly at this time."""
    broker, client = scene
    await client.send("Metadata", 9, requests.metadata("t"))
    response = asyncio.create_task(client.response("Metadata", 9))
    clock.skip((wait_ms - 1) / 1000)
    # The broker would have answered the first connection before these.
    async with connected(broker) as other:
        for _ in range(2):
            await other.call("Metadata", 9, requests.metadata("t"))
    assert not response.done()
    clock.skip((1 + late_ms) / 1000)
    answer: MetadataResponse = await response
    return answer


# -- bytes


async def test_a_producer_beyond_its_quota_waits(
    scene: Scene, clock: ManualClock
) -> None:
    """The rate is over eleven windows, ten of which count as full at once."""
    _, client = scene
    assert await put(client, EVERYBODY, producer_byte_rate=10_000) == 0
    assert await produce(client) == 0
    # 100,000 bytes are allowed in ten seconds; each request has some 100 more.
    throttle_ms = await produce(client, 60_000)
    assert 1000 < throttle_ms < 1050
    # The size of the request counts, even if nothing is appended.
    assert scene.broker.cluster.topics.by_name["t"].partitions[0].log_end_offset == 2


async def test_a_throttled_connection_is_not_read(
    scene: Scene, clock: ManualClock
) -> None:
    """Requests that are sent meanwhile are handled after the time."""
    _, client = scene
    await put(client, EVERYBODY, producer_byte_rate=10_000)
    await produce(client)
    throttle_ms = await produce(client, 60_000)
    assert (await answered_after(scene, clock, throttle_ms)).throttle_time_ms == 0


async def test_other_connections_are_served(scene: Scene) -> None:
    """The same client waits only on the throttled connection."""
    broker, client = scene
    await put(client, EVERYBODY, producer_byte_rate=10_000)
    assert await produce(client, 2 * SIZE + SIZE) > 0
    async with connected(broker) as other:
        response = await other.call("Metadata", 9, requests.metadata("t"))
        assert response.throttle_time_ms == 0
        # Bytes count by client id, on any connection.
        assert await produce(other, 1) > 0


async def test_a_producer_without_acks_waits(scene: Scene, clock: ManualClock) -> None:
    """It learns nothing, and is not read."""
    _, client = scene
    await put(client, EVERYBODY, producer_byte_rate=10_000)
    batch = build_batch([Record(value=bytes(4 * SIZE))])
    await client.send("Produce", 9, requests.produce((0, batch), acks=0))
    (log,) = scene.broker.cluster.topics.by_name["t"].partitions
    await until(lambda: log.log_end_offset)
    # Metadata is the next response: the Produce has none.
    await answered_after(scene, clock, 10_000, late_ms=50)


async def test_a_rate_falls_again(scene: Scene, clock: ManualClock) -> None:
    """Bytes older than eleven seconds do not count any more."""
    _, client = scene
    await put(client, EVERYBODY, producer_byte_rate=10_000)
    assert await produce(client, 95_000) == 0
    clock.skip(12)
    assert await produce(client, 95_000) == 0
    clock.skip(1)
    assert await produce(client, 95_000) > 0


@pytest.mark.parametrize(
    ("quota", "wait_ms"), [(5e-7, LONGEST_MS), (5e-324, LONGEST_MS), (math.nan, 0)]
)
async def test_a_quota_that_no_client_can_keep(
    scene: Scene, quota: float, wait_ms: int
) -> None:
    """Kafka accepts each of them; the throttle time fits into the response."""
    _, client = scene
    assert await put(client, EVERYBODY, producer_byte_rate=quota) == 0
    assert await produce(client) == wait_ms


async def test_a_removed_quota_throttles_nobody(scene: Scene) -> None:
    """No client is throttled from the next response on."""
    _, client = scene
    await put(client, EVERYBODY, producer_byte_rate=1000)
    await put(client, EVERYBODY, producer_byte_rate=None)
    assert await produce(client) == 0


@pytest.mark.parametrize(
    ("entity", "is_his"),
    [
        (EVERYBODY, True),
        (NOBODY, False),
        ((("client-id", ""),), False),
        ((("user", "ANONYMOUS"),), True),
        ((("user", None),), True),
        ((("user", "bob"),), False),
        ((("client-id", None), ("user", "ANONYMOUS")), True),
        ((("client-id", None), ("user", None)), True),
        ((("client-id", "nobody"), ("user", None)), False),
    ],
)
async def test_who_a_quota_applies_to(
    scene: Scene, entity: Entity, is_his: bool
) -> None:
    """The user of each connection is ANONYMOUS."""
    _, client = scene
    await put(client, entity, producer_byte_rate=1000)
    assert (await produce(client) > 0) == is_his


async def test_the_most_specific_quota_counts(scene: Scene) -> None:
    """A user's quota precedes a client id's, and names precede defaults."""
    _, client = scene
    entities: list[Entity] = [
        (("client-id", None),),
        (("user", None),),
        (("client-id", None), ("user", None)),
        (("user", "ANONYMOUS"),),
        (("client-id", None), ("user", "ANONYMOUS")),
    ]
    is_throttled = False
    for entity in entities:
        is_throttled = not is_throttled
        rate = 1000 if is_throttled else 10_000_000
        await put(client, entity, producer_byte_rate=rate)
        async with connected(scene.broker) as other:
            assert (await produce(other) > 0) == is_throttled


def fetch(**fields: Any) -> FetchRequest:
    """A fetch of all records."""
    return requests.fetch(0, **fields)


async def test_a_throttled_fetch_has_no_records(
    scene: Scene, clock: ManualClock
) -> None:
    """They are not counted; the client fetches again, and gets them then."""
    _, client = scene
    await produce(client)
    await put(client, EVERYBODY, consumer_byte_rate=10_000)
    first = await client.call("Fetch", 11, fetch())
    assert first.throttle_time_ms == 0
    (size,) = (len(p.records) for t in first.responses for p in t.partitions)
    assert size > SIZE
    throttled = await client.call("Fetch", 11, fetch())
    assert 0 < throttled.throttle_time_ms < 100
    assert list(throttled.responses) == []
    assert (throttled.error_code, throttled.session_id) == (0, 0)
    clock.skip(throttled.throttle_time_ms / 1000)
    again = await client.call("Fetch", 11, fetch())
    assert len(again.responses[0].partitions[0].records) == size


async def test_a_throttled_session_goes_on(scene: Scene, clock: ManualClock) -> None:
    """The next incremental fetch has the records."""
    _, client = scene
    await produce(client)
    begun = await client.call("Fetch", 11, fetch(session_epoch=0))
    await put(client, EVERYBODY, consumer_byte_rate=10_000)
    session = {"session_id": begun.session_id, "topics": ()}
    first = await client.call("Fetch", 11, fetch(session_epoch=1, **session))
    assert first.throttle_time_ms == 0
    throttled = await client.call("Fetch", 11, fetch(session_epoch=2, **session))
    assert throttled.throttle_time_ms > 0
    assert throttled.session_id == begun.session_id
    clock.skip(throttled.throttle_time_ms / 1000)
    last = await client.call("Fetch", 11, fetch(session_epoch=3, **session))
    assert len(last.responses[0].partitions[0].records) > SIZE


async def test_a_fetch_brings_what_its_quota_allows(
    scene: Scene, clock: ManualClock
) -> None:
    """At most ten seconds' bytes; the rest of the response costs a few ms."""
    _, client = scene
    for _ in range(3):
        await produce(client, 40_000)
    await put(client, EVERYBODY, consumer_byte_rate=10_000)
    throttled = await client.call("Fetch", 11, fetch())
    assert 0 < throttled.throttle_time_ms < 20
    clock.skip(throttled.throttle_time_ms / 1000)
    response = await client.call("Fetch", 11, fetch())
    assert len(response.responses[0].partitions[0].records) == 100_000


# -- requests


async def test_a_busy_client_waits(scene: Scene, clock: ManualClock) -> None:
    """The next response has the throttle time: at most a window, a second."""
    _, client = scene
    await put(client, EVERYBODY, request_percentage=1e-9)
    response = await client.call("Metadata", 9, requests.metadata("t"))
    assert response.throttle_time_ms == 1000
    clock.skip(12)
    response = await client.call("Metadata", 9, requests.metadata("t"))
    assert response.throttle_time_ms == 0


async def test_a_heartbeat_has_a_throttle_time(scene: Scene) -> None:
    """Also a response that is usually sent in its cached encoding."""
    _, client = scene
    heartbeat = HeartbeatRequest("g", 0, "m")
    await client.call("Heartbeat", 4, heartbeat)
    await put(client, EVERYBODY, request_percentage=1e-9)
    response = await client.call("Heartbeat", 4, heartbeat)
    assert response.throttle_time_ms == 1000


# -- changes of partitions


async def create(
    client: WireClient, name: str, partitions: int, version: int = 7
) -> tuple[int, int]:
    """Creates a topic: (error, throttle time)."""
    request = requests.create_topics(name, partitions=partitions)
    response = await client.call("CreateTopics", version, request)
    return response.topics[0].error_code, response.throttle_time_ms


EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_partitions_are_created_at_a_rate(
    scene: Scene, clock: ManualClock
) -> None:
    """Eleven at once at one a second; the topic that exceeds that is the last."""
    broker, client = scene
    await put(client, EVERYBODY, controller_mutation_rate=1)
    assert await create(client, "a", 5) == (0, 0)
    assert await create(client, "b", 8) == (0, 0)
    assert await create(client, "c", 1) == (EXCEEDED, 2000)
    assert "c" not in broker.cluster.topics.by_name
    clock.skip(2)
    assert await create(client, "c", 1) == (0, 0)
    # Older clients do not know the error: the request is granted, and they wait.
    assert await create(client, "d", 1, version=5) == (0, 2000)


async def test_partitions_are_deleted_and_added_at_a_rate(
    scene: Scene, clock: ManualClock
) -> None:
    """All partitions of a deleted topic count, and the new ones of one that grows."""
    broker, client = scene
    await create(client, "a", 12)
    await put(client, EVERYBODY, controller_mutation_rate=1)
    request = requests.delete_topics("a", "t")
    response = await client.call("DeleteTopics", 6, request)
    rows = [(row.name, row.error_code) for row in response.responses]
    assert rows == [("a", 0), ("t", EXCEEDED)]
    assert response.throttle_time_ms == 1000
    assert [*broker.cluster.topics.by_name] == ["t"]
    clock.skip(1)
    for count, error, throttle_ms in ((3, 0, 0), (4, EXCEEDED, 2000)):
        grow = requests.create_partitions("t", count)
        response = await client.call("CreatePartitions", 3, grow)
        assert [row.error_code for row in response.results] == [error]
        assert response.throttle_time_ms == throttle_ms
    assert len(broker.cluster.topics.by_name["t"].partitions) == 3


# -- rates


def test_a_rate_of_full_windows() -> None:
    """A quota of 100 a second, with an amount in each second, and too much at last."""
    rate = Rate(11, 1000)
    for second in range(10):
        rate.record(100, 1000 * second)
        assert rate.throttle_ms(100, 1000 * second) == 0
    rate.record(900, 10_000)
    # 1,900 in ten seconds are allowed after nineteen.
    assert rate.throttle_ms(100, 10_000) == 9000
    assert rate.throttle_ms(100, 11_000) == 8000


def test_an_idle_rate_is_forgotten() -> None:
    """A sample counts for eleven windows after its last amount."""
    rate = Rate(11, 1000)
    rate.record(10_000, 0)
    assert rate.throttle_ms(100, 10_999) > 0
    assert rate.throttle_ms(100, 11_000) == 0


@pytest.mark.parametrize(
    ("quota", "second"),
    [
        (5e-324, (EXCEEDED, LONGEST_MS)),
        (1e308, (0, 0)),
        (math.inf, (0, 0)),
        (math.nan, (0, 0)),
    ],
)
async def test_a_rate_of_changes_that_is_no_rate(
    scene: Scene, quota: float, second: tuple[int, int]
) -> None:
    """The first topic exhausts a tiny quota; the other quotas refuse nothing."""
    _, client = scene
    assert await put(client, EVERYBODY, controller_mutation_rate=quota) == 0
    assert await create(client, "a", 1) == (0, 0)
    assert await create(client, "b", 1) == second
