"""Produce: appends record batches, as they were sent, to partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.replicas import leader_endpoints, leader_hint, placed
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import AppendResult
from kohort.broker.log.validation import UnreadBatch
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kohort.protocol.apis.leader_hints import NodeEndpoint
from kohort.protocol.errors import ErrorCode

_ACKS = frozenset({-1, 0, 1})
_ALL = -1
_ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""
_TELLS_LEADERS = 10
"""First version in which a wrong node names the leader (KIP-951)."""

_PIECE = 1024 * 1024
"""Bytes of batches that are appended at a time: half a millisecond to check a CRC,
and to write."""
_ROW = 4096
"""Bytes that cost as much as a row beside its batch."""


def handle(request: Request) -> Work:
    """Appends; answers once the records are in the logs, as there is one replica.

    Other requests may come in between two partitions, and while the records of a
    batch are read.
    """
    message: ProduceRequest = request.message
    responses = []
    has_error = False
    bytes_and_rows = 0
    for data in message.topic_data:
        rows: list[PartitionProduceResponse] = []
        for p in data.partition_data:
            if bytes_and_rows > _PIECE:
                bytes_and_rows = 0
                yield
            row = _append(request, data, p, None)
            while isinstance(row, UnreadBatch):
                yield from row.read()
                row = _append(request, data, p, row)
            bytes_and_rows += _ROW + len(p.records or b"")
            has_error = has_error or row.error_code != 0
            rows.append(row)
        responses.append(TopicProduceResponse(data.name, data.topic_id, rows))
    if message.acks == 0:
        if has_error:
            # No answer is wanted; Kafka closes the connection instead.
            request.peer.fail("a Produce without acks failed")
        request.reply_nothing()
        return
    endpoints = _endpoints(request.node.cluster, responses) if has_error else ()
    response = ProduceResponse(responses, 0, endpoints)
    if has_error:
        # Refused records are listed one by one (KIP-467).
        yield from request.reply_in_pieces(response)
    else:
        request.reply(response)


def _refused(data: PartitionProduceData, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(data.index, error, -1)


def _not_led(
    request: Request, topic: Topic, data: PartitionProduceData, error: ErrorCode
) -> PartitionProduceResponse:
    if error != ErrorCode.NOT_LEADER_OR_FOLLOWER or request.version < _TELLS_LEADERS:
        return _refused(data, error)
    leader = leader_hint(topic, data.index)
    return PartitionProduceResponse(data.index, error, -1, -1, -1, (), None, leader)


def _endpoints(
    cluster: Cluster, topics: Sequence[TopicProduceResponse]
) -> list[NodeEndpoint]:
    leaders = [
        p.current_leader.leader_id for t in topics for p in t.partition_responses
    ]
    return leader_endpoints(cluster, leaders)


def _append(
    request: Request,
    topic: TopicProduceData,
    data: PartitionProduceData,
    read: UnreadBatch | None,
) -> PartitionProduceResponse | UnreadBatch:
    """Appends one batch; topics and leaders may have changed since it was read."""
    partition = _partition(request, topic, data)
    if not isinstance(partition, Partition):
        return partition
    # Decoded records are one view of the received bytes.
    records: Any = data.records or b""
    result = partition.append_or_read(
        records,
        now_ms=request.node.cluster.now_ms(),
        zstd=request.version >= 7,
        read=read,
    )
    return result if isinstance(result, UnreadBatch) else _row(data, result)


def _partition(
    request: Request, topic_data: TopicProduceData, data: PartitionProduceData
) -> Partition | PartitionProduceResponse:
    """The partition to append to, or the row that refuses it."""
    topics = request.node.cluster.topics
    topic: Topic | None
    if request.version >= 13:
        topic = topics.by_id.get(topic_data.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = topics.by_name.get(topic_data.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    acks = request.message.acks
    if acks not in _ACKS:
        return _refused(data, ErrorCode.INVALID_REQUIRED_ACKS)
    if topic is None:
        return _refused(data, unknown)
    if topic.is_internal and request.client.id != _ADMIN_CLIENT:
        return _refused(data, ErrorCode.INVALID_TOPIC_EXCEPTION)
    error = topic.leader_error(request.node.id, data.index)
    if error:
        return _not_led(request, topic, data, error)
    if acks == _ALL and topic.min_insync_replicas > 1:
        in_sync = placed(request.node.cluster, topic, data.index)[4]
        if len(in_sync) < topic.min_insync_replicas:
            return _refused(data, ErrorCode.NOT_ENOUGH_REPLICAS)
    return topic.partitions[data.index]


def _row(data: PartitionProduceData, result: AppendResult) -> PartitionProduceResponse:
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
