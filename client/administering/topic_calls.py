"""Calls of an admin client about topics and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kohort.client.administering.fan_out import (
    UNKNOWN_TOPIC_ATTEMPTS,
    Answers,
    Ask,
    Connected,
    NodeId,
    error_in,
    fan_out,
    for_partitions,
    for_topics,
)
from kohort.client.administering.values import (
    CreatedTopic,
    NewTopic,
    Results,
)
from kohort.client.errors import (
    ConfigError,
    KohortError,
    error_of,
)
from kohort.client.network.cluster import Cluster
from kohort.client.network.log_offsets import list_offsets as list_at
from kohort.client.network.metadata import NO_NODE, NOTHING, Metadata, TopicInfo, read
from kohort.client.offsets import OffsetAndTimestamp, TopicPartition, by_topic
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.errors import ErrorCode

V = TypeVar("V")

_ISOLATION = ("read_uncommitted", "read_committed")


# -- topics


async def list_topics(
    admin: Connected, timeout_ms: int | None = None
) -> dict[str, TopicInfo]:
    """All topics by name, internal ones too.

    Raises:
        KohortError: no broker responds.
    """
    cluster = admin.cluster
    deadline = cluster.deadline(timeout_ms)
    metadata, _ = await cluster.retrying(deadline, lambda: _metadata(cluster, None))
    return dict(metadata.topics)


async def describe_topics(
    admin: Connected, topics: Iterable[str], timeout_ms: int | None = None
) -> Results[str, TopicInfo]:
    """Topics, their partitions and leaders."""
    cluster = admin.cluster

    async def ask(_: NodeId, names: Sequence[str]) -> Answers[str, TopicInfo]:
        metadata, broker = await _metadata(cluster, names)
        return {name: _topic_info(metadata, name, broker) for name in names}

    deadline, where = cluster.deadline(timeout_ms), for_topics("Metadata")
    return await fan_out(cluster, deadline, topics, _to_any_node, ask, where)


async def create_topics(
    admin: Connected,
    topics: Iterable[NewTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, CreatedTopic]:
    """Creates topics; other brokers may learn of them a moment later.

    If the connection fails meanwhile and the call is retried, a topic that was
    created by the first attempt is a `TopicExistsError`.
    """
    cluster, api = admin.cluster, "CreateTopics"
    limit_ms = cluster.config.request_timeout_ms
    wanted = {topic.name: topic for topic in topics}

    async def ask(node_id: NodeId, names: Sequence[str]) -> Answers[str, CreatedTopic]:
        rows = [_creatable(wanted[name]) for name in names]
        request = CreateTopicsRequest(rows, limit_ms, validate_only)
        response = await cluster.call(node_id, api, request)
        return {
            row.name: error_in(row)
            or CreatedTopic(
                row.name, row.topic_id, row.num_partitions, row.replication_factor
            )
            for row in response.topics
        }

    return await _ask_controller(cluster, api, timeout_ms, wanted, ask)


async def delete_topics(
    admin: Connected, topics: Iterable[str], timeout_ms: int | None = None
) -> Results[str, None]:
    """Deletes topics."""
    cluster, api = admin.cluster, "DeleteTopics"
    limit_ms = cluster.config.request_timeout_ms

    async def ask(node_id: NodeId, names: Sequence[str]) -> Answers[str, None]:
        states = [DeleteTopicState(name) for name in names]
        request = DeleteTopicsRequest(states, names, limit_ms)
        response = await cluster.call(node_id, api, request)
        return {row.name: error_in(row) for row in response.responses}

    return await _ask_controller(cluster, api, timeout_ms, topics, ask)


async def create_partitions(
    admin: Connected,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Adds partitions to topics.

    Args:
        admin: the client.
        counts: the new number of partitions, by topic.
        assignments: the new partitions' replicas, by topic.
        validate_only: whether the broker only checks the request.
        timeout_ms: see `Admin`.
    """
    cluster, api = admin.cluster, "CreatePartitions"
    limit_ms = cluster.config.request_timeout_ms

    def row_of(name: str) -> CreatePartitionsTopic:
        replicas = (assignments or {}).get(name)
        if replicas is None:
            return CreatePartitionsTopic(name, counts[name], None)
        rows = [CreatePartitionsAssignment(ids) for ids in replicas]
        return CreatePartitionsTopic(name, counts[name], rows)

    async def ask(node_id: NodeId, names: Sequence[str]) -> Answers[str, None]:
        rows = [row_of(name) for name in names]
        request = CreatePartitionsRequest(rows, limit_ms, validate_only)
        response = await cluster.call(node_id, api, request)
        return {row.name: error_in(row) for row in response.results}

    return await _ask_controller(cluster, api, timeout_ms, counts, ask)


# -- records


async def delete_records(
    admin: Connected,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int | None = None,
) -> Results[TopicPartition, int]:
    """Deletes the records before some offsets; -1 for all records.

    Returns:
        The first remaining offset, by partition.
    """
    cluster, api = admin.cluster, "DeleteRecords"
    limit_ms = cluster.config.request_timeout_ms

    async def ask(
        node_id: NodeId, some: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, int]:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for topic, number in some:
            row = DeleteRecordsPartition(number, offsets[TopicPartition(topic, number)])
            topics.setdefault(topic, []).append(row)
        rows = [DeleteRecordsTopic(*each) for each in topics.items()]
        request = DeleteRecordsRequest(rows, limit_ms)
        response = await cluster.call(node_id, api, request)
        return {
            TopicPartition(topic.name, row.partition_index): error_in(row)
            or row.low_watermark
            for topic in response.topics
            for row in topic.partitions
        }

    return await ask_leaders(cluster, api, timeout_ms, offsets, ask)


async def list_offsets(
    admin: Connected,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: str = "read_uncommitted",
    timeout_ms: int | None = None,
) -> Results[TopicPartition, OffsetAndTimestamp]:
    """The first offsets at or after some times.

    Args:
        admin: the client.
        timestamps: milliseconds, or `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`.
        isolation_level: as for consumers.
        timeout_ms: see `Admin`.
    """
    if isolation_level not in _ISOLATION:
        known = ", ".join(_ISOLATION)
        raise ConfigError(f"isolation_level: {isolation_level!r} is not one of {known}")
    cluster = admin.cluster
    # A broker that does not know -3 would use it as a timestamp.
    versions = 7 if min(timestamps.values(), default=0) < -2 else 1, 11

    async def ask(
        node_id: NodeId, some: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, OffsetAndTimestamp]:
        assert node_id is not None
        times = {place: timestamps[place] for place in some}
        return await list_at(cluster, node_id, times, isolation_level, versions)

    return await ask_leaders(cluster, "ListOffsets", timeout_ms, timestamps, ask)


# -- routes


async def _ask_controller(
    cluster: Cluster,
    api: str,
    timeout_ms: int | None,
    topics: Iterable[str],
    ask: Ask[str, V],
) -> Results[str, V]:
    deadline, where = cluster.deadline(timeout_ms), for_topics(api)
    return await fan_out(cluster, deadline, topics, _to_controller, ask, where)


async def ask_leaders(
    cluster: Cluster,
    api: str,
    timeout_ms: int | None,
    partitions: Iterable[TopicPartition],
    ask: Ask[TopicPartition, V],
) -> Results[TopicPartition, V]:
    """Sends requests about partitions to their leaders."""
    return await fan_out(
        cluster,
        cluster.deadline(timeout_ms),
        partitions,
        _to_leaders,
        ask,
        for_partitions(api),
        patience=UNKNOWN_TOPIC_ATTEMPTS,
    )


async def _metadata(
    cluster: Cluster, topics: Sequence[str] | None
) -> tuple[Metadata, str]:
    """Metadata of some topics, or all, and the name of the broker that sent it."""
    rows = None
    if topics is not None:
        rows = [MetadataRequestTopic(name=topic) for topic in topics]
    connection = await cluster.connection(None)
    response = await connection.call("Metadata", MetadataRequest(rows, False))
    return read(response, cluster.clock(), NOTHING), connection.name


async def _to_controller(
    cluster: Cluster, items: Sequence[str]
) -> Answers[str, NodeId]:
    if cluster.metadata.controller_id == NO_NODE:
        await cluster.refresh()
    controller_id = cluster.metadata.controller_id
    return dict.fromkeys(items, None if controller_id == NO_NODE else controller_id)


async def _to_leaders(
    cluster: Cluster, items: Sequence[TopicPartition]
) -> Answers[TopicPartition, NodeId]:
    metadata, broker = await _metadata(cluster, list(by_topic(items)))
    return {
        TopicPartition(topic, partition): _leader(metadata, topic, partition, broker)
        for topic, partition in items
    }


async def _to_any_node(_: Cluster, items: Sequence[str]) -> Answers[str, NodeId]:
    return dict.fromkeys(items)


# -- answers


def _leader(
    metadata: Metadata, topic: str, partition: int, broker: str
) -> int | KohortError:
    info = _topic_info(metadata, topic, broker)
    leader_id = metadata.leader(topic, partition)
    if isinstance(info, KohortError):
        error = info
    elif not 0 <= partition < len(info.partitions):
        what = f"the topic has {len(info.partitions)} partitions"
        error = error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
    elif leader_id == NO_NODE:
        error = error_of(ErrorCode.LEADER_NOT_AVAILABLE)
    else:
        return leader_id
    error.fill(api="Metadata", broker=broker, topic=topic, partition=partition)
    return error


def _topic_info(metadata: Metadata, name: str, broker: str) -> TopicInfo | KohortError:
    topic = metadata.topics.get(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
    if topic is None or code:
        return error_of(code, api="Metadata", broker=broker, topic=name)
    return topic


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition, replicas)
        for partition, replicas in topic.assignments.items()
    ]
    configs = [CreatableTopicConfig(key, value) for key, value in topic.configs.items()]
    # With assignments, both counts must be -1.
    counts = (
        (-1, -1) if assignments else (topic.num_partitions, topic.replication_factor)
    )
    return CreatableTopic(topic.name, *counts, assignments, configs)
