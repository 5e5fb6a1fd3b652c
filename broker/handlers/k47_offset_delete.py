"""OffsetDelete: deletes offsets of topics that no member subscribes to (KIP-496)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from kohort.broker.coordinator.effects import DeleteOffsetsResult
from kohort.broker.coordinator.events import DeleteOffsets
from kohort.broker.handlers.result_slot import Results
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.protocol.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 3
"""Cost of looking up and deleting one offset, as `Pace` counts."""
_MOST_AT_ONCE = 500
"""Offsets deleted at once, and so in one batch of the log."""


class _Asked(NamedTuple):
    """A topic of the request, and the events that delete its offsets."""

    name: str
    is_known: bool
    events: int
    missing: list[OffsetDeleteResponsePartition]
    """The rows of its unknown partitions."""


def handle(request: Request) -> Work:
    """Asks the coordinator about known partitions; unknown ones get an error.

    If all partitions are known, a topic named twice has two entries, as in Kafka; else
    one.
    """
    message: OffsetDeleteRequest = request.message
    by_name = request.node.cluster.topics.by_name
    submit = request.node.submit_group_event
    pace, results = Pace(), Results(request)
    # The group's error does not depend on the offsets to delete.
    submit(DeleteOffsets(results.token(), message.group_id, ()))
    topics: list[_Asked] = []
    for topic in message.topics:
        found = by_name.get(topic.name)
        count = len(found.partitions) if found else 0
        events, missing = 0, []
        for start in range(0, len(topic.partitions), _MOST_AT_ONCE):
            some = topic.partitions[start : start + _MOST_AT_ONCE]
            indexes = [p.partition_index for p in some]
            known = [i for i in indexes if 0 <= i < count]
            missing += [_unknown(i) for i in indexes if not 0 <= i < count]
            if known:
                events += 1
                rows = [(topic.name, known)]
                submit(DeleteOffsets(results.token(), message.group_id, rows))
            if pace.spend(_ROW_COST * len(some)):
                yield
        topics.append(_Asked(topic.name, found is not None, events, missing))
        if pace.spend(_ROW_COST):
            yield
    results.then(partial(_reply, request, topics))


def _reply(
    request: Request, topics: list[_Asked], results: list[DeleteOffsetsResult]
) -> Work:
    error = next((each.error_code for each in results if each.error_code), 0)
    answers: Sequence[OffsetDeleteResponseTopic] = ()
    if not error:
        answers = yield from _answers(topics, results)
    yield from request.finish_in_pieces(OffsetDeleteResponse(error, 0, answers))


def _answers(
    topics: list[_Asked], results: list[DeleteOffsetsResult]
) -> Generator[None, None, list[OffsetDeleteResponseTopic]]:
    """Returns the rows of all topics; those with unknown partitions first, merged."""
    pace = Pace()
    answered = iter(results[1:])  # the first one was about the group alone
    rows: list[tuple[str, list[OffsetDeleteResponsePartition]]] = []
    unknown: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in topics:
        codes = (
            code
            for result in islice(answered, topic.events)
            for _, some in result.topics
            for code in some
        )
        deleted = yield from map_in_pieces(
            lambda code: OffsetDeleteResponsePartition(*code), codes, pace
        )
        if pace.spend(1):
            yield
        if deleted:
            rows.append((topic.name, deleted))
        if topic.missing or not topic.is_known:
            unknown.setdefault(topic.name, []).extend(topic.missing)
    if unknown:
        for name, deleted in rows:
            unknown.setdefault(name, []).extend(deleted)
        rows = [*unknown.items()]
    return (
        yield from map_in_pieces(
            lambda row: OffsetDeleteResponseTopic(*row), rows, pace
        )
    )


def _unknown(index: int) -> OffsetDeleteResponsePartition:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponsePartition(index, error)
