"""OffsetFetch: one group before v8, several from then on; topic ids from v10 on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

from kohort.broker.coordinator.effects import FetchedOffset
from kohort.broker.coordinator.events import FetchOffsets
from kohort.broker.handlers.repeated_rows import RepeatedRows
from kohort.broker.handlers.result_slot import ResultSlot
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topics import Topics
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

_SLICE = 500
"""Partitions in one request to the coordinator."""
_TOPIC_COST = 5
"""Cost of asking for one topic, as `Pace` counts."""
_ROW_COST = 1
"""Cost of looking up one offset, and again of answering it."""

Wanted = Iterable[tuple[str | None, Sequence[int]]]
"""Topics and their partitions; None for a topic that is left out."""
Found = tuple[int, Sequence[tuple[str, Sequence[FetchedOffset]]]]
"""The error code of a group, and the rows of its topics."""


def handle(request: Request) -> Work:
    """Asks the coordinator of each group."""
    message: OffsetFetchRequest = request.message
    pace = Pace()
    if request.version < 8:
        wanted = message.topics
        names = None
        if wanted is not None:
            names = ((t.name, t.partition_indexes) for t in wanted)
        member = None, -1
        found = yield from _fetched(request, message.group_id, member, names, pace)
        yield from _reply_of_one(request, found, pace)
        return
    answers = []
    # Responses for groups without topics: requests often repeat one group.
    whole: RepeatedRows[tuple[str, str | None, int], OffsetFetchResponseGroup] = (
        RepeatedRows()
    )
    for group in message.groups:
        key = group.group_id, group.member_id, group.member_epoch
        answer = whole.again(key) if group.topics is None else None
        if answer is None:
            answer = yield from _answer(request, group, pace)
            if group.topics is None:
                size = 1 + sum(len(topic.partitions) for topic in answer.topics)
                whole.keep(key, answer, size)
        answers.append(answer)
        if pace.spend(_TOPIC_COST):
            yield
    # The rows of a repeated group are not counted again.
    counted = pace if len(answers) == 1 else None
    yield from request.finish_in_pieces(OffsetFetchResponse(0, (), 0, answers), counted)


def _fetched(
    request: Request,
    group_id: str,
    member: tuple[str | None, int],
    wanted: Wanted | None,
    pace: Pace,
) -> Generator[None, None, Found]:
    """Offsets that a group has committed for the wanted topics; None means all.

    `member` is the sender's member id and its epoch, if it is a member.
    """
    submit = request.node.submit_group_event
    is_stable = request.message.require_stable
    slot = ResultSlot()
    if wanted is None:
        submit(FetchOffsets(slot, group_id, None, is_stable, *member))
        return slot.result.error_code, slot.result.topics
    found = []
    is_asked = False
    for name, partitions in wanted:
        if name is None:
            if pace.spend(_ROW_COST):
                yield
            continue
        rows: list[FetchedOffset] = []
        for start in range(0, len(partitions), _SLICE):
            some = partitions[start : start + _SLICE]
            rows_of = [(name, some)]
            submit(FetchOffsets(slot, group_id, rows_of, is_stable, *member))
            is_asked = True
            if slot.result.error_code:
                # It may arrive late, if the coordinator has moved meanwhile.
                return slot.result.error_code, []
            ((_, looked_up),) = slot.result.topics
            rows += looked_up
            if pace.spend(_ROW_COST * len(some)):
                yield
        found.append((name, rows))
        if pace.spend(_TOPIC_COST):
            yield
    if not is_asked:
        # The error does not depend on the topics.
        submit(FetchOffsets(slot, group_id, (), is_stable, *member))
    return (slot.result.error_code, []) if slot.result.error_code else (0, found)


# -- before v8


def _reply_of_one(request: Request, found: Found, pace: Pace) -> Work:
    """Answers; in v1 only the partitions have room for the group's error."""
    error, topics = found
    named: Iterable[tuple[str, Iterable[FetchedOffset]]] = topics
    if error and request.version < 2 and request.message.topics is not None:
        named = (
            (t.name, _failed(t.partition_indexes, error))
            for t in request.message.topics
        )
    answers = []
    for name, rows in named:
        partitions = []
        for row in rows:
            partitions.append(OffsetFetchResponsePartition(*row))
            if pace.spend(_ROW_COST):
                yield
        answers.append(OffsetFetchResponseTopic(name, partitions))
        if pace.spend(_ROW_COST):
            yield
    yield from request.finish_in_pieces(OffsetFetchResponse(0, answers, error), pace)


# -- from v8 on


def _answer(
    request: Request, wanted: OffsetFetchRequestGroup, pace: Pace
) -> Generator[None, None, OffsetFetchResponseGroup]:
    known = request.node.cluster.topics
    by_id = request.version >= 10
    names: Wanted | None = None
    if wanted.topics is not None and by_id:
        names = _known(wanted.topics, known)
    elif wanted.topics is not None:
        names = ((t.name, t.partition_indexes) for t in wanted.topics)
    member = wanted.member_id, wanted.member_epoch
    error, found = yield from _fetched(request, wanted.group_id, member, names, pace)
    topics = []
    for name, rows in found:
        topic = known.by_name.get(name)
        if not by_id:
            topics.append((yield from _topic(name, b"", rows, pace)))
        elif topic is not None:
            topics.append((yield from _topic(name, topic.id, rows, pace)))
    if by_id and not error:
        for t in wanted.topics or ():
            if t.topic_id not in known.by_id:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                nothing = _failed(t.partition_indexes, code)
                topics.append((yield from _topic("", t.topic_id, nothing, pace)))
            elif pace.spend(_ROW_COST):
                yield
    return OffsetFetchResponseGroup(wanted.group_id, topics, error)


def _topic(
    name: str, topic_id: bytes, rows: Iterable[FetchedOffset], pace: Pace
) -> Generator[None, None, OffsetFetchResponseTopics]:
    partitions = []
    for row in rows:
        partitions.append(OffsetFetchResponsePartitions(*row))
        if pace.spend(_ROW_COST):
            yield
    if pace.spend(_ROW_COST):
        yield
    return OffsetFetchResponseTopics(name, topic_id, partitions)


def _known(
    wanted: Sequence[OffsetFetchRequestTopics], known: Topics
) -> Iterator[tuple[str | None, Sequence[int]]]:
    """The topics by name; None for those with unknown ids."""
    for t in wanted:
        topic = known.by_id.get(t.topic_id)
        yield None if topic is None else topic.name, t.partition_indexes


def _failed(partitions: Iterable[int], code: int) -> Iterator[FetchedOffset]:
    return ((index, -1, -1, "", code) for index in partitions)
