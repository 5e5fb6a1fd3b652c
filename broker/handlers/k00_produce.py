"""Produce: appends record batches, as they were sent, to partitions."""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from kohort.broker.handlers.produce_verification import (
    Batch,
    Key,
    ProduceVerification,
    Refused,
    Verified,
    publish_fenced,
)
from kohort.broker.handlers.replicas import leader_endpoints, leader_hint, placed
from kohort.broker.log.partition import Partition
from kohort.broker.log.producers import Verification
from kohort.broker.log.results import AppendResult
from kohort.broker.log.validation import UnreadBatch
from kohort.broker.long_work import Pace, Work, map_in_pieces
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
from kohort.protocol.slotted import replace

_ACKS = frozenset({-1, 0, 1})
_ALL = -1
_ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""
_FIRST_WITH_ZSTD = 7
_FIRST_WITH_IDS = 13
_TELLS_LEADERS = 10
"""First version in which a node that is not the leader names the leader (KIP-951)."""

_PIECE = 1024 * 1024
"""Bytes of batches appended at a time: half a millisecond to check a CRC, and to write.
"""
_ROW = 4096
"""Bytes that cost as much as a row, in addition to its batch."""
_ROW_COST = 3
"""Cost of checking one row, as `Pace` counts."""
_MOST_IN_TRANSACTION = 5000
"""Partitions of a Produce with a transactional id: the coordinator is asked about all
of them at once, in 30 ms."""
_MOST_RECORD_ERRORS = 100_000
"""Refused records that a response lists, in 10 MB; 100 bytes may have 10,000."""
_RECORD = 1024
"""Bytes that cost as much as a record, in addition to its own."""

_COUNT = struct.Struct(">i").unpack_from

_NO_TRANSACTIONAL_ID = BatchError(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "a batch of a transaction, and no transactional id",
)

_UNANSWERED = PartitionProduceResponse()

_SEVERAL_PRODUCERS = BatchError(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of several producers", on_wire=True
)
_TOO_MANY = BatchError(ErrorCode.INVALID_REQUEST, "too many partitions", on_wire=True)
_UNVERIFIED: Verified = {}

_Rows = dict[tuple[str, bytes], dict[int, PartitionProduceResponse]]
"""Responses by topic (name or id) and by partition."""
_Batches = dict[Key, PartitionProduceData]


def handle(request: Request) -> Work:
    """Appends; answers once the records are in the logs, as there is one replica.

    1. Refuses everything if any partition has a transaction without a transactional
       id, or bytes that are not a batch.
    2. Refuses the partitions that do not exist, or whose bytes are not exactly one
       batch.
    3. With a transactional id, first asks the coordinator: `produce_verification`.
    4. Appends to the others. If a partition is named twice, Kafka appends only the last
       batch.

    Other requests may be handled between two partitions, and while the records of a
    batch are read.
    """
    message: ProduceRequest = request.message
    pace = Pace()
    error = yield from _first_error(message, pace)
    if error is not None:
        rows = yield from _all_refused(message, error, pace)
        yield from _answer(request, rows, pace, has_error=True)
        return
    rows, batches = yield from _sorted_out(request, pace)
    if message.transactional_id is None:
        # As `_append_and_answer`, which would cost one more generator.
        yield from _append_all(request, rows, batches, _UNVERIFIED)
        has_error = yield from _has_error(rows, pace)
        yield from _answer(request, rows, pace, has_error=has_error)
    elif (error := _why_no_transaction(batches)) is not None:
        refused = yield from _all_refused(message, error, pace)
        yield from _answer(request, refused, pace, has_error=True)
    else:
        ProduceVerification(
            request,
            partial(_of_transaction, request, batches),
            partial(_append_and_answer, request, rows, batches),
        ).ask()


def _append_and_answer(
    request: Request, rows: _Rows, batches: _Batches, verified: Verified
) -> Work:
    yield from _append_all(request, rows, batches, verified)
    pace = Pace()
    has_error = yield from _has_error(rows, pace)
    yield from _answer(request, rows, pace, has_error=has_error)


def _answer(request: Request, rows: _Rows, pace: Pace, *, has_error: bool) -> Work:
    if request.message.acks == 0:
        if has_error:
            # Without acks the client expects no response; Kafka closes the connection
            # instead.
            request.peer.fail("a Produce without acks failed")
        request.finish(None)
        return
    responses = yield from map_in_pieces(
        lambda topic: TopicProduceResponse(*topic, list(rows[topic].values())),
        (topic for topic, some in rows.items() if some),
        pace,
    )
    endpoints: Sequence[NodeEndpoint] = ()
    if has_error:
        endpoints = yield from _endpoints(request, rows, pace)
    response = ProduceResponse(responses, 0, endpoints)
    if has_error or not pace.is_short:
        # Refused records are listed one by one (KIP-467).
        yield from request.finish_in_pieces(response)
    else:
        request.finish(response)


def _why_no_transaction(batches: _Batches) -> BatchError | None:
    """The reason for refusing batches of a transaction.

    There are too many, or they have several producers, or several epochs of one.
    """
    if len(batches) > _MOST_IN_TRANSACTION:
        return _TOO_MANY
    found = set()
    for data in batches.values():
        batch: Any = data.records
        if _is_of_transaction(batch):
            header = records.read_header(batch)
            found.add((header.producer_id, header.producer_epoch))
    return _SEVERAL_PRODUCERS if len(found) > 1 else None


def _is_of_transaction(batch: Any) -> bool:
    """Returns whether a batch opens a transaction; without a producer none does."""
    return records.is_transactional(batch) and (
        records.read_header(batch).producer_id > records.NO_PRODUCER_ID
    )


def _of_transaction(request: Request, batches: _Batches) -> list[Batch]:
    """The batches of a transaction whose partitions this node leads.

    As in Kafka, a transaction also begins with a batch that `_partition` refuses.
    """
    found = []
    for (name, topic_id, index), data in batches.items():
        batch: Any = data.records
        if not _is_of_transaction(batch):
            continue
        topic = _topic(request, name, topic_id)[0]
        if topic is not None and not topic.leader_error(request.node.id, index):
            key = name, topic_id, index
            found.append(Batch(key, topic.name, topic.partitions[index], batch))
    return found


def _first_error(
    message: ProduceRequest, pace: Pace
) -> Generator[None, None, BatchError | None]:
    for topic in message.topic_data:
        if pace.spend(_ROW_COST):
            yield
        for data in topic.partition_data:
            batch: Any = data.records or b""
            error = records.check_first(batch)
            if error is not None:
                return error
            if records.is_transactional(batch) and message.transactional_id is None:
                return _NO_TRANSACTIONAL_ID
            if pace.spend(_ROW_COST):
                yield
    return None


def _all_refused(
    message: ProduceRequest, error: BatchError, pace: Pace
) -> Generator[None, None, _Rows]:
    rows: _Rows = {}
    text = error.reason if error.on_wire else None
    for topic in message.topic_data:
        if pace.spend(_ROW_COST):
            yield
        some = rows.setdefault((topic.name, topic.topic_id), {})
        for data in topic.partition_data:
            some[data.index] = PartitionProduceResponse(
                data.index, error.error_code, -1, error_message=text
            )
            if pace.spend(_ROW_COST):
                yield
    return rows


def _sorted_out(
    request: Request, pace: Pace
) -> Generator[None, None, tuple[_Rows, _Batches]]:
    """Responses for the refused partitions, and the batches of the others."""
    rows: _Rows = {}
    batches: _Batches = {}
    zstd = request.version >= _FIRST_WITH_ZSTD
    for topic_data in request.message.topic_data:
        key = topic_data.name, topic_data.topic_id
        topic, unknown = _topic(request, *key)
        some = rows.setdefault(key, {})
        if pace.spend(_ROW_COST):
            yield
        for data in topic_data.partition_data:
            if pace.spend(_ROW_COST):
                yield
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


def _has_error(rows: _Rows, pace: Pace) -> Generator[None, None, bool]:
    for some in rows.values():
        for row in some.values():
            if row.error_code:
                return True
            if pace.spend(1):
                yield
    return False


def _append_all(
    request: Request, rows: _Rows, batches: _Batches, verified: Verified
) -> Work:
    work = listed = 0
    are_several = len(batches) > 1
    for (name, topic_id, index), data in batches.items():
        if work > _PIECE:
            work = 0
            yield
        found = verified.get((name, topic_id, index)) if verified else None
        row = _append(request, name, topic_id, data, None, found)
        while isinstance(row, UnreadBatch):
            yield from row.read()
            row = _append(request, name, topic_id, data, row, found)
        if are_several:
            work += _cost(data.records)
            listed += len(row.record_errors)
            if listed > _MOST_RECORD_ERRORS:
                row = replace(row, record_errors=())
        if rows[name, topic_id][index] is _UNANSWERED:
            rows[name, topic_id][index] = row


def _cost(batch: Any) -> int:
    """Bytes that cost as much as this batch, before other requests get a turn."""
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
    request: Request, rows: _Rows, pace: Pace
) -> Generator[None, None, list[NodeEndpoint]]:
    leaders: dict[int, None] = {}
    for some in rows.values():
        for row in some.values():
            leaders[row.current_leader.leader_id] = None
            if pace.spend(1):
                yield
    return leader_endpoints(request, leaders)


def _append(
    request: Request,
    name: str,
    topic_id: bytes,
    data: PartitionProduceData,
    read: UnreadBatch | None,
    verified: Verification | Refused | None,
) -> PartitionProduceResponse | UnreadBatch:
    """Appends one batch; topics and leaders may have changed since it was read."""
    if isinstance(verified, Refused):
        error, text = verified.error_code, verified.message
        return PartitionProduceResponse(data.index, error, -1, error_message=text)
    partition = _partition(request, name, topic_id, data.index)
    if not isinstance(partition, Partition):
        return partition
    # Decoded records are one view of the received bytes, which do not change.
    batch = memoryview(data.records).toreadonly()  # type: ignore[arg-type]
    now_ms = request.node.cluster.now_ms()
    result = partition.append_or_read(
        batch, now_ms=now_ms, read=read, verification=verified
    )
    if isinstance(result, UnreadBatch):
        return result
    if result.error_code == ErrorCode.INVALID_PRODUCER_EPOCH:
        publish_fenced(request, partition, batch)
    return _row(data, result)


def _topic(
    request: Request, name: str, topic_id: bytes
) -> tuple[Topic | None, ErrorCode]:
    """The topic, and the error if it does not exist."""
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
        # No more replicas than exist can be in sync: Kafka requires all of them.
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
