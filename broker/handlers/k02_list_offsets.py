"""ListOffsets: the offset of a timestamp, or of a log's start or end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kohort.broker.long_work import Pace, Work
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
"""The version that introduced each special timestamp."""


_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_ISOLATION_LEVELS = (_READ_UNCOMMITTED, _READ_COMMITTED)

_PIECE = 256
"""Rows answered at a time: a millisecond."""


def handle(request: Request) -> Work:
    """Looks up every partition; refuses those that the request names twice."""
    message: ListOffsetsRequest = request.message
    if message.isolation_level not in _ISOLATION_LEVELS:
        yield from _fail(request)
        return
    pace = Pace()
    times = yield from _times(message, pace)
    rows: dict[str, list[ListOffsetsPartitionResponse]] = {}
    count = 0
    for wanted in message.topics:
        count += 1
        if count % _PIECE == 0:
            yield
        for p in wanted.partitions:
            count += 1
            if count % _PIECE == 0:
                yield
            place = wanted.name, p.partition_index
            if times[place] == 1:
                row = yield from _partition(request, wanted.name, p)
            elif times[place]:
                # One row for all of them.
                times[place] = 0
                error = ErrorCode.INVALID_REQUEST
                row = ListOffsetsPartitionResponse(p.partition_index, error)
            else:
                continue
            rows.setdefault(wanted.name, []).append(row)
    topics = [ListOffsetsTopicResponse(name, some) for name, some in rows.items()]
    response = ListOffsetsResponse(0, topics)
    if count < _PIECE:
        request.finish(response)
    else:
        yield from request.finish_in_pieces(response)


def _times(
    message: ListOffsetsRequest, pace: Pace
) -> Generator[None, None, Counter[tuple[str, int]]]:
    """Counts how often each partition is named."""
    times: Counter[tuple[str, int]] = Counter()
    for wanted in message.topics:
        for p in wanted.partitions:
            times[wanted.name, p.partition_index] += 1
            if pace.spend(1):
                yield
        if pace.spend(1):
            yield
    return times


def _fail(request: Request) -> Work:
    """Fails, as Kafka does for unknown isolation levels."""
    error, pace, topics = ErrorCode.UNKNOWN_SERVER_ERROR, Pace(), []
    for wanted in request.message.topics:
        rows = []
        for p in wanted.partitions:
            rows.append(ListOffsetsPartitionResponse(p.partition_index, error))
            if pace.spend(1):
                yield
        topics.append(ListOffsetsTopicResponse(wanted.name, rows))
        if pace.spend(1):
            yield
    yield from request.finish_in_pieces(ListOffsetsResponse(0, topics), pace)


def _partition(
    request: Request, name: str, wanted: ListOffsetsPartition
) -> Generator[None, None, ListOffsetsPartitionResponse]:
    index, since = wanted.partition_index, _SINCE.get(wanted.timestamp, 2**15)
    if wanted.timestamp < EARLIEST and request.version < since:
        return ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
    partition = _led(request, name, wanted)
    if not isinstance(partition, Partition):
        return ListOffsetsPartitionResponse(index, partition)
    committed = request.message.isolation_level == _READ_COMMITTED
    found = yield from find_offset(partition, wanted.timestamp, committed=committed)
    now = _led(request, name, wanted)
    if now is not partition:
        # The topic was deleted, or the leader changed, during the search.
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = unknown if isinstance(now, Partition) else now
        return ListOffsetsPartitionResponse(index, error)
    return ListOffsetsPartitionResponse(
        index, found.error_code, found.timestamp_ms, found.offset, found.leader_epoch
    )


def _led(
    request: Request, name: str, wanted: ListOffsetsPartition
) -> Partition | ErrorCode:
    """The partition, or the reason why this node does not answer for it."""
    topic = request.node.cluster.topics.by_name.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    index = wanted.partition_index
    error = topic.leader_error(request.node.id, index, wanted.current_leader_epoch)
    return error or topic.partitions[index]
