"""ListPartitionReassignments: the reassignments that are in progress."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
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
        asked = [(t.name, t.partition_indexes) for t in message.topics]
    topics = []
    pace = Pace()
    for name, indexes in asked:
        topic, rows = by_name.get(name), []
        for index in indexes:
            found = topic.reassignments.get(index) if topic is not None else None
            if topic is not None and found is not None:
                replicas = list(topic.replicas[index])
                rows.append(
                    OngoingPartitionReassignment(
                        index, replicas, found.adding, found.removing
                    )
                )
            if pace.spend(_ROW_COST):
                yield
        if rows:
            topics.append(OngoingTopicReassignment(name, rows))
    response = ListPartitionReassignmentsResponse(0, ErrorCode.NONE, None, topics)
    yield from request.reply_in_pieces(response, pace)
