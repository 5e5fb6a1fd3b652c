"""OffsetFetch: one group before v8, several from then on; topic ids from v10 on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.broker.coordinator.effects import FetchOffsetsResult
from kohort.broker.coordinator.events import FetchOffsets
from kohort.broker.handlers.gather import Gather
from kohort.broker.request import Request
from kohort.broker.topics import Topics
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kohort.protocol.errors import ErrorCode

Wanted = Sequence[tuple[str, Sequence[int]]]


def handle(request: Request) -> None:
    """Asks the coordinator of each group."""
    message: OffsetFetchRequest = request.message
    groups = request.node.groups
    if request.version < 8:
        wanted = message.topics
        topics = None
        if wanted is not None:
            topics = [(t.name, t.partition_indexes) for t in wanted]
        groups.submit(FetchOffsets(request, message.group_id, topics))
        return
    known = request.node.cluster.topics

    def done(results: list[FetchOffsetsResult]) -> None:
        pairs = zip(message.groups, results, strict=True)
        answers = [_group(request.version, known, g, result) for g, result in pairs]
        request.reply(OffsetFetchResponse(0, (), 0, answers))

    gather = Gather(len(message.groups), done)
    for i, group in enumerate(message.groups):
        names = _names(request.version, known, group.topics)
        groups.submit(FetchOffsets(gather.slot(i), group.group_id, names))


def _names(
    version: int, known: Topics, topics: Sequence[OffsetFetchRequestTopics] | None
) -> Wanted | None:
    """The topics asked for by name; those of unknown id are left to the answer."""
    if topics is None:
        return None
    if version < 10:
        return [(t.name, t.partition_indexes) for t in topics]
    return [
        (known.by_id[t.topic_id].name, t.partition_indexes)
        for t in topics
        if t.topic_id in known.by_id
    ]


def respond(request: Request, result: FetchOffsetsResult) -> None:
    """The response before v8; v1 has no place for the group's error but partitions."""
    error = result.error_code
    topics = result.topics
    if error and request.version < 2 and request.message.topics is not None:
        topics = [
            (t.name, [(i, -1, -1, "") for i in t.partition_indexes])
            for t in request.message.topics
        ]
    request.reply(
        OffsetFetchResponse(
            0,
            [
                OffsetFetchResponseTopic(
                    name,
                    [OffsetFetchResponsePartition(*p, error) for p in partitions],
                )
                for name, partitions in topics
            ],
            error,
        )
    )


def _group(
    version: int,
    known: Topics,
    wanted: OffsetFetchRequestGroup,
    result: FetchOffsetsResult,
) -> OffsetFetchResponseGroup:
    def entry(name: str, topic_id: bytes, rows: Any) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(
            name, topic_id, [OffsetFetchResponsePartitions(*row) for row in rows]
        )

    topics = []
    for name, partitions in result.topics:
        topic = known.by_name.get(name)
        if version < 10:
            topics.append(entry(name, b"", ((*p, 0) for p in partitions)))
        elif topic is not None:
            topics.append(entry(name, topic.id, ((*p, 0) for p in partitions)))
    if version >= 10 and not result.error_code:
        error = ErrorCode.UNKNOWN_TOPIC_ID
        for t in wanted.topics or ():
            if t.topic_id not in known.by_id:
                rows = ((i, -1, -1, "", error) for i in t.partition_indexes)
                topics.append(entry("", t.topic_id, rows))
    return OffsetFetchResponseGroup(wanted.group_id, topics, result.error_code)
