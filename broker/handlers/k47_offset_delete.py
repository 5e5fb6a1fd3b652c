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
        missing = [i for i in indexes if not 0 <= i < count]
        if missing or found is None:
            unknown.append((topic.name, missing))
    request.message = unknown
    request.node.groups.submit(
        DeleteOffsets(request, message.group_id, [entry for entry in known if entry[1]])
    )


def respond(request: Request, result: DeleteOffsetsResult) -> None:
    """Answers the request, with one entry per topic where something was unknown.

    Where all was known a topic that was asked for twice has two, as in Kafka.
    """
    rows: list[tuple[str, list[OffsetDeleteResponsePartition]]] = []
    if not result.error_code:
        rows = [
            (name, [OffsetDeleteResponsePartition(*p) for p in partitions])
            for name, partitions in result.topics
        ]
        if request.message:
            rows = _merged(rows, request.message)
    request.reply(
        OffsetDeleteResponse(
            result.error_code, 0, [OffsetDeleteResponseTopic(*row) for row in rows]
        )
    )


def _merged(
    rows: list[tuple[str, list[OffsetDeleteResponsePartition]]],
    unknown: list[tuple[str, list[int]]],
) -> list[tuple[str, list[OffsetDeleteResponsePartition]]]:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    merged: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for name, indexes in unknown:
        missing = [OffsetDeleteResponsePartition(i, code) for i in indexes]
        merged.setdefault(name, []).extend(missing)
    for name, partitions in rows:
        merged.setdefault(name, []).extend(partitions)
    return list(merged.items())
