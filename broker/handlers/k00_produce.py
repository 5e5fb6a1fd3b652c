"""Produce: appends record batches, as they were sent, to partitions."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.errors import ErrorCode

_ACKS = frozenset({-1, 0, 1})


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
            elif not 0 <= p.index < len(topic.partitions):
                row = _refused(p, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                row = _append(topic, p, now_ms, zstd=request.version >= 7)
            has_error = has_error or row.error_code != 0
            rows.append(row)
        responses.append(TopicProduceResponse(data.name, data.topic_id, rows))
    if message.acks == 0:
        if has_error:
            # No answer is wanted; Kafka closes the connection instead.
            request.peer.fail("a Produce without acks failed")
        request.reply_nothing()
        return
    request.reply(ProduceResponse(responses))


def _refused(data: PartitionProduceData, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(data.index, error, -1)


def _append(
    topic: Topic, data: PartitionProduceData, now_ms: int, *, zstd: bool
) -> PartitionProduceResponse:
    partition = topic.partitions[data.index]
    # Decoded records are one view of the received bytes.
    result = partition.append(data.records or b"", now_ms=now_ms, zstd=zstd)  # type: ignore[arg-type]
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
