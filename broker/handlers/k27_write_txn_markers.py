"""WriteTxnMarkers: ends transactions in partitions, whatever their coordinator thinks.

kohort's own coordinator does not need it; operators and Kafka's tools
(``kafka-transactions.sh abort``) do.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Final

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.markers import EndMarker, write_marker
from kohort.broker.handlers.result_slot import Results
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.protocol.apis.k27_write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 1
"""Cost of reading a row."""
_MARKER_COST = 50
"""Cost of writing one marker, as `Pace` counts."""
_NONE: Final = -1
"""No producer id, or no epoch."""
_Place = tuple[int, str, int]
"""Producer id, topic, partition."""


def handle(request: Request) -> Work:
    """Writes the markers in order.

    As in Kafka, a marker goes to each of its partitions once, and if one is named
    twice, no response is sent. A marker without a producer id or epoch is not written,
    nor a later one: all partitions have UNKNOWN_SERVER_ERROR then. Neither is so for
    ``__consumer_offsets``, whose partitions have separate errors.
    """
    message: WriteTxnMarkersRequest = request.message
    cluster, node_id = request.node.cluster, request.node.id
    pace, results = Pace(), Results(request)
    places: list[_Place] = []
    is_stopped = is_forgotten = False
    known: set[tuple[int, str, int]] = set()
    for number, end, topic, index in (yield from _asked(message, pace)):
        if pace.spend(_MARKER_COST):
            yield
        if (number, topic, index) in known:
            is_lost = topic != OFFSETS_TOPIC and not request.is_helpful
            is_forgotten = is_forgotten or is_lost
            continue
        exists = _exists(cluster, topic, index)
        if exists:
            known.add((number, topic, index))
        places.append((end.producer_id, topic, index))
        answer = results.token().answer
        has_producer = _NONE not in (end.producer_id, end.producer_epoch)
        if exists and not has_producer:
            is_stopped = is_stopped or topic != OFFSETS_TOPIC
            answer(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif not is_stopped:
            write_marker(cluster, node_id, end, topic, index, answer)
    if is_stopped:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        yield from _reply(request, places, [error] * len(places))
    elif is_forgotten:
        request.forget("a marker names a partition twice")
    else:
        results.then(partial(_reply, request, places))


def _asked(
    message: WriteTxnMarkersRequest, pace: Pace
) -> Generator[None, None, list[tuple[int, EndMarker, str, int]]]:
    """Each partition of the request: number of the marker, marker, topic, index."""
    asked = []
    for number, marker in enumerate(message.markers):
        end = EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        for topic in marker.topics:
            for index in topic.partition_indexes:
                asked.append((number, end, topic.name, index))
                if pace.spend(_ROW_COST):
                    yield
            if pace.spend(_ROW_COST):
                yield
        if pace.spend(_ROW_COST):
            yield
    return asked


def _exists(cluster: Cluster, name: str, index: int) -> bool:
    topic = cluster.topics.by_name.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)


def _reply(request: Request, places: list[_Place], codes: Sequence[int]) -> Work:
    """Answers with one row per producer and partition: that of the last marker."""
    found: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    pace = Pace()
    for (producer_id, topic, index), code in zip(places, codes, strict=True):
        rows = found.setdefault(producer_id, {}).setdefault(topic, {})
        rows[index] = WritableTxnMarkerPartitionResult(index, code)
        if pace.spend(1):
            yield
    markers = []
    for producer_id, topics in found.items():
        some = []
        for topic, rows in topics.items():
            some.append(WritableTxnMarkerTopicResult(topic, [*rows.values()]))
            if pace.spend(1):
                yield
        markers.append(WritableTxnMarkerResult(producer_id, some))
    yield from request.finish_in_pieces(WriteTxnMarkersResponse(markers), pace)
