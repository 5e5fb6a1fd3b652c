"""OffsetDelete: offsets go where nobody subscribes to the topic (KIP-496)."""

from __future__ import annotations

from kohort.broker.coordinator.effects import DeleteOffsetsResult
from kohort.broker.coordinator.events import DeleteOffsets
from kohort.broker.request import Request
from kohort.protocol.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.errors import ErrorCode


def handle(request: Request) -> None:
    """Asks the coordinator about known partitions; unknown ones get their error."""
    message: OffsetDeleteRequest = request.message
    topics = request.node.cluster.topics
    known, unknown = [], []
    for topic in message.topics:
        found = topics.by_name.get(topic.name)
        count = len(found.partitions) if found else 0
        indexes = [p.partition_index for p in topic.partitions]
        known.append((topic.name, [i for i in indexes if 0 <= i < count]))
        unknown.append((topic.name, [i for i in indexes if not 0 <= i < count]))
    request.message = [entry for entry in unknown if entry[1]]
    request.node.groups.submit(
        DeleteOffsets(request, message.group_id, [entry for entry in known if entry[1]])
    )


def respond(request: Request, result: DeleteOffsetsResult) -> None:
    """Answers the request, one entry per topic."""
    rows: dict[str, list[OffsetDeleteResponsePartition]] = {}
    if not result.error_code:
        for name, partitions in result.topics:
            rows.setdefault(name, []).extend(
                OffsetDeleteResponsePartition(*p) for p in partitions
            )
        for name, indexes in request.message:
            rows.setdefault(name, []).extend(
                OffsetDeleteResponsePartition(i, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for i in indexes
            )
    request.reply(
        OffsetDeleteResponse(
            result.error_code,
            0,
            [OffsetDeleteResponseTopic(name, each) for name, each in rows.items()],
        )
    )
