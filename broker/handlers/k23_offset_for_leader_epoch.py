"""OffsetForLeaderEpoch: the end offsets of leader epochs (KIP-279, KIP-320)."""

from __future__ import annotations

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of looking up one topic or partition, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Looks up the epoch in each partition, for replicas and consumers alike."""
    message: OffsetForLeaderEpochRequest = request.message
    by_name = request.node.cluster.topics.by_name
    pace = Pace()
    results = []
    for wanted in message.topics:
        ends = []
        for p in wanted.partitions:
            ends.append(_end(request.node.id, by_name.get(wanted.topic), p))
            if pace.spend(_ROW_COST):
                yield
        results.append(OffsetForLeaderTopicResult(wanted.topic, ends))
        if pace.spend(_ROW_COST):
            yield
    yield from request.finish_in_pieces(OffsetForLeaderEpochResponse(0, results))


def _end(
    node_id: int, topic: Topic | None, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    index = wanted.partition
    if topic is None:
        return EpochEndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, index)
    error = topic.leader_error(node_id, index, wanted.current_leader_epoch)
    if error:
        return EpochEndOffset(error, index)
    end = topic.partitions[index].end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(0, index, *end)
