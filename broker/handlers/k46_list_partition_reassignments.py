"""ListPartitionReassignments: the reassignments that are in progress."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 2
"""Cost of looking at one partition, as `Pace` counts."""


def handle(request: Request) -> Work:
    """Lists the requested reassignments, or all; unknown partitions are left out."""
    message: ListPartitionReassignmentsRequest = request.message
    by_name = request.node.cluster.topics.by_name
    asked: Iterable[tuple[str, Iterable[int]]]
    if message.topics is None:
        asked = [(name, sorted(t.reassignments)) for name, t in by_name.items()]
    else:
        asked = ((t.name, t.partition_indexes) for t in message.topics)
    topics = []
    pace = Pace()
    known: RepeatedRows[tuple[str, int], OngoingPartitionReassignment] = RepeatedRows()
    for name, indexes in asked:
        topic, rows = by_name.get(name), []
        for index in indexes:
            row = known.again((name, index))
            if row is None and topic is not None and index in topic.reassignments:
                row = known.keep((name, index), _ongoing(topic, index), 1)
            if row is not None:
                rows.append(row)
            if pace.spend(_ROW_COST):
                yield
        if rows:
            topics.append(OngoingTopicReassignment(name, rows))
        if pace.spend(_ROW_COST):
            yield
    response = ListPartitionReassignmentsResponse(0, ErrorCode.NONE, None, topics)
    yield from request.finish_in_pieces(response, pace)


def _ongoing(topic: Topic, index: int) -> OngoingPartitionReassignment:
    found = topic.reassignments[index]
    replicas = list(topic.replicas[index])
    return OngoingPartitionReassignment(index, replicas, found.adding, found.removing)
