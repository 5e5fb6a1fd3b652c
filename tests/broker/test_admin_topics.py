"""Topics are created, grown and deleted: the same responses as Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.wire.client import WireClient, connected, served
from tests.wire.requests import metadata

from kohort.broker.server import Broker
from kohort.protocol.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.apis.k20_delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID

TIMEOUT_MS = 1000


def topic(
    name: str = "t",
    partitions: int = -1,
    replicas: int = -1,
    placed: Sequence[tuple[int, Sequence[int]]] = (),
    **settings: str | None,
) -> CreatableTopic:
    """A topic to create; settings have ``_`` in place of dots."""
    return CreatableTopic(
        name,
        partitions,
        replicas,
        [CreatableReplicaAssignment(index, nodes) for index, nodes in placed],
        [CreatableTopicConfig(k.replace("_", "."), v) for k, v in settings.items()],
    )


async def create(
    client: WireClient, *topics: CreatableTopic, version: int = 7, only: bool = False
) -> list[Any]:
    """Creates topics, and returns the results."""
    request = CreateTopicsRequest(topics, TIMEOUT_MS, only)
    return list((await client.call("CreateTopics", version, request)).topics)


async def codes(
    client: WireClient, *topics: CreatableTopic, only: bool = False
) -> dict[str, int]:
    """Creates topics, and returns the error codes by name."""
    results = await create(client, *topics, only=only)
    assert all(bool(r.error_message) == bool(r.error_code) for r in results)
    return {result.name: result.error_code for result in results}


async def partition_counts(client: WireClient, *names: str) -> list[int]:
    """The number of partitions of topics; 0 for unknown ones."""
    answer = await client.call("Metadata", 9, metadata(*names, creates=False))
    found = {t.name: len(t.partitions) for t in answer.topics}
    return [found[name] for name in names]


@pytest.mark.parametrize("version", range(2, 8))
async def test_creates_a_topic(version: int) -> None:
    """The topic exists with the requested partitions, in every version."""
    async with served() as client:
        (result,) = await create(client, topic("t", 3, 1), version=version)
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        assert await partition_counts(client, "t") == [3]
        assert (result.topic_id == ZERO_UUID) is (version < 7)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert result.topic_config_error_code == 0
            shown = {c.name: (c.value, c.config_source) for c in result.configs}
            assert shown["retention.ms"] == ("604800000", 5)
            assert len(shown) == 33


async def test_defaults_are_the_brokers() -> None:
    """-1 means the broker's num.partitions and default.replication.factor."""
    async with Broker({"num.partitions": 4}) as broker, connected(broker) as client:
        (result,) = await create(client, topic())
        assert (result.num_partitions, result.replication_factor) == (4, 1)
        assert await partition_counts(client, "t") == [4]


async def test_validation_creates_nothing() -> None:
    """With validate_only the response is the same, but no topic is created."""
    async with served() as client:
        (result,) = await create(client, topic("t", 3, 1), only=True)
        assert (result.error_code, result.num_partitions) == (0, 3)
        assert result.topic_id != ZERO_UUID
        assert await partition_counts(client, "t") == [0]


async def test_a_topic_is_created_once() -> None:
    """An existing topic is not created again, whatever else the request has."""
    async with served() as client:
        await create(client, topic("t"))
        assert await codes(client, topic("t")) == {"t": ErrorCode.TOPIC_ALREADY_EXISTS}
        assert await codes(client, topic("t", 0, 9, nope="1"), only=True) == {
            "t": ErrorCode.TOPIC_ALREADY_EXISTS
        }


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=0, replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=0, nope="1"), ErrorCode.INVALID_CONFIG),
        (topic(partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (topic("", 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("line\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic(retention_ms=None), ErrorCode.INVALID_CONFIG),
        (topic(retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic(retention_ms="-5"), ErrorCode.INVALID_CONFIG),
        (topic(retention_ms=""), ErrorCode.INVALID_CONFIG),
        (topic(cleanup_policy="burn"), ErrorCode.INVALID_CONFIG),
        (topic(preallocate="yes"), ErrorCode.INVALID_CONFIG),
        (topic(remote_storage_enable="true"), ErrorCode.INVALID_CONFIG),
        (
            topic(min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic(leader_replication_throttled_replicas="0:1,x"),
            ErrorCode.INVALID_CONFIG,
        ),
        (topic(partitions=1, placed=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic(replicas=1, placed=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic(placed=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(placed=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(placed=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(placed=[(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(placed=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_refuses_what_cannot_be(wanted: CreatableTopic, error: ErrorCode) -> None:
    """Each error has its code, and the other topic of the request is created."""
    async with served() as client:
        both = await codes(client, wanted, topic("other"))
        fails_all = error == ErrorCode.POLICY_VIOLATION
        other = error if fails_all else 0
        assert both == {wanted.name: error, "other": other}
        assert await partition_counts(client, "other") == [0 if fails_all else 1]


async def test_accepts_the_limits() -> None:
    """The longest name, and the limits of Kafka's values, are accepted."""
    async with served() as client:
        wanted = topic("x" * 249, retention_bytes="-7", cleanup_policy="")
        assert await codes(client, wanted) == {"x" * 249: 0}
        assert await codes(client, topic("most", 10_000), only=True) == {"most": 0}


async def test_names_that_metrics_confuse() -> None:
    """A name that differs from another only in dots and underscores is refused."""
    async with served() as client:
        assert await codes(client, topic("a.b_c")) == {"a.b_c": 0}
        assert await codes(client, topic("a_b.c")) == {
            "a_b.c": ErrorCode.INVALID_TOPIC_EXCEPTION
        }


async def test_placed_by_hand() -> None:
    """Assignments determine the number of partitions; their order does not matter."""
    async with served() as client:
        (result,) = await create(client, topic(placed=[(1, [1]), (0, [1])]))
        assert (result.error_code, result.num_partitions) == (0, 2)
        assert await partition_counts(client, "t") == [2]


async def test_a_name_given_twice() -> None:
    """Repeated names are refused, once each; the other topics are created."""
    async with served() as client:
        results = await create(client, topic("d"), topic("d"), topic("once"))
        assert [(r.name, r.error_code) for r in results] == [
            ("once", 0),
            ("d", ErrorCode.INVALID_REQUEST),
        ]
        assert await partition_counts(client, "d", "once") == [0, 1]


async def test_no_time_no_topic() -> None:
    """With a timeout of 0 the controller does nothing."""
    async with served() as client:
        request = CreateTopicsRequest([topic()], 0)
        (result,) = (await client.call("CreateTopics", 7, request)).topics
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert await partition_counts(client, "t") == [0]


async def test_shows_the_configuration_as_it_was_sent() -> None:
    """The response has each key; values are as they were sent, with their source."""
    async with served() as client:
        wanted = topic(retention_ms=" 5 ", cleanup_policy="compact,delete")
        (result,) = await create(client, wanted)
        shown = {c.name: (c.value, c.config_source) for c in result.configs}
        assert shown["retention.ms"] == (" 5 ", 1)
        assert shown["cleanup.policy"] == ("compact,delete", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)


async def delete(
    client: WireClient, *wanted: tuple[str | None, bytes]
) -> list[tuple[str | None, bytes, int]]:
    """Deletes topics by names and ids."""
    states = [DeleteTopicState(name, topic_id) for name, topic_id in wanted]
    request = DeleteTopicsRequest(states, (), TIMEOUT_MS)
    answer = await client.call("DeleteTopics", 6, request)
    return [(r.name, r.topic_id, r.error_code) for r in answer.responses]


async def ids(client: WireClient, *names: str) -> list[bytes]:
    """Creates topics, and returns their ids."""
    return [r.topic_id for r in await create(client, *map(topic, names))]


@pytest.mark.parametrize("version", range(1, 6))
async def test_deletes_by_name(version: int) -> None:
    """A topic is deleted; the second request finds none."""
    async with served() as client:
        await create(client, topic())
        request = DeleteTopicsRequest((), ["t"], TIMEOUT_MS)
        for error in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            answer = await client.call("DeleteTopics", version, request)
            assert [(r.name, r.error_code) for r in answer.responses] == [("t", error)]
            assert await partition_counts(client, "t") == [0]


async def test_deletes_by_id() -> None:
    """An id works like a name; a topic that is created again has another id."""
    async with served() as client:
        (topic_id,) = await ids(client, "t")
        assert await delete(client, (None, topic_id)) == [("t", topic_id, 0)]
        (new_id,) = await ids(client, "t")
        assert await delete(client, (None, topic_id)) == [
            (None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        ]
        assert await delete(client, ("t", ZERO_UUID)) == [("t", new_id, 0)]


async def test_deletes_what_is_named_plainly() -> None:
    """Neither name nor id, both, and duplicates are refused; nothing is deleted."""
    async with served() as client:
        a, b, c = await ids(client, "a", "b", "c")
        bad = ErrorCode.INVALID_REQUEST
        assert await delete(client, (None, ZERO_UUID), (None, ZERO_UUID)) == [
            (None, ZERO_UUID, bad),
            (None, ZERO_UUID, bad),
        ]
        assert await delete(client, ("a", a)) == [("a", a, bad)]
        assert await delete(client, ("a", ZERO_UUID), ("a", ZERO_UUID)) == [
            ("a", ZERO_UUID, bad)
        ]
        assert await delete(client, (None, b), (None, b)) == [(None, b, bad)]
        assert await delete(client, ("c", ZERO_UUID), (None, c)) == [("c", c, bad)]
        assert await partition_counts(client, "a", "b", "c") == [1, 1, 1]


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_can_be_off(version: int, error: ErrorCode) -> None:
    """With delete.topic.enable=false topics stay; old versions get an older code."""
    async with served(delete_topic_enable=False) as client:
        await create(client, topic())
        request = DeleteTopicsRequest((), ["t"], TIMEOUT_MS)
        (result,) = (await client.call("DeleteTopics", version, request)).responses
        assert result.error_code == error
        assert await partition_counts(client, "t") == [1]


async def grow(
    client: WireClient,
    *wanted: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    only: bool = False,
) -> dict[str, int]:
    """Grows topics, and returns the error codes by name."""
    topics = [
        CreatePartitionsTopic(
            name,
            count,
            None if nodes is None else [CreatePartitionsAssignment(n) for n in nodes],
        )
        for name, count, nodes in wanted
    ]
    request = CreatePartitionsRequest(topics, TIMEOUT_MS, only)
    answer = await client.call("CreatePartitions", version, request)
    return {r.name: r.error_code for r in answer.results}


@pytest.mark.parametrize("version", range(4))
async def test_grows(version: int) -> None:
    """A topic has as many partitions as requested."""
    async with served() as client:
        await create(client, topic("t", 2))
        assert await grow(client, ("t", 5, None), version=version) == {"t": 0}
        assert await partition_counts(client, "t") == [5]


@pytest.mark.parametrize(
    ("count", "nodes", "error"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, None, ErrorCode.UNKNOWN_SERVER_ERROR),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_does_not_grow(
    count: int, nodes: list[list[int]] | None, error: ErrorCode
) -> None:
    """An invalid growth is refused, and another topic grows."""
    async with served() as client:
        await create(client, topic("t", 2), topic("other", 1))
        assert await grow(client, ("t", count, nodes), ("other", 2, [[1]])) == {
            "t": error,
            "other": 0,
        }
        assert await partition_counts(client, "t", "other") == [2, 2]


async def test_growth_of_strange_topics() -> None:
    """Unknown and repeated topics do not grow, nor does validation grow any."""
    async with served() as client:
        await create(client, topic("t", 2))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await grow(client, ("none", 2, None)) == {"none": unknown}
        twice = await grow(client, ("t", 3, None), ("t", 4, None))
        assert twice == {"t": ErrorCode.INVALID_REQUEST}
        assert await grow(client, ("t", 3, None), only=True) == {"t": 0}
        assert await partition_counts(client, "t") == [2]
