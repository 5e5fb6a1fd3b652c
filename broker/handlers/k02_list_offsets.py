"""ListOffsets: the offset of a timestamp, or of a log's start or end."""

from __future__ import annotations

from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.errors import ErrorCode

_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version that brought each special timestamp."""


def handle(request: Request) -> None:
    """Looks every partition up."""
    message: ListOffsetsRequest = request.message
    topics = request.node.cluster.topics
    responses = []
    for wanted in message.topics:
        topic = topics.by_name.get(wanted.name)
        rows = [_partition(request, topic, p) for p in wanted.partitions]
        responses.append(ListOffsetsTopicResponse(wanted.name, rows))
    request.reply(ListOffsetsResponse(0, responses))


def _partition(
    request: Request, topic: Topic | None, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index, since = wanted.partition_index, _SINCE.get(wanted.timestamp, 2**15)
    if topic is None or not 0 <= index < len(topic.partitions):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ListOffsetsPartitionResponse(index, error)
    if wanted.timestamp < EARLIEST and request.version < since:
        return ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
    partition = topic.led_by(request.node.id, index, wanted.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        return ListOffsetsPartitionResponse(index, partition)
    found = partition.offset_for(wanted.timestamp)
    return ListOffsetsPartitionResponse(
        index, found.error_code, found.timestamp_ms, found.offset, found.leader_epoch
    )
