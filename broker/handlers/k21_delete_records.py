"""DeleteRecords: moves the start of logs (KIP-107)."""

from __future__ import annotations

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.protocol.errors import ErrorCode

_NO_OFFSET = -1


_ROW_COST = 1
"""Cost of looking at one partition, as `Pace` counts."""
_DELETED_COST = 500
"""Cost of moving the start of a log, which is saved."""


def handle(request: Request) -> Work:
    """Moves the start of each partition's log; each partition is answered once."""
    message: DeleteRecordsRequest = request.message
    by_name = request.node.cluster.topics.by_name
    pace = Pace()
    wanted: dict[str, dict[int, int]] = {}
    for topic in message.topics:
        for each in topic.partitions:
            offsets = wanted.setdefault(topic.name, {})
            offsets[each.partition_index] = each.offset
            if pace.spend(_ROW_COST):
                yield
        if pace.spend(_ROW_COST):
            yield
    results = []
    for name, offsets in wanted.items():
        rows = []
        for index, before in offsets.items():
            row = _deleted(request.node.id, by_name.get(name), index, before)
            rows.append(row)
            if pace.spend(_ROW_COST if row.error_code else _DELETED_COST):
                yield
        results.append(DeleteRecordsTopicResult(name, rows))
        if pace.spend(_ROW_COST):
            yield
    yield from request.finish_in_pieces(DeleteRecordsResponse(0, results))


def _deleted(
    node_id: int, topic: Topic | None, index: int, before: int
) -> DeleteRecordsPartitionResult:
    if topic is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, error)
    error = topic.leader_error(node_id, index)
    if error:
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, error)
    if topic.is_internal:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return DeleteRecordsPartitionResult(index, _NO_OFFSET, error)
    error_code, low_watermark = topic.partitions[index].delete_records(before)
    return DeleteRecordsPartitionResult(index, low_watermark, error_code)
