"""Produce: appends record batches, as they were sent, to partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.broker.cluster import Cluster
from kohort.broker.handlers.placement import leaders_told, placed
from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.errors import ErrorCode

_ACKS = frozenset({-1, 0, 1})
_ALL = -1
_ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""
_TELLS_LEADERS = 10
"""The version from which on a wrong node says who is the right one (KIP-951)."""


def handle(request: Request) -> None:
    """Appends; answers once the records are in the logs, as there is one replica."""
    message: ProduceRequest = request.message
    cluster = request.node.cluster
    now_ms = cluster.now_ms()
    responses = []
    has_error = False
    for data in message.topic_data:
        topic: Topic | None
        if request.version >= 13:
            topic = cluster.topics.by_id.get(data.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = cluster.topics.by_name.get(data.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows = []
        for p in data.partition_data:
            if message.acks not in _ACKS:
                row = _refused(p, ErrorCode.INVALID_REQUIRED_ACKS)
            elif topic is None:
                row = _refused(p, unknown)
            elif topic.is_internal and request.client_id != _ADMIN_CLIENT:
                row = _refused(p, ErrorCode.INVALID_TOPIC_EXCEPTION)
            else:
                row = _append(request, topic, p, now_ms)
            has_error = has_error or row.error_code != 0
            rows.append(row)
        responses.append(TopicProduceResponse(data.name, data.topic_id, rows))
    if message.acks == 0:
        if has_error:
            # No answer is wanted; Kafka closes the connection instead.
            request.peer.fail("a Produce without acks failed")
        request.reply_nothing()
        return
    request.reply(
        ProduceResponse(responses, 0, _endpoints(cluster, responses))
        if has_error
        else ProduceResponse(responses)
    )


def _refused(data: PartitionProduceData, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(data.index, error, -1)


def _not_led(
    request: Request, topic: Topic, data: PartitionProduceData, error: ErrorCode
) -> PartitionProduceResponse:
    if error != ErrorCode.NOT_LEADER_OR_FOLLOWER or request.version < _TELLS_LEADERS:
        return _refused(data, error)
    epoch = topic.partitions[data.index].leader_epoch
    leader = LeaderIdAndEpoch(topic.leaders[data.index], epoch)
    return PartitionProduceResponse(data.index, error, -1, -1, -1, (), None, leader)


def _endpoints(
    cluster: Cluster, topics: Sequence[TopicProduceResponse]
) -> list[NodeEndpoint]:
    leaders = [
        p.current_leader.leader_id for t in topics for p in t.partition_responses
    ]
    return [
        NodeEndpoint(node.id, node.host, node.port)
        for node in leaders_told(cluster, leaders)
    ]


def _append(
    request: Request, topic: Topic, data: PartitionProduceData, now_ms: int
) -> PartitionProduceResponse:
    partition = topic.led_by(request.node.id, data.index)
    if isinstance(partition, ErrorCode):
        return _not_led(request, topic, data, partition)
    if request.message.acks == _ALL and topic.min_insync_replicas > 1:
        in_sync = placed(request.node.cluster, topic, data.index)[4]
        if len(in_sync) < topic.min_insync_replicas:
            return _refused(data, ErrorCode.NOT_ENOUGH_REPLICAS)
    # Decoded records are one view of the received bytes.
    records: Any = data.records or b""
    result = partition.append(records, now_ms=now_ms, zstd=request.version >= 7)
    if not result.error_code:
        return PartitionProduceResponse(
            data.index,
            0,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
    return PartitionProduceResponse(
        data.index,
        result.error_code,
        -1,
        -1,
        result.log_start_offset,
        [BatchIndexAndErrorMessage(*e) for e in result.record_errors],
        result.error_message,
    )
