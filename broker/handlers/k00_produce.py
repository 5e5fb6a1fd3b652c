"""Produce: appends record batches, as they were sent, to partitions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.replicas import leader_endpoints, leader_hint, placed
from kohort.broker.log.partition import NO_TRANSACTIONS, Partition
from kohort.broker.log.results import AppendResult
from kohort.broker.log.validation import UnreadBatch
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol import records
from kohort.protocol.apis.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.apis.leader_hints import NodeEndpoint
from kohort.protocol.errors import ErrorCode
from kohort.protocol.record_survey import SOME
from kohort.protocol.records import BatchError

_ACKS = frozenset({-1, 0, 1})
_ALL = -1
_ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""
_FIRST_WITH_ZSTD = 7
_FIRST_WITH_IDS = 13
_TELLS_LEADERS = 10
"""First version in which a wrong node names the leader (KIP-951)."""

_PIECE = 1024 * 1024
"""Bytes of batches that are appended at a time: half a millisecond to check a CRC,
and to write."""
_ROW = 4096
"""Bytes that cost as much as a row beside its batch."""
_RECORD = 1024
"""Bytes that cost as much as a record beside its own."""

_COUNT = struct.Struct(">i").unpack_from

_UNANSWERED = PartitionProduceResponse()

_Rows = dict[tuple[str, bytes], dict[int, PartitionProduceResponse]]
"""Answers by topic, that is by name or id, and by partition."""


def handle(request: Request) -> Work:
    """Appends; answers once the records are in the logs, as there is one replica.

    1. A transaction, or bytes that are no batch, in any partition: refuses all.
    2. Refuses the partitions that do not exist, or whose bytes are not one batch.
    3. Appends to the others. Of a partition that is named twice Kafka appends the
       last batch only.

    Other requests may come in between two partitions, and while the records of a
    batch are read.
    """
    message: ProduceRequest = request.message
    error = _first_error(message)
    if error is not None:
        rows, has_error = _all_refused(message, error), True
    else:
        rows, batches = _sorted_out(request)
        yield from _append_all(request, rows, batches)
        has_error = _has_error(rows)
    if message.acks == 0:
        if has_error:
            # No answer is wanted; Kafka closes the connection instead.
            request.peer.fail("a Produce without acks failed")
        request.reply_nothing()
        return
    responses = [
        TopicProduceResponse(*topic, list(some.values()))
        for topic, some in rows.items()
        if some
    ]
    endpoints = _endpoints(request.node.cluster, responses) if has_error else ()
    response = ProduceResponse(responses, 0, endpoints)
    if has_error:
        # Refused records are listed one by one (KIP-467).
        yield from request.reply_in_pieces(response)
    else:
        request.reply(response)


def _first_error(message: ProduceRequest) -> BatchError | None:
    for topic in message.topic_data:
        for data in topic.partition_data:
            batch: Any = data.records or b""
            error = records.check_first(batch)
            if error is not None:
                return error
            if records.is_transactional(batch) and message.transactional_id is None:
                return NO_TRANSACTIONS
    return None


def _all_refused(message: ProduceRequest, error: BatchError) -> _Rows:
    rows: _Rows = {}
    text = error.reason if error.on_wire else None
    for topic in message.topic_data:
        some = rows.setdefault((topic.name, topic.topic_id), {})
        for data in topic.partition_data:
            some[data.index] = PartitionProduceResponse(
                data.index, error.error_code, -1, error_message=text
            )
    return rows


def _sorted_out(
    request: Request,
) -> tuple[_Rows, dict[tuple[str, bytes, int], PartitionProduceData]]:
    """Answers to the partitions that are refused, and the batches of the others."""
    rows: _Rows = {}
    batches: dict[tuple[str, bytes, int], PartitionProduceData] = {}
    zstd = request.version >= _FIRST_WITH_ZSTD
    for topic_data in request.message.topic_data:
        key = topic_data.name, topic_data.topic_id
        topic, unknown = _topic(request, *key)
        some = rows.setdefault(key, {})
        for data in topic_data.partition_data:
            index = data.index
            if topic is None:
                some[index] = _refused(index, unknown)
            elif not 0 <= index < len(topic.partitions):
                some[index] = _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                batch: Any = data.records or b""
                error = records.check_framing(batch, zstd=zstd)
                if error is not None:
                    some[index] = _refused(index, error.error_code)
                else:
                    batches[*key, index] = data
                    some.setdefault(index, _UNANSWERED)
    return rows, batches


def _has_error(rows: _Rows) -> bool:
    for some in rows.values():
        for row in some.values():
            if row.error_code:
                return True
    return False


def _append_all(
    request: Request,
    rows: _Rows,
    batches: dict[tuple[str, bytes, int], PartitionProduceData],
) -> Work:
    work = 0
    are_several = len(batches) > 1
    for (name, topic_id, index), data in batches.items():
        if work > _PIECE:
            work = 0
            yield
        row = _append(request, name, topic_id, data, None)
        while isinstance(row, UnreadBatch):
            yield from row.read()
            row = _append(request, name, topic_id, data, row)
        if are_several:
            work += _cost(data.records)
        if rows[name, topic_id][index] is _UNANSWERED:
            rows[name, topic_id][index] = row


def _cost(batch: Any) -> int:
    """Bytes that take as long as this batch, up to where others get a turn."""
    if batch[records.ATTRIBUTES_AT] & records.CODEC_MASK:
        return _PIECE
    count: int = _COUNT(batch, records.COUNT_AT)[0]
    size: int = len(batch)
    return _ROW + size + _RECORD * min(max(count, 0), SOME)


def _refused(
    index: int, error: int, log_start_offset: int = -1
) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, error, -1, -1, log_start_offset)


def _not_led(
    request: Request, topic: Topic, index: int, error: ErrorCode
) -> PartitionProduceResponse:
    if error != ErrorCode.NOT_LEADER_OR_FOLLOWER or request.version < _TELLS_LEADERS:
        return _refused(index, error)
    leader = leader_hint(topic, index)
    return PartitionProduceResponse(index, error, -1, -1, -1, (), None, leader)


def _endpoints(
    cluster: Cluster, topics: Sequence[TopicProduceResponse]
) -> list[NodeEndpoint]:
    leaders = [
        p.current_leader.leader_id for t in topics for p in t.partition_responses
    ]
    return leader_endpoints(cluster, leaders)


def _append(
    request: Request,
    name: str,
    topic_id: bytes,
    data: PartitionProduceData,
    read: UnreadBatch | None,
) -> PartitionProduceResponse | UnreadBatch:
    """Appends one batch; topics and leaders may have changed since it was read."""
    partition = _partition(request, name, topic_id, data.index)
    if not isinstance(partition, Partition):
        return partition
    # Decoded records are one view of the received bytes.
    batch: Any = data.records
    now_ms = request.node.cluster.now_ms()
    result = partition.append_or_read(batch, now_ms=now_ms, read=read)
    return result if isinstance(result, UnreadBatch) else _row(data, result)


def _topic(
    request: Request, name: str, topic_id: bytes
) -> tuple[Topic | None, ErrorCode]:
    """The topic, and the error if there is none."""
    topics = request.node.cluster.topics
    if request.version >= _FIRST_WITH_IDS:
        return topics.by_id.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return topics.by_name.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    request: Request, name: str, topic_id: bytes, index: int
) -> Partition | PartitionProduceResponse:
    """The partition to append to, or the row that refuses it."""
    acks = request.message.acks
    if acks not in _ACKS:
        return _refused(index, ErrorCode.INVALID_REQUIRED_ACKS)
    topic, unknown = _topic(request, name, topic_id)
    if topic is None:
        return _refused(index, unknown)
    if topic.is_internal and request.client.id != _ADMIN_CLIENT:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    error = topic.leader_error(request.node.id, index)
    if error:
        return _not_led(request, topic, index, error)
    partition = topic.partitions[index]
    if acks == _ALL and topic.min_insync_replicas > 1:
        replicas, in_sync = placed(request.node.cluster, topic, index)[3:5]
        # More replicas than there are cannot be in sync: Kafka asks for all of them.
        if len(in_sync) < min(topic.min_insync_replicas, len(replicas)):
            start = partition.log_start_offset
            return _refused(index, ErrorCode.NOT_ENOUGH_REPLICAS, start)
    return partition


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
