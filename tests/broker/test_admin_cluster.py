"""Cluster, partitions, epochs and producers: the same responses as Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.wire import requests
from tests.wire.client import WireClient, connected, served

from kohort.broker.handlers import acl_bits
from kohort.broker.server import Broker
from kohort.protocol.apis.k17_sasl_handshake import SaslHandshakeRequest
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from kohort.protocol.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kohort.protocol.apis.k60_describe_cluster import DescribeClusterRequest
from kohort.protocol.apis.k75_describe_topic_partitions import (
    CursorRequest,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch
from kohort.protocol.registry import BY_NAME

ADMIN = [
    "SaslHandshake",
    "SaslAuthenticate",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "DescribeProducers",
    "ListConfigResources",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "DescribeConfigs",
    "AlterConfigs",
    "CreatePartitions",
    "IncrementalAlterConfigs",
    "ListPartitionReassignments",
    "DescribeCluster",
    "DescribeTopicPartitions",
]


@pytest.mark.parametrize("name", ADMIN)
async def test_every_version_is_answered(name: str) -> None:
    """An empty request gets a response in its own version, on one connection."""
    api = BY_NAME[name]
    async with served() as client:
        for version in range(api.oldest, api.newest + 1):
            response = await client.call(name, version, api.request_class())
            assert type(response) is api.response_class


async def create(client: WireClient, name: str, partitions: int, policy: str) -> None:
    """Creates a topic with a cleanup policy."""
    request = requests.create_topics(
        name, partitions=partitions, config={"cleanup.policy": policy}
    )
    (result,) = (await client.call("CreateTopics", 7, request)).topics
    assert result.error_code == 0


@pytest.mark.parametrize("version", range(3))
async def test_describes_the_cluster(version: int) -> None:
    """The only node is the controller; allowed operations are sent on request."""
    async with Broker() as broker, connected(broker) as client:
        for asked, allowed in [(False, -(2**31)), (True, acl_bits.CLUSTER)]:
            request = DescribeClusterRequest(asked)
            answer = await client.call("DescribeCluster", version, request)
            assert (answer.error_code, answer.error_message) == (0, None)
            assert answer.cluster_id == broker.cluster.id
            assert answer.controller_id == 1
            (node,) = answer.brokers
            assert (node.broker_id, node.host, node.port) == (
                1,
                "127.0.0.1",
                broker.port,
            )
            assert (node.rack, node.is_fenced) == (None, False)
            assert answer.cluster_authorized_operations == allowed


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_has_no_controllers_to_describe(
    endpoint_type: int, error: ErrorCode
) -> None:
    """A broker refuses requests for controllers (KIP-919)."""
    async with served() as client:
        request = DescribeClusterRequest(False, endpoint_type)
        answer = await client.call("DescribeCluster", 2, request)
        assert (answer.error_code, list(answer.brokers)) == (error, [])
        assert (answer.cluster_id, answer.controller_id) == ("", -1)


async def pages(
    client: WireClient,
    names: Sequence[str],
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    """(name, error, partitions) of the topics of one page, and the next cursor."""
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names],
        limit,
        CursorRequest(*cursor) if cursor else None,
    )
    answer = await client.call("DescribeTopicPartitions", 0, request)
    after = answer.next_cursor
    return [
        (t.name, t.error_code, [p.partition_index for p in t.partitions])
        for t in answer.topics
    ], after and (after.topic_name, after.partition_index)


@pytest.mark.parametrize(
    ("limit", "cursor", "a", "b", "after"),
    [
        (2000, None, [0, 1, 2], [0, 1], None),
        (5, None, [0, 1, 2], [0, 1], None),
        (4, None, [0, 1, 2], [0], ("b", 1)),
        (3, None, [0, 1, 2], None, ("b", 0)),
        (1, None, [0], None, ("a", 1)),
        (0, None, [0], None, ("a", 1)),
        (-1, None, [0], None, ("a", 1)),
        (2, ("a", 1), [1, 2], None, ("b", 0)),
        (9, ("a", 3), [], [0, 1], None),
        (9, ("a", 30), [], [0, 1], None),
        (9, ("b", 1), None, [1], None),
    ],
)
async def test_describes_partitions_in_pages(
    limit: int,
    cursor: tuple[str, int] | None,
    a: list[int] | None,
    b: list[int] | None,
    after: tuple[str, int] | None,
) -> None:
    """Topics are sorted by name; the cursor is the start of the next page."""
    async with served() as client:
        await create(client, "b", 2, "delete")
        await create(client, "a", 3, "delete")
        shown = [(n, 0, p) for n, p in (("a", a), ("b", b)) if p is not None]
        assert await pages(client, ["b", "a"], limit, cursor) == (shown, after)
        assert await pages(client, [], limit, cursor) == (shown, after)


async def test_describes_partitions_of_no_topic() -> None:
    """Unknown topics have an error, and use no room on the page."""
    async with served() as client:
        await create(client, "a", 1, "delete")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await pages(client, ["a", "0", "b"], 1) == (
            [("0", unknown, []), ("a", 0, [0])],
            ("b", 0),
        )
        assert await pages(client, ["a b"]) == (
            [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, [])],
            None,
        )
        assert await pages(client, [], 9, ("zzz", 0)) == ([], None)


@pytest.mark.parametrize("cursor", [("a", -1), ("b", 0), ("", 0)])
async def test_a_cursor_has_to_fit(cursor: tuple[str, int]) -> None:
    """A cursor at a topic that was not requested, or below 0, is refused."""
    async with served() as client:
        await create(client, "a", 1, "delete")
        assert await pages(client, ["a"], 9, cursor) == (
            [("a", ErrorCode.INVALID_REQUEST, [])],
            None,
        )


@pytest.mark.parametrize("topics", [None, [], ["a"], ["none"]])
async def test_nothing_is_ever_reassigned(topics: list[str] | None) -> None:
    """No partition is reassigned, known or not."""
    async with served() as client:
        await create(client, "a", 1, "delete")
        wanted = None
        if topics is not None:
            wanted = [ListPartitionReassignmentsTopics(name, [0]) for name in topics]
        request = ListPartitionReassignmentsRequest(1000, wanted)
        answer = await client.call("ListPartitionReassignments", 0, request)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert list(answer.topics) == []


async def test_sasl_has_no_place_here() -> None:
    """A plaintext listener refuses SASL, and keeps serving the connection."""
    async with served() as client:
        handshake = SaslHandshakeRequest("PLAIN")
        answer = await client.call("SaslHandshake", 1, handshake)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert list(answer.mechanisms) == []
        token = SaslAuthenticateRequest(b"\0user\0secret")
        answer = await client.call("SaslAuthenticate", 2, token)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.auth_bytes == b""
        versions = ApiVersionsRequest("tests", "1")
        assert (await client.call("ApiVersions", 3, versions)).error_code == 0


async def produce(broker: Broker, name: str, index: int, count: int) -> None:
    """Appends this many records."""
    partition = broker.cluster.topics.by_name[name].partitions[index]
    for number in range(count):
        batch = build_batch([Record(value=b"%d" % number)])
        partition.append_own(batch, now_ms=1000)


async def delete_records(
    client: WireClient, *wanted: tuple[str, int, int], version: int = 2
) -> list[tuple[str, int, int, int]]:
    """(topic, partition, low watermark, error) of each partition."""
    request = requests.delete_records(*wanted)
    answer = await client.call("DeleteRecords", version, request)
    return [
        (t.name, p.partition_index, p.low_watermark, p.error_code)
        for t in answer.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize(
    ("name", "index", "offset", "low", "error"),
    [
        ("t", 0, 3, 3, 0),
        ("t", 0, 10, 10, 0),
        ("t", 0, -1, 10, 0),
        ("t", 0, 11, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, -1, 0, 0),
        ("t", 7, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compact", 0, 0, -1, ErrorCode.POLICY_VIOLATION),
        ("both", 0, 0, 0, 0),
    ],
)
async def test_deletes_records(
    name: str, index: int, offset: int, low: int, error: int
) -> None:
    """The log of ten records starts at the requested offset; errors change nothing."""
    async with Broker() as broker, connected(broker) as client:
        await create(client, "t", 2, "delete")
        await create(client, "compact", 1, "compact")
        await create(client, "both", 1, "compact,delete")
        await produce(broker, "t", 0, 10)
        for version in range(3):
            assert await delete_records(
                client, (name, index, offset), version=version
            ) == [(name, index, low, error)]
        start = broker.cluster.topics.by_name["t"].partitions[0].log_start_offset
        assert start == (low if (name, index, error) == ("t", 0, 0) else 0)


async def test_deleting_less_changes_nothing() -> None:
    """The start of a log never moves back; each partition is answered once."""
    async with Broker() as broker, connected(broker) as client:
        await create(client, "t", 1, "delete")
        await produce(broker, "t", 0, 10)
        assert await delete_records(client, ("t", 0, 5)) == [("t", 0, 5, 0)]
        assert await delete_records(client, ("t", 0, 1)) == [("t", 0, 5, 0)]
        assert await delete_records(client, ("t", 0, 7), ("t", 0, 7)) == [
            ("t", 0, 7, 0)
        ]


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("name", "index", "current", "epoch", "answer"),
    [
        ("t", 0, -1, 0, (0, 0, 10)),
        ("t", 0, 0, 0, (0, 0, 10)),
        ("t", 1, 0, 0, (0, 0, 0)),
        ("t", 0, 0, 5, (0, -1, -1)),
        ("t", 0, 0, -1, (0, -1, -1)),
        ("t", 0, 0, -2, (0, -2, 0)),
        ("t", 0, 1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("t", 0, -2, 0, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        ("t", 9, 0, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
        ("none", 0, 0, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
async def test_knows_where_epochs_end(
    name: str,
    index: int,
    current: int,
    epoch: int,
    answer: tuple[int, int, int],
    version: int,
) -> None:
    """Returns (error, epoch, end offset) in a topic with ten records of epoch 0."""
    async with Broker() as broker, connected(broker) as client:
        await create(client, "t", 2, "delete")
        await produce(broker, "t", 0, 10)
        wanted = OffsetForLeaderTopic(
            name, [OffsetForLeaderPartition(index, current, epoch)]
        )
        request = OffsetForLeaderEpochRequest(-1, [wanted])
        response = await client.call("OffsetForLeaderEpoch", version, request)
        (topic,) = response.topics
        (end,) = topic.partitions
        assert (topic.topic, end.partition) == (name, index)
        assert (end.error_code, end.leader_epoch, end.end_offset) == answer


async def init(client: WireClient, version: int = 5, **fields: Any) -> Any:
    """The response to InitProducerId, by default without a transactional id."""
    request = InitProducerIdRequest(
        **({"transactional_id": None, "transaction_timeout_ms": 60000} | fields)
    )
    return await client.call("InitProducerId", version, request)


async def test_each_producer_has_an_id() -> None:
    """Each id is handed out once, in every version, on any connection."""
    async with Broker() as broker, connected(broker) as a, connected(broker) as b:
        answers = [await init(c, version) for version in range(6) for c in (a, b)]
        assert len({answer.producer_id for answer in answers}) == 12
        assert {(r.error_code, r.producer_epoch) for r in answers} == {(0, 0)}


@pytest.mark.parametrize(
    ("producer_id", "epoch"), [(0, 0), (0, 7), (10**9, 32766), (-5, -5)]
)
async def test_a_bump_is_a_new_id(producer_id: int, epoch: int) -> None:
    """An idempotent producer that asks for a higher epoch gets a new id (KIP-360)."""
    async with served() as client:
        first = await init(client)
        answer = await init(client, producer_id=producer_id, producer_epoch=epoch)
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        assert answer.producer_id not in {first.producer_id, producer_id}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x", "producer_id": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refuses_producers(fields: dict[str, Any], error: ErrorCode) -> None:
    """A producer id without an epoch, and an empty transactional id, are refused."""
    async with served() as client:
        answer = await init(client, **fields)
        assert (answer.error_code, answer.producer_id) == (error, -1)
        assert answer.producer_epoch == -1
