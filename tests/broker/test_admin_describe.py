"""Requests of admin clients about a broker: the same responses as Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import cluster
from tests.broker.test_restart import broker_on
from tests.wire.client import WireClient, connected, served
from tests.wire.requests import create_topics, produce

from kohort.broker.server import Broker
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.apis.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kohort.protocol.apis.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kohort.protocol.apis.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from kohort.protocol.apis.k57_update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from kohort.protocol.apis.k61_describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from kohort.protocol.apis.k74_list_config_resources import ListConfigResourcesRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

# -- log directories


async def log_dir(
    client: WireClient,
    *wanted: tuple[str, Sequence[int]],
    everything: bool = False,
    version: int = 5,
) -> tuple[Any, list[tuple[str, int, int]]]:
    """The only log directory, and (topic, index, size) of its partitions."""
    topics = [DescribableLogDirTopic(*row) for row in wanted]
    request = DescribeLogDirsRequest(None if everything else topics)
    response = await client.call("DescribeLogDirs", version, request)
    assert response.error_code == 0
    (found,) = response.results
    rows = [
        (topic.name, p.partition_index, p.partition_size)
        for topic in found.topics
        for p in topic.partitions
        if (p.offset_lag, p.is_future_key) == (0, False)
    ]
    return found, rows


@pytest.mark.parametrize("version", range(1, 6))
async def test_sizes_of_partitions(version: int) -> None:
    """All partitions or some of them; unknown ones are left out."""
    batch = build_batch([Record(value=b"x")])
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t", partitions=2))
        await client.call("CreateTopics", 7, create_topics("u"))
        await client.call("Produce", 9, produce((0, batch)))
        size = len(batch)
        _, rows = await log_dir(client, everything=True, version=version)
        assert rows == [("t", 0, size), ("t", 1, 0), ("u", 0, 0)]
        wanted = [("t", [1, 7, 0, 0]), ("none", [0]), ("u", []), ("t", [1])]
        _, rows = await log_dir(client, *wanted, version=version)
        assert rows == [("t", 0, size), ("t", 1, 0)]
        found, rows = await log_dir(client, version=version)
        assert (found.error_code, found.is_cordoned, rows) == (0, False, [])


async def test_each_node_has_the_partitions_that_it_replicates() -> None:
    """A node describes only the partitions that it replicates."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 0, replicas=[[1, 2], [3]])
        for node_id, indexes in ((1, [0]), (2, [0]), (3, [1])):
            async with connected(broker, node_id) as client:
                _, rows = await log_dir(client, everything=True)
                assert [index for _, index, _ in rows] == indexes


async def test_the_volume_of_a_data_directory(tmp_path: Path) -> None:
    """Sizes are known on a disk, and unknown in memory."""
    async with broker_on(tmp_path) as broker, connected(broker) as client:
        found, _ = await log_dir(client)
        assert found.log_dir == str(tmp_path)
        assert found.total_bytes >= found.usable_bytes > 0
    async with served() as client:
        found, _ = await log_dir(client)
        assert found.log_dir == "/tmp/kafka-logs"
        assert (found.total_bytes, found.usable_bytes) == (-1, -1)


async def moved(
    client: WireClient,
    *wanted: tuple[str, str, Sequence[int]],
    version: int = 2,
) -> dict[tuple[str, int], int]:
    """Moves replicas to (path, topic, indexes); the error of each partition."""
    request = AlterReplicaLogDirsRequest(
        [
            AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, indexes)])
            for path, topic, indexes in wanted
        ]
    )
    response = await client.call("AlterReplicaLogDirs", version, request)
    assert all(row.partitions for row in response.results)
    return {
        (row.topic_name, each.partition_index): each.error_code
        for row in response.results
        for each in row.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_replicas_are_in_the_only_log_directory(version: int) -> None:
    """To move them there succeeds; of several directories the last one counts."""
    nowhere, missing = ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t", partitions=2))
        path = (await log_dir(client))[0].log_dir
        wanted = [(path, "t", [0, 1, 2, -1, 0]), (path, "u", [0]), (path, "none", [])]
        assert await moved(client, *wanted, version=version) == {
            ("t", 0): 0,
            ("t", 1): 0,
            ("t", 2): missing,
            ("t", -1): missing,
            ("u", 0): missing,
        }
        for other in ("/nope", "", path + "/"):
            found = await moved(client, (other, "t", [0]), (other, "u", [0]))
            assert found == {("t", 0): nowhere, ("u", 0): nowhere}
        both = [(path, "t", [0]), ("/nope", "t", [0])]
        assert await moved(client, *both) == {("t", 0): nowhere}
        assert await moved(client, *reversed(both)) == {("t", 0): 0}
        assert await moved(client) == {}


async def test_a_folder_name_that_would_be_too_long() -> None:
    """A moved replica's folder has 41 characters after topic and partition."""
    topic = "t" * 213
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics(topic, partitions=11))
        path = (await log_dir(client))[0].log_dir
        long = ErrorCode.INVALID_TOPIC_EXCEPTION
        found = await moved(client, (path, topic, [9, 10]))
        assert found == {(topic, 9): 0, (topic, 10): long}
        found = await moved(client, ("/nope", topic, [10]))
        assert found == {(topic, 10): long}


async def test_a_node_moves_only_the_partitions_that_it_replicates() -> None:
    """Others exist, but not on this node."""
    async with cluster() as broker, connected(broker, 2) as client:
        broker.cluster.create_topic("t", 0, replicas=[[1, 2], [3]])
        found = await moved(client, (broker.cluster.log_dir, "t", [0, 1]))
        assert found == {("t", 0): 0, ("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}


# -- producers


async def producers(client: WireClient, *wanted: tuple[str, int]) -> list[Any]:
    """(error, producers) of partitions."""
    request = DescribeProducersRequest([TopicRequest(t, [i]) for t, i in wanted])
    response = await client.call("DescribeProducers", 0, request)
    return [
        (row.error_code, row.active_producers)
        for topic in response.topics
        for row in topic.partitions
    ]


async def test_producers_of_a_partition() -> None:
    """The last sequence and timestamp of each idempotent producer."""
    async with served() as client:
        await client.call("CreateTopics", 7, create_topics("t"))
        for sequence in (0, 1):
            records = [Record(value=b"x", timestamp_ms=1000 + sequence)]
            batch = build_batch(
                records, producer_id=7, producer_epoch=2, base_sequence=sequence
            )
            await client.call("Produce", 9, produce((0, batch)))
        await client.call("Produce", 9, produce((0, build_batch([Record(value=b"y")]))))
        ((error, (state,)),) = await producers(client, ("t", 0))
        assert error == 0
        assert (state.producer_id, state.producer_epoch) == (7, 2)
        assert (state.last_sequence, state.last_timestamp) == (1, 1001)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)


async def test_partitions_whose_producers_are_not_known() -> None:
    """Unknown partitions, illegal names, and partitions of other nodes have errors."""
    async with cluster() as broker:
        broker.cluster.create_topic("t", 0, replicas=[[1, 2], [3]])
        wanted = [("t", 0), ("t", 1), ("t", 2), ("t", -1), ("none", 0), ("a/b", 0)]
        async with connected(broker, 2) as client:
            rows = await producers(client, *wanted)
        assert [error for error, _ in rows] == [
            0,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]


# -- the quorum


def quorum_of(*wanted: tuple[str, Sequence[int]]) -> DescribeQuorumRequest:
    """DescribeQuorum for partitions by topic."""
    return DescribeQuorumRequest(
        [
            DescribeQuorumRequestTopic(
                name, [DescribeQuorumRequestPartition(index) for index in indexes]
            )
            for name, indexes in wanted
        ]
    )


@pytest.mark.parametrize("version", range(3))
async def test_the_controller_is_the_quorum(version: int) -> None:
    """The controller is the only voter; the other running nodes are observers."""
    async with cluster() as broker, connected(broker, 2) as client:
        await broker.stop_node(3)
        request = quorum_of(("__cluster_metadata", [0]))
        response = await client.call("DescribeQuorum", version, request)
        ((row,),) = (topic.partitions for topic in response.topics)
        assert (response.error_code, row.error_code, row.leader_id) == (0, 0, 1)
        assert [state.replica_id for state in row.current_voters] == [1]
        assert [state.replica_id for state in row.observers] == [2]
        assert row.high_watermark == row.current_voters[0].log_end_offset
        now_ms = row.current_voters[0].last_caught_up_timestamp
        assert (now_ms > 0) == (version >= 1)
        nodes = [(node.node_id, node.listeners[0].port) for node in response.nodes]
        assert nodes == ([(1, broker.port)] if version >= 2 else [])


async def test_the_log_of_the_metadata_grows() -> None:
    """Each change of the cluster adds one record."""
    async with served() as client:
        ends = []
        for name in ("a", "b"):
            request = quorum_of(("__cluster_metadata", [0]))
            response = await client.call("DescribeQuorum", 2, request)
            ends.append(response.topics[0].partitions[0].high_watermark)
            await client.call("CreateTopics", 7, create_topics(name))
        assert ends[1] == ends[0] + 1


@pytest.mark.parametrize(
    "wanted",
    [
        ("t", [0]),
        ("__cluster_metadata", [1]),
        ("__cluster_metadata", [0, 1]),
        ("__cluster_metadata", []),
    ],
)
async def test_no_other_partition_has_a_quorum(wanted: tuple[str, list[int]]) -> None:
    """A request for any other partition is refused as a whole."""
    async with served() as client:
        response = await client.call("DescribeQuorum", 2, quorum_of(wanted))
        (topic,) = response.topics
        assert response.nodes == []
        assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
            (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in wanted[1]
        ]


# -- resources that have configurations


@pytest.mark.parametrize(
    ("types", "rows"),
    [
        ([], [("1", 8), ("2", 8), ("1", 4), ("2", 4), ("t", 2)]),
        ([2], [("t", 2)]),
        ([2, 4, 2], [("1", 4), ("2", 4), ("t", 2)]),
        ([16], []),
        ([32], []),
    ],
)
async def test_resources_by_type(types: list[int], rows: list[tuple[str, int]]) -> None:
    """Loggers, brokers and topics are listed in this order; only running nodes."""
    async with cluster() as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await broker.stop_node(3)
        request = ListConfigResourcesRequest(types)
        response = await client.call("ListConfigResources", 1, request)
        assert response.error_code == 0
        found = response.config_resources
        assert [(each.resource_name, each.resource_type) for each in found] == rows


@pytest.mark.parametrize("types", [[0], [1], [99], [-1], [4, 99]])
async def test_unknown_types_of_resources(types: list[int]) -> None:
    """One unknown type refuses the whole request."""
    async with served() as client:
        request = ListConfigResourcesRequest(types)
        response = await client.call("ListConfigResources", 1, request)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert response.config_resources == []


async def test_version_0_lists_client_metrics() -> None:
    """ListClientMetricsResources, the API's former name, has no other type."""
    async with served() as client:
        request = ListConfigResourcesRequest()
        response = await client.call("ListConfigResources", 0, request)
        assert (response.error_code, response.config_resources) == (0, [])


# -- features

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
LEVELS = {
    "group.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "metadata.version": 30,
}
"""The finalized levels of a fresh Apache Kafka 4.3.0."""


async def api_versions(client: WireClient, version: int = 4) -> Any:
    """The response of ApiVersions."""
    request = ApiVersionsRequest("tests", "1")
    return await client.call("ApiVersions", version, request)


async def levels(client: WireClient) -> dict[str, int]:
    """The finalized levels of features."""
    found = (await api_versions(client)).finalized_features
    assert all(f.min_version_level == f.max_version_level for f in found)
    return {feature.name: feature.max_version_level for feature in found}


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (2, []),
        (3, [("metadata.version", 7, 30)]),
        (
            4,
            [
                ("group.version", 0, 1),
                ("kraft.version", 0, 1),
                ("metadata.version", 7, 30),
                ("share.version", 0, 1),
                ("streams.version", 0, 1),
                ("transaction.version", 0, 2),
                ("eligible.leader.replicas.version", 0, 1),
            ],
        ),
    ],
)
async def test_supported_features(
    version: int, supported: list[tuple[str, int, int]]
) -> None:
    """Version 3 leaves out features with lowest level 0: clients would fail."""
    async with served() as client:
        found = (await api_versions(client, version)).supported_features
        rows = [(each.name, each.min_version, each.max_version) for each in found]
        assert rows == supported
        assert await levels(client) == LEVELS


async def update(
    client: WireClient,
    *changes: tuple[str, int, int],
    validate_only: bool = False,
    version: int = 2,
) -> Any:
    """The response to UpdateFeatures; changes are (feature, level, type)."""
    rows = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in changes]
    request = UpdateFeaturesRequest(1000, rows, validate_only)
    return await client.call("UpdateFeatures", version, request)


async def test_levels_go_down_and_up() -> None:
    """A feature at level 0 is not finalized; each change begins an epoch."""
    async with served() as client:
        before = (await api_versions(client)).finalized_features_epoch
        answer = await update(client, ("group.version", 0, SAFE_DOWNGRADE))
        assert (answer.error_code, answer.error_message) == (0, None)
        assert "group.version" not in await levels(client)
        assert (await api_versions(client)).finalized_features_epoch == before + 1
        await update(client, ("group.version", 1, UPGRADE))
        assert await levels(client) == LEVELS


@pytest.mark.parametrize("version", range(3))
async def test_results_of_single_features(version: int) -> None:
    """Versions 0 and 1 have a result per feature, unless one is refused."""
    async with served() as client:
        changes = [("group.version", 1, UPGRADE), ("share.version", 1, UPGRADE)]
        answer = await update(client, *changes, version=version)
        rows = [(r.feature, r.error_code, r.error_message) for r in answer.results]
        names = [name for name, _, _ in changes] if version < 2 else []
        assert rows == [(name, 0, "NONE") for name in names]
        answer = await update(client, ("none", 1, UPGRADE), version=version)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert list(answer.results) == []


async def test_version_0_only_raises_levels() -> None:
    """As in Kafka, version 0's allow_downgrade is ignored."""
    async with served() as client:
        row = FeatureUpdateKey("group.version", 0, allow_downgrade=True)
        request = UpdateFeaturesRequest(1000, [row])
        answer = await client.call("UpdateFeatures", 0, request)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    "change",
    [
        ("none", 0, UPGRADE),
        ("none", 1, UPGRADE),
        ("group.version", 2, UPGRADE),
        ("group.version", -1, UNSAFE_DOWNGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 1, 0),
        ("group.version", 1, 9),
        ("kraft.version", 1, SAFE_DOWNGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 6, SAFE_DOWNGRADE),
        ("metadata.version", 29, UPGRADE),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 29, UNSAFE_DOWNGRADE),
    ],
)
async def test_one_invalid_level_refuses_all(change: tuple[str, int, int]) -> None:
    """One invalid level changes nothing."""
    async with served() as client:
        answer = await update(client, ("share.version", 0, SAFE_DOWNGRADE), change)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert await levels(client) == LEVELS


async def test_kraft_version_cannot_be_lowered() -> None:
    """kraft.version cannot be lowered."""
    async with served() as client:
        await update(client, ("kraft.version", 1, UPGRADE))
        answer = await update(client, ("kraft.version", 0, SAFE_DOWNGRADE))
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (await levels(client))["kraft.version"] == 1


async def test_a_validated_level_is_not_changed() -> None:
    """Validation gives the response of a change."""
    async with served() as client:
        change = ("group.version", 0, SAFE_DOWNGRADE)
        answer = await update(client, change, validate_only=True)
        assert answer.error_code == 0
        assert await levels(client) == LEVELS


async def test_levels_survive_a_restart(tmp_path: Path) -> None:
    """Levels and their epoch survive a restart, which rewrites the saved state."""
    epochs = []
    async with broker_on(tmp_path) as broker, connected(broker) as client:
        await update(client, ("group.version", 0, SAFE_DOWNGRADE))
        epochs.append((await api_versions(client)).finalized_features_epoch)
    for _ in range(2):
        async with broker_on(tmp_path) as broker, connected(broker) as client:
            assert "group.version" not in await levels(client)
            epochs.append((await api_versions(client)).finalized_features_epoch)
    assert epochs == sorted(epochs)
    assert epochs[0] > 0


async def test_features_are_of_the_cluster() -> None:
    """A change at one node applies to all nodes."""
    async with Broker(nodes=2) as broker:
        async with connected(broker, 1) as client:
            await update(client, ("group.version", 0, SAFE_DOWNGRADE))
        async with connected(broker, 2) as client:
            assert "group.version" not in await levels(client)
