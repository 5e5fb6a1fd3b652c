"""ListOffsets: the offset of a timestamp, or of a log's start or end."""

from __future__ import annotations

from collections.abc import Generator

from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kohort.broker.long_work import Work
from kohort.broker.request import Request
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


_PIECE = 256
"""Rows that are answered at a time: a millisecond."""


def handle(request: Request) -> Work:
    """Looks every partition up; those that the request names twice are refused."""
    message: ListOffsetsRequest = request.message
    repeated = yield from _repeated(message)
    responses = []
    count = 0
    for wanted in message.topics:
        rows = []
        for p in wanted.partitions:
            count += 1
            if count % _PIECE == 0:
                yield
            if repeated and (wanted.name, p.partition_index) in repeated:
                error = ErrorCode.INVALID_REQUEST
                rows.append(ListOffsetsPartitionResponse(p.partition_index, error))
            else:
                rows.append((yield from _partition(request, wanted.name, p)))
        responses.append(ListOffsetsTopicResponse(wanted.name, rows))
    response = ListOffsetsResponse(0, responses)
    if count < _PIECE:
        request.reply(response)
    else:
        yield from request.reply_in_pieces(response)


def _repeated(
    message: ListOffsetsRequest,
) -> Generator[None, None, set[tuple[str, int]]]:
    """The partitions that a request names more than once: Kafka refuses these."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    count = 0
    for topic in message.topics:
        for p in topic.partitions:
            count += 1
            if count % _PIECE == 0:
                yield
            key = topic.name, p.partition_index
            if key in seen:
                repeated.add(key)
            seen.add(key)
    return repeated


def _partition(
    request: Request, name: str, wanted: ListOffsetsPartition
) -> Generator[None, None, ListOffsetsPartitionResponse]:
    topic = request.node.cluster.topics.by_name.get(name)
    index, since = wanted.partition_index, _SINCE.get(wanted.timestamp, 2**15)
    if topic is None or not 0 <= index < len(topic.partitions):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ListOffsetsPartitionResponse(index, error)
    if wanted.timestamp < EARLIEST and request.version < since:
        return ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
    node_id = request.node.id
    error = topic.leader_error(node_id, index, wanted.current_leader_epoch)
    if error:
        return ListOffsetsPartitionResponse(index, error)
    found = yield from topic.partitions[index].find_offset(wanted.timestamp)
    return ListOffsetsPartitionResponse(
        index, found.error_code, found.timestamp_ms, found.offset, found.leader_epoch
    )
