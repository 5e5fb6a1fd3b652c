"""ListPartitionReassignments: kohort never moves a partition."""

from __future__ import annotations

from kohort.broker.request import Request
from kohort.protocol.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)


def handle(request: Request) -> None:
    """Answers that nothing is being moved; Kafka does so for unknown topics, too."""
    request.reply(ListPartitionReassignmentsResponse(error_message=None))
