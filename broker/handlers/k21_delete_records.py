"""DeleteRecords: logs start later (KIP-107)."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.protocol.errors import ErrorCode

_NO_OFFSET = -1


def handle(request: Request) -> None:
    """Moves the start of each partition's log; a partition is answered for once."""
    message: DeleteRecordsRequest = request.message
    by_name = request.node.cluster.topics.by_name
    wanted: dict[str, dict[int, int]] = {}
    for topic in message.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets |= {each.partition_index: each.offset for each in topic.partitions}
    request.reply(
        DeleteRecordsResponse(
            0,
            [
                DeleteRecordsTopicResult(
                    name,
                    [
                        _deleted(request.node.id, by_name.get(name), *each)
                        for each in offsets.items()
                    ],
                )
                for name, offsets in wanted.items()
            ],
        )
    )


def _deleted(
    node_id: int, topic: Topic | None, index: int, before: int
) -> DeleteRecordsPartitionResult:
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, error)
    partition = topic.led_by(node_id, index)
    if isinstance(partition, ErrorCode):
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, partition)
    if topic.is_internal:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, error)
    error_code, low_watermark = partition.delete_records(before)
    return DeleteRecordsPartitionResult(index, low_watermark, error_code)
