"""Requests with plain values, for all clients of the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.protocol.apis.k19_create_topics import (
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
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.fields import ZERO_UUID

TOPIC, BROKER = 2, 4
"""Kinds of resources that have configurations."""
EARLIEST, LATEST = -2, -1
TIMEOUT_MS = 60_000
RANGE = (("range", b""),)

# -- topics


def metadata(*names: str, creates: bool = True) -> MetadataRequest:
    """Metadata of topics; `MetadataRequest(None)` requests all."""
    return MetadataRequest([MetadataRequestTopic(name=n) for n in names], creates)


def create_topics(
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> CreateTopicsRequest:
    """CreateTopics; keys of their configuration may have ``_`` in place of dots."""
    settings = (config or {}).items()
    rows = [CreatableTopicConfig(key.replace("_", "."), v) for key, v in settings]
    topics = [CreatableTopic(n, partitions, replicas, configs=rows) for n in names]
    return CreateTopicsRequest(topics, TIMEOUT_MS)


def delete_topics(*names: str) -> DeleteTopicsRequest:
    """DeleteTopics since v6."""
    states = [DeleteTopicState(name) for name in names]
    return DeleteTopicsRequest(states, timeout_ms=TIMEOUT_MS)


def create_partitions(name: str, count: int) -> CreatePartitionsRequest:
    """CreatePartitions: a topic grows to a number of partitions."""
    wanted = [CreatePartitionsTopic(name, count, None)]
    return CreatePartitionsRequest(wanted, TIMEOUT_MS)


def describe_configs(
    kind: int, *names: str, keys: list[str] | None = None
) -> DescribeConfigsRequest:
    """DescribeConfigs of all keys, or of these."""
    return DescribeConfigsRequest(
        [DescribeConfigsResource(kind, name, keys) for name in names]
    )


def alter_configs(
    kind: int, name: str, **values: str | None
) -> IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs that sets keys, with ``_`` in place of dots."""
    rows = [AlterableConfig(k.replace("_", "."), 0, v) for k, v in values.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, rows)])


# -- records


def produce(
    *rows: tuple[int, bytes],
    topic: str = "t",
    topic_id: bytes = ZERO_UUID,
    acks: int = -1,
) -> ProduceRequest:
    """Produce of (partition, batch) to one topic."""
    data = [PartitionProduceData(*row) for row in rows]
    return ProduceRequest(None, acks, 1000, [TopicProduceData(topic, topic_id, data)])


def fetch(
    *offsets: int,
    topic: str = "t",
    topic_id: bytes = ZERO_UUID,
    wait_ms: int = 0,
    **fields: Any,
) -> FetchRequest:
    """Fetch of partitions 0, 1, ... of one topic from these offsets."""
    rows = [
        FetchPartition(i, fetch_offset=offset, partition_max_bytes=2**30)
        for i, offset in enumerate(offsets)
    ]
    topics = [FetchTopic(topic, topic_id, rows)] if rows else []
    fields = {"min_bytes": 1, "topics": topics, **fields}
    return FetchRequest(max_wait_ms=wait_ms, **fields)


def list_offsets(
    topic: str, *partitions: int, timestamp: int = LATEST, isolation: int = 0
) -> ListOffsetsRequest:
    """ListOffsets of a point in time."""
    rows = [ListOffsetsPartition(index, -1, timestamp) for index in partitions]
    return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, rows)])


def delete_records(*rows: tuple[str, int, int]) -> DeleteRecordsRequest:
    """DeleteRecords of (topic, partition, offset), with a topic for each row."""
    wanted = [
        DeleteRecordsTopic(topic, [DeleteRecordsPartition(index, offset)])
        for topic, index, offset in rows
    ]
    return DeleteRecordsRequest(wanted, TIMEOUT_MS)


def epoch_ends(topic: str, *partitions: int) -> OffsetForLeaderEpochRequest:
    """OffsetForLeaderEpoch of epoch 0."""
    rows = [OffsetForLeaderPartition(index, -1, 0) for index in partitions]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, rows)])


# -- groups


def join_group(
    group: str = "g",
    member_id: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 10_000,
    protocols: Iterable[tuple[str, bytes]] = RANGE,
) -> JoinGroupRequest:
    """JoinGroup of a consumer."""
    offered = [JoinGroupRequestProtocol(*protocol) for protocol in protocols]
    return JoinGroupRequest(
        group, session_ms, rebalance_ms, member_id, instance, "consumer", offered
    )


def sync_group(
    member_id: str,
    generation: int = 1,
    group: str = "g",
    assignments: Mapping[str, bytes] | None = None,
) -> SyncGroupRequest:
    """SyncGroup of a consumer; the leader's has assignments by member id."""
    rows = [SyncGroupRequestAssignment(*row) for row in (assignments or {}).items()]
    return SyncGroupRequest(
        group, generation, member_id, None, "consumer", "range", rows
    )


def leave_group(group: str, *member_ids: str) -> LeaveGroupRequest:
    """LeaveGroup since v3."""
    return LeaveGroupRequest(group, "", [MemberIdentity(each) for each in member_ids])


def commit_offsets(
    topic: str,
    *rows: tuple[Any, ...],
    group: str = "g",
    generation: int = -1,
    member_id: str = "",
) -> OffsetCommitRequest:
    """OffsetCommit of (partition, offset, leader epoch, metadata) of a topic.

    Without a generation it is a simple consumer's.
    """
    partitions = [OffsetCommitRequestPartition(*row) for row in rows]
    topics = [OffsetCommitRequestTopic(topic, partitions=partitions)]
    return OffsetCommitRequest(group, generation, member_id, topics=topics)


def fetch_offsets(*groups: str) -> OffsetFetchRequest:
    """OffsetFetch since v8 of all offsets of groups."""
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=None) for group in groups]
    )
