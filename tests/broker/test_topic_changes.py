"""Changes of many topics: in pieces, saved together, one request after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import offsets, until
from tests.broker.test_restart import (
    broker_on,
    committed,
    killed,
    no_change_can_be_written,
)
from tests.wire.client import WireClient, connected, connections, served
from tests.wire.requests import (
    create_partitions,
    create_topics,
    delete_topics,
    metadata,
)

from kohort.broker.cluster import new_topics
from kohort.broker.log import journal
from kohort.broker.log.journal import SMALLEST_OUTGROWN
from kohort.broker.server import Broker
from kohort.broker.topics.topic import NO_NODE
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.errors import ErrorCode

MANY = [f"t{number:03}" for number in range(300)]
SOME = MANY[:60]
"""As many pieces of work with a data directory, where each topic is a folder."""
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS
NOT_KEPT = ErrorCode.KAFKA_STORAGE_ERROR


async def ask_create(client: WireClient, *names: str, partitions: int = 1) -> None:
    """Sends CreateTopics."""
    await client.send("CreateTopics", 7, create_topics(*names, partitions=partitions))


async def created(client: WireClient) -> dict[str, int]:
    """The error codes of CreateTopics."""
    answer = await client.response("CreateTopics", 7)
    return {topic.name: topic.error_code for topic in answer.topics}


async def create(
    client: WireClient, *names: str, partitions: int = 1
) -> dict[str, int]:
    """Creates topics; returns error codes by name."""
    await ask_create(client, *names, partitions=partitions)
    return await created(client)


async def ask_delete(client: WireClient, *names: str) -> None:
    """Sends DeleteTopics."""
    await client.send("DeleteTopics", 6, delete_topics(*names))


async def deleted(client: WireClient) -> dict[str | None, int]:
    """The error codes of DeleteTopics."""
    answer = await client.response("DeleteTopics", 6)
    return {row.name: row.error_code for row in answer.responses}


async def asked_for(client: WireClient, *names: str) -> dict[str | None, int]:
    """Metadata, which creates topics; returns error codes by name."""
    answer = await client.call("Metadata", 9, metadata(*names))
    return {topic.name: topic.error_code for topic in answer.topics}


async def ask_grow(client: WireClient, name: str, count: int) -> None:
    """Sends CreatePartitions."""
    await client.send("CreatePartitions", 3, create_partitions(name, count))


async def grown(client: WireClient) -> int:
    """The error code of CreatePartitions."""
    answer = await client.response("CreatePartitions", 3)
    return int(answer.results[0].error_code)


async def grow(client: WireClient, name: str, count: int) -> int:
    """Adds partitions to a topic; returns the error code."""
    await ask_grow(client, name, count)
    return await grown(client)


async def ping(client: WireClient) -> None:
    """The fastest request."""
    await client.call("ApiVersions", 3, ApiVersionsRequest("a", "1"))


def lines(path: Path) -> int:
    """The number of saved changes since the start."""
    return (path / "cluster.log").read_bytes().count(b"\n")


def partitions_of(path: Path) -> set[str]:
    """The folders of partitions."""
    return {folder.name for folder in path.glob("*-*") if folder.is_dir()}


async def test_one_request_is_written_down_once(tmp_path: Path) -> None:
    """One request is one line and one fsync, however many topics it changes."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        assert lines(path) == 0
        assert set((await create(client, *SOME)).values()) == {0}
        assert lines(path) == 1
        more = [f"m{number}" for number in range(50)]
        assert await asked_for(client, *more) == dict.fromkeys(more, UNKNOWN)
        assert lines(path) == 2
        assert await asked_for(client, *more) == dict.fromkeys(more, 0)
        await ask_delete(client, *SOME)
        assert await deleted(client) == dict.fromkeys(SOME, 0)
        assert lines(path) == 3
        assert partitions_of(path) == {f"{name}-0" for name in more}
        found = killed(path)
    async with broker_on(found) as broker:
        assert set(broker.cluster.topics.by_name) == set(more)


async def test_very_many_partitions_are_written_down_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no line, and no turn of the loop, grows with the request."""
    path = tmp_path / "data"
    monkeypatch.setattr(new_topics, "MOST_PARTITIONS", 10)
    async with broker_on(path) as broker, connected(broker) as client:
        assert set((await create(client, *MANY[:5], partitions=4)).values()) == {0}
        # Three topics are the first to have as many.
        assert lines(path) == 2


async def test_changes_do_not_pile_up(tmp_path: Path) -> None:
    """cluster.log is merged into cluster.json when it is outgrown."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        await create(client, "t")
        topic = broker.cluster.topics.by_name["t"]
        long = {"follower.replication.throttled.replicas": ",".join(["0:1"] * 9000)}
        for _ in range(3 * SMALLEST_OUTGROWN // 30_000):
            broker.cluster.topics.configure(topic, long)
            await until(lambda: not len(broker.cluster.long_work))
            size = (path / "cluster.log").stat().st_size
            assert size < 2 * SMALLEST_OUTGROWN
        found = killed(path)
    assert (path / "cluster.log").stat().st_size == 0
    async with broker_on(found) as broker:
        assert broker.cluster.topics.by_name["t"].overrides == long


async def test_the_change_that_is_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cluster.json has the change that caused its rewrite, also after a kill."""
    monkeypatch.setattr(journal, "SMALLEST_OUTGROWN", 1)
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        for count, name in enumerate(SOME[:4], 1):
            assert await create(client, name) == {name: 0}
            async with broker_on(killed(path, name)) as again:
                assert list(again.cluster.topics.by_name) == SOME[:count]


async def test_others_are_served_meanwhile() -> None:
    """A later request is done before one that creates many topics."""
    async with Broker() as broker, connections(broker, 2) as (client, other):
        await ask_create(client, *MANY)
        await ping(other)
        assert MANY[0] not in broker.cluster.topics.by_name
        assert set((await created(client)).values()) == {0}
        assert set(broker.cluster.topics.by_name) == set(MANY)
        await ask_delete(client, *MANY)
        await ping(other)
        # All are gone at once, and their logs one by one.
        assert set((await deleted(client)).values()) == {0}
        assert not broker.cluster.topics.by_name


async def test_one_name_twice_at_the_same_time() -> None:
    """The second request comes after the first, and finds the topic."""
    async with Broker() as broker, connections(broker, 3) as (client, other, third):
        await ask_create(client, *MANY)
        await ping(other)
        await ask_create(other, MANY[-1], "new")
        await ping(third)
        # Also one that collides with it.
        assert await create(third, "t.b", MANY[0]) == {"t.b": 0, MANY[0]: EXISTS}
        assert await created(client) == dict.fromkeys(MANY, 0)
        assert await created(other) == {MANY[-1]: EXISTS, "new": 0}


async def test_a_client_asks_for_a_topic_that_is_being_created(tmp_path: Path) -> None:
    """It finds the same topic: no second one, and no error."""
    async with (
        broker_on(tmp_path / "data") as broker,
        connections(broker, 2) as (client, other),
    ):
        await ask_create(client, *SOME, partitions=2)
        await ping(other)
        # The first response for any new topic.
        asked = SOME[-1], "other"
        assert (await asked_for(other, *asked)) == {SOME[-1]: 0, "other": UNKNOWN}
        assert await created(client) == dict.fromkeys(SOME, 0)
        assert len(broker.cluster.topics.by_name[SOME[-1]].partitions) == 2


async def test_a_topic_is_deleted_while_it_is_being_created() -> None:
    """Deletion comes after creation, growth after deletion."""
    async with Broker() as broker, connections(broker, 3) as (client, other, third):
        await ask_create(client, *MANY)
        await ping(other)
        await ask_delete(other, MANY[0])
        await ping(third)
        assert await grow(third, MANY[0], 2) == UNKNOWN
        assert await created(client) == dict.fromkeys(MANY, 0)
        assert await deleted(other) == {MANY[0]: 0}
        assert set(broker.cluster.topics.by_name) == set(MANY[1:])


async def test_a_node_stops_while_topics_are_being_created() -> None:
    """It leads none of them."""
    async with Broker(nodes=2) as broker, connected(broker) as client:
        await ask_create(client, *MANY)
        await until(lambda: broker.cluster.topics.count)
        await broker.stop_node(2)
        assert not broker.cluster.topics.by_name
        assert set((await created(client)).values()) == {0}
        topics = broker.cluster.topics.by_name.values()
        assert {leader for topic in topics for leader in topic.leaders} == {1, NO_NODE}


async def test_a_node_stops_while_a_topic_grows() -> None:
    """The other node leads all of it."""
    async with Broker(nodes=2) as broker, connections(broker, 2) as (client, other):
        topic = broker.cluster.create_topic("t", 1, 2)
        await ask_grow(client, "t", 5_000)
        await ping(other)
        await broker.stop_node(2)
        assert topic.leaders == [1]
        assert await grown(client) == 0
        assert topic.leaders == [1] * 5_000


async def test_a_client_that_goes_leaves_no_half_of_it() -> None:
    """As in Kafka, a request that has begun is finished."""
    async with Broker() as broker, connected(broker) as other:
        async with connected(broker) as client:
            await ask_create(client, *MANY)
            await ping(other)
            assert not broker.cluster.topics.by_name
        await until(lambda: set(broker.cluster.topics.by_name) == set(MANY))
        assert await create(other, "next") == {"next": 0}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_stop_while_topics_are_being_created(
    tmp_path: Path, is_killed: bool
) -> None:
    """No topic was acknowledged, none exists, and no folder is left."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connections(broker, 2) as (client, other):
        await create(other, "before")
        await ask_create(client, *SOME)
        await ping(other)
        assert len(partitions_of(path)) > 1
        found = killed(path) if is_killed else path
    async with broker_on(found) as broker, connected(broker) as client:
        assert set(broker.cluster.topics.by_name) == {"before"}
        assert partitions_of(found) == {"before-0"}
        assert await create(client, SOME[0]) == {SOME[0]: 0}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_stop_while_topics_are_being_deleted(
    tmp_path: Path, is_killed: bool
) -> None:
    """All topics and their committed offsets are gone with the first piece."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connections(broker, 2) as (client, other):
        await create(client, "before", *SOME)
        for name in ("before", SOME[0]):
            await client.call("OffsetCommit", 8, offsets(5, name))
        await ask_delete(client, *SOME)
        await ping(other)
        assert len(partitions_of(path)) > 55
        found = killed(path) if is_killed else path
    async with broker_on(found) as broker, connected(broker) as client:
        names = {"before", "__consumer_offsets"}
        assert set(broker.cluster.topics.by_name) == names
        assert await committed(client) == {"before": 5}
        assert len(partitions_of(found)) == 51


async def test_topics_that_cannot_be_written_down(tmp_path: Path) -> None:
    """All topics of the request are refused, even if only the last step failed."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        assert await create(client, "there") == {"there": 0}
        with no_change_can_be_written(path):
            answer: dict[Any, int] = await create(client, *MANY[:9], "there")
            assert answer == dict.fromkeys(MANY[:9], NOT_KEPT) | {"there": EXISTS}
            assert set((await asked_for(client, *MANY[:9])).values()) == {NOT_KEPT}
            await ask_delete(client, "there", "nope")
            assert await deleted(client) == {"there": NOT_KEPT, "nope": UNKNOWN}
            assert partitions_of(path) == {"there-0"}
            assert set(broker.cluster.topics.by_name) == {"there"}
        # The names are not reserved any more.
        assert set((await create(client, *MANY[:9])).values()) == {0}


async def test_a_client_cannot_create_more_by_asking() -> None:
    """Metadata creates no more partitions than CreateTopics may."""
    async with served(num_partitions=2000) as client:
        names = [f"t{number}" for number in range(6)]
        for _ in range(2):
            assert await asked_for(client, *names) == dict.fromkeys(names, UNKNOWN)
        for _ in range(2):
            last = await asked_for(client, *names[:5])
        assert last == dict.fromkeys(names[:5], 0)


async def test_a_name_that_is_repeated_is_answered_once() -> None:
    """One large topic, requested two thousand times, is answered once."""
    async with Broker() as broker, connected(broker) as client:
        await create(client, "large", partitions=1000)
        topic_id = broker.cluster.topics.by_name["large"].id
        for asked in (
            MetadataRequestTopic(name="large"),
            MetadataRequestTopic(topic_id, None),
        ):
            request = MetadataRequest([asked] * 2000, False)
            answer = await client.call("Metadata", 12, request)
            (row,) = answer.topics
            assert (row.name, len(row.partitions)) == ("large", 1000)
