"""ListOffsets: the offset of a timestamp, or of a log's start or end."""

from __future__ import annotations

from kohort.broker.log.partition import Partition

from kohort.broker.dispatch import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.errors import ErrorCode

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

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
        rows = [_partition(request.version, topic, p) for p in wanted.partitions]
        responses.append(ListOffsetsTopicResponse(wanted.name, rows))
    request.reply(ListOffsetsResponse(0, responses))


def _partition(
    version: int, topic: Topic | None, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    if topic is None or not 0 <= index < len(topic.partitions):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ListOffsetsPartitionResponse(index, error)
    partition = topic.partitions[index]
    error = _epoch_error(partition, wanted.current_leader_epoch)
    if wanted.timestamp < LATEST - 1 and version < _SINCE.get(wanted.timestamp, 2**15):
        error = ErrorCode.UNSUPPORTED_VERSION
    if error:
        return ListOffsetsPartitionResponse(index, error)
    timestamp, offset = _look_up(partition, wanted.timestamp)
    epoch = partition.leader_epoch if offset >= 0 else -1
    return ListOffsetsPartitionResponse(index, 0, timestamp, offset, epoch)


def _epoch_error(partition: Partition, epoch: int) -> ErrorCode:
    if epoch < 0 or epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _look_up(partition: Partition, timestamp: int) -> tuple[int, int]:
    """(timestamp, offset); both -1 where no record is that late."""
    if timestamp == LATEST:
        return -1, partition.high_watermark
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return -1, partition.log_start_offset
    if timestamp in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return -1, -1  # nothing is ever tiered
    if timestamp == MAX_TIMESTAMP:
        return partition.offset_of_max_timestamp()
    return partition.offset_for_timestamp(timestamp)
