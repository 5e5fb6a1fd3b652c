"""Well-formed but unusual requests, as Apache Kafka 4.3 answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.wire.client import WireClient, connected, served
from tests.wire.requests import LATEST, create_topics, delete_topics, fetch, metadata

from kohort.broker.server import Broker
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchTopic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.apis.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID

SOME_ID = bytes(range(16))
ALL_OPERATIONS = 0b110111111000
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
TWICE = ErrorCode.INVALID_REQUEST


async def topics_of(
    client: WireClient, version: int, *rows: MetadataRequestTopic
) -> list[tuple[str | None, int]]:
    """Names and errors in a Metadata response; none of the topics is created."""
    request = MetadataRequest(rows, False)
    answer = await client.call("Metadata", version, request)
    return [(topic.name, topic.error_code) for topic in answer.topics]


async def exists(client: WireClient, name: str) -> bool:
    """Returns whether a topic exists."""
    ((_, error),) = await topics_of(client, 9, MetadataRequestTopic(name=name))
    return not error


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "odd", [MetadataRequestTopic(SOME_ID, "t"), MetadataRequestTopic(ZERO_UUID, None)]
)
async def test_metadata_by_id_before_its_time(
    version: int, odd: MetadataRequestTopic
) -> None:
    """Versions 10 and 11 have the fields, but must not use them: all is refused."""
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t", "u"))
        found = await topics_of(client, version, MetadataRequestTopic(name="u"), odd)
        assert found == [
            ("u", ErrorCode.INVALID_REQUEST),
            (odd.name or "", ErrorCode.INVALID_REQUEST),
        ]
        await client.is_served()


@pytest.mark.parametrize("version", [12, 13])
async def test_metadata_by_names_and_ids(version: int) -> None:
    """Names are ignored if there are ids; each id is answered once."""
    async with Broker() as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 1)
        broker.cluster.create_topic("u", 1)
        by_id = MetadataRequestTopic(topic.id, None)
        nameless = MetadataRequestTopic(ZERO_UUID, None)
        found = await topics_of(
            client,
            version,
            MetadataRequestTopic(name="u"),
            by_id,
            nameless,
            MetadataRequestTopic(SOME_ID, "u"),
            by_id,
        )
        assert found == [(None, ErrorCode.UNKNOWN_TOPIC_ID), ("t", 0)]
        failed = ErrorCode.UNKNOWN_SERVER_ERROR
        named = MetadataRequestTopic(name="t")
        found = await topics_of(client, version, named, nameless)
        assert found == [("t", failed), ("", failed)]
        await client.is_served()


async def test_operations_on_missing_topics() -> None:
    """They are shown, and whether the topic would be internal."""
    async with served() as client:
        names = [
            MetadataRequestTopic(name=name)
            for name in ("t", "bad name", "__consumer_offsets")
        ]
        request = MetadataRequest(names, False, False, True)
        answer = await client.call("Metadata", 8, request)
        assert [
            (topic.error_code, topic.is_internal, topic.topic_authorized_operations)
            for topic in answer.topics
        ] == [
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, ALL_OPERATIONS),
            (ErrorCode.INVALID_TOPIC_EXCEPTION, False, ALL_OPERATIONS),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, ALL_OPERATIONS),
        ]


async def test_names_that_auto_creation_leaves_out() -> None:
    """Names that collide with another, and the controllers' log, are never created."""
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("a.b"))
        for _ in range(2):
            names = ("a_b", "__cluster_metadata")
            answer = await client.call("Metadata", 9, metadata(*names))
            assert [(topic.name, topic.error_code) for topic in answer.topics] == [
                (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names
            ]


Results = list[tuple[str | None, int, str | None]]


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_to_create_topics(timeout_ms: int) -> None:
    """All are refused, without a message, if the controller is needed for one."""

    async def create(*names: str) -> Results:
        topics = [CreatableTopic(name, 1, 1) for name in names]
        request = CreateTopicsRequest(topics, timeout_ms)
        answer = await client.call("CreateTopics", 7, request)
        return [(row.name, row.error_code, row.error_message) for row in answer.topics]

    async with served() as client:
        late = [("t", TIMED_OUT, None), ("u", TIMED_OUT, None), ("u", TIMED_OUT, None)]
        assert await create("t", "u", "u") == late
        assert not await exists(client, "t")
        twice = [(name, code) for name, code, _ in await create("u", "u")]
        assert twice == [("u", TWICE)]
        ((_, reserved, _),) = await create("__cluster_metadata")
        assert reserved == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_to_delete_topics(timeout_ms: int) -> None:
    """With a timeout of 0 no topic is deleted; other errors come first."""

    async def delete(*wanted: tuple[str | None, bytes]) -> Results:
        states = [DeleteTopicState(name, topic_id) for name, topic_id in wanted]
        request = DeleteTopicsRequest(states, (), timeout_ms)
        rows = (await client.call("DeleteTopics", 6, request)).responses
        return [(row.name, row.error_code, row.error_message) for row in rows]

    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t"))
        neither = (None, ZERO_UUID)
        late = [(None, TIMED_OUT, None), ("t", TIMED_OUT, None)]
        assert await delete(neither, ("t", ZERO_UUID)) == late
        assert await exists(client, "t")
        odd = (neither, ("t", SOME_ID), ("u", ZERO_UUID), ("u", ZERO_UUID))
        assert [(name, code) for name, code, _ in await delete(*odd)] == [
            (None, TWICE),
            ("t", TWICE),
            ("u", TWICE),
        ]


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_to_create_partitions(timeout_ms: int) -> None:
    """With a timeout of 0 no topic grows; only repeated names have another error."""

    async def grow(*names: str) -> Results:
        topics = [CreatePartitionsTopic(name, 3, None) for name in names]
        request = CreatePartitionsRequest(topics, timeout_ms)
        rows = (await client.call("CreatePartitions", 3, request)).results
        return [(row.name, row.error_code, row.error_message) for row in rows]

    async with Broker() as broker, connected(broker) as client:
        topic = broker.cluster.create_topic("t", 1)
        late = [("u", TIMED_OUT, None), ("u", TIMED_OUT, None), ("t", TIMED_OUT, None)]
        assert await grow("u", "u", "t") == late
        assert len(topic.partitions) == 1
        assert [(name, code) for name, code, _ in await grow("t", "t")] == [
            ("t", TWICE)
        ]


async def test_an_empty_name_and_no_cursor() -> None:
    """Kafka takes the empty name for the cursor's topic, and fails."""
    async with served() as client:
        wanted = [TopicRequest("t"), TopicRequest("")]
        request = DescribeTopicPartitionsRequest(wanted)
        answer = await client.call("DescribeTopicPartitions", 0, request)
        failed = ErrorCode.UNKNOWN_SERVER_ERROR
        assert [(row.name, row.error_code) for row in answer.topics] == [
            ("t", failed),
            ("", failed),
        ]


async def errors_of_fetch(
    client: WireClient, rows: Sequence[FetchPartition], **fields: Any
) -> list[int]:
    """The error codes of a Fetch of the topic "t"."""
    request = fetch(topics=[FetchTopic("t", ZERO_UUID, rows)], **fields)
    answer = await client.call("Fetch", 11, request)
    return [row.error_code for topic in answer.responses for row in topic.partitions]


async def test_negative_leader_epochs() -> None:
    """As with -1, the epoch is not checked."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        for epoch in (-2, -(2**31)):
            row = FetchPartition(0, epoch, partition_max_bytes=1)
            assert await errors_of_fetch(client, [row]) == [0]


async def test_names_that_are_alike_in_one_request() -> None:
    """Kafka compares new names only with those of existing topics."""
    async with served() as client:
        twins = create_topics("a.b", "a_b")
        answer = await client.call("CreateTopics", 7, twins)
        assert [topic.error_code for topic in answer.topics] == [0, 0]
        answer = await client.call("CreateTopics", 7, create_topics("a.b", "a.c"))
        assert [topic.error_code for topic in answer.topics] == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            0,
        ]
        await client.call("DeleteTopics", 6, delete_topics("a_b"))
        answer = await client.call("CreateTopics", 7, create_topics("a.b", "a_b"))
        assert [topic.error_code for topic in answer.topics] == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]


async def test_rows_of_list_offsets() -> None:
    """One row per partition, under its topic; timestamps are checked first."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        wanted = [
            ListOffsetsTopic("u", []),
            ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST)] * 3),
            ListOffsetsTopic("v", [ListOffsetsPartition(0, -1, -7)]),
            ListOffsetsTopic("t", [ListOffsetsPartition(1, -1, LATEST)]),
        ]
        request = ListOffsetsRequest(-1, 0, wanted)
        answer = await client.call("ListOffsets", 9, request)
        assert [
            (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
            for topic in answer.topics
        ] == [
            ("t", [(0, ErrorCode.INVALID_REQUEST), (1, 0)]),
            ("v", [(0, ErrorCode.UNSUPPORTED_VERSION)]),
        ]


@pytest.mark.parametrize("level", [-1, 2])
async def test_isolation_levels_that_do_not_exist(level: int) -> None:
    """ListOffsets fails for each row of the request."""
    async with Broker() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST)] * 2)
        request = ListOffsetsRequest(-1, level, [wanted, ListOffsetsTopic("u", [])])
        answer = await client.call("ListOffsets", 9, request)
        failed = ErrorCode.UNKNOWN_SERVER_ERROR
        assert [
            (topic.name, [p.error_code for p in topic.partitions])
            for topic in answer.topics
        ] == [("t", [failed, failed]), ("u", [])]
