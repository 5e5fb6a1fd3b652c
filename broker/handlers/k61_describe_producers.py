"""DescribeProducers: the producers known to a partition (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator

from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import why_no_topic_name
from kohort.protocol.apis.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of one partition or producer, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Describes the producers of each partition that this node replicates.

    A partition is looked up once, however often it is named.
    """
    message: DescribeProducersRequest = request.message
    pace = Pace()
    topics = []
    known: RepeatedRows[tuple[str, int], PartitionResponse] = RepeatedRows()
    for wanted in message.topics:
        rows = []
        for index in wanted.partition_indexes:
            key = wanted.name, index
            row = known.again(key)
            if row is None:
                row = yield from _described(request, wanted.name, index, pace)
                known.keep(key, row, 1 + len(row.active_producers))
            rows.append(row)
            if pace.spend(_ROW_COST):
                yield
        topics.append(TopicResponse(wanted.name, rows))
        if pace.spend(_ROW_COST):
            yield
    # The rows of a repeated partition are not counted again.
    yield from request.finish_in_pieces(DescribeProducersResponse(0, topics))


def _described(
    request: Request, name: str, index: int, pace: Pace
) -> Generator[None, None, PartitionResponse]:
    topic = request.node.cluster.topics.by_name.get(name)
    if topic is None:
        why = why_no_topic_name(name)
        if why is not None:
            return PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        why = f"there is no topic {name}"
        return PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if not 0 <= index < len(topic.partitions):
        return PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if request.node.id not in topic.replicas[index]:
        return PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    states = []
    # A copy: producers may come and go meanwhile.
    for producer_id, state in [*topic.partitions[index].producers.states.items()]:
        states.append(
            ProducerState(
                producer_id,
                state.epoch,
                state.last_sequence,
                state.timestamp_ms,
                state.coordinator_epoch,
                state.first_offset,
            )
        )
        if pace.spend(_ROW_COST):
            yield
    return PartitionResponse(index, 0, None, states)
