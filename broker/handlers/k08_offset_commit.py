"""OffsetCommit: looks up the topics; the coordinator does the rest."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from kohort.broker.coordinator.effects import CommitResult
from kohort.broker.coordinator.events import (
    NO_OFFSETS,
    CommitOffsets,
    OffsetRow,
    Offsets,
)
from kohort.broker.handlers.commits import (
    ROW_COST,
    SLICE,
    Found,
    is_too_large,
    largest_batch,
    may_be_too_large,
)
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import Pace, Work, map_in_pieces
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.broker.topics.topics import Topics
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME
from kohort.protocol.repeated import RepeatedTopics

_Found = Found[OffsetCommitRequestTopic, OffsetCommitRequestPartition]
_INDEX = attrgetter("partition_index")
_COLUMNS = (
    _INDEX,
    attrgetter("committed_offset"),
    attrgetter("committed_leader_epoch"),
    attrgetter("committed_metadata"),
)

_PUBLISHED_COST = 1
"""Cost of an event about one unknown partition."""
_MOST_PUBLISHED = 1000
"""Unknown partitions in one event; a client rarely has one."""
_API = BY_NAME["OffsetCommit"]


def handle(request: Request) -> Work | None:
    """Commits the offsets of known partitions; unknown ones get an error."""
    message: OffsetCommitRequest = request.message
    topics = request.node.cluster.topics
    if type(message.topics) is RepeatedTopics:
        offsets = _repeated(topics, request.version, message.topics)
    else:
        offsets = _all_known(topics, request.version, message.topics)
    if offsets is None or may_be_too_large(request, offsets):
        return _in_pieces(request)
    request.node.submit_group_event(_commit(request, request, offsets))
    return None


class _Kept(NamedTuple):
    """The part of a repeated commit that stays the same while its topics do."""

    topics: tuple[Topic, ...]
    logs: tuple[Partition, ...]
    """The partitions, as those of the following columns."""
    names: tuple[str, ...]
    partitions: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    metadata: tuple[str | None, ...]
    answer: bytes
    """The response, without an error."""


_LOG_END = attrgetter("log_end_offset")


def _repeated(topics: Topics, version: int, wanted: RepeatedTopics) -> Offsets | None:
    """The offsets of a repeated commit; None if `_all_known` returns None."""
    kept: _Kept | None = wanted.layout.kept
    by_id = topics.by_id
    for topic in () if kept is None else kept.topics:
        if by_id.get(topic.id) is not topic:
            kept = None
    if kept is None:
        offsets = _all_known(topics, version, wanted)
        if offsets is not None:
            wanted.layout.kept = _constants(topics, version, wanted, offsets)
        return offsets
    _, logs, names, partitions, epochs, metadata, _ = kept
    ends = tuple(map(_LOG_END, logs))
    return Offsets(names, partitions, wanted.offsets, epochs, metadata, ends)


def _constants(
    topics: Topics, version: int, wanted: RepeatedTopics, offsets: Offsets
) -> _Kept:
    """The part of a commit of known partitions to keep."""
    found = [topics.by_name[name] for name in dict.fromkeys(offsets.topics)]
    rows = zip(offsets.topics, offsets.partitions, strict=True)
    return _Kept(
        tuple(found),
        tuple([topics.by_name[name].partitions[index] for name, index in rows]),
        offsets.topics,
        offsets.partitions,
        offsets.leader_epochs,
        offsets.metadata,
        _API.response(version).encode(_response(ErrorCode.NONE, wanted)),
    )


def _all_known(
    topics: Topics, version: int, wanted: Sequence[OffsetCommitRequestTopic]
) -> Offsets | None:
    """The offsets of a commit; None if partitions are unknown, or there are too many.

    None also for a topic without partitions, which Kafka's response leaves out.
    """
    found: list[tuple[tuple[Any, ...], ...]] = []
    left = SLICE
    for each in wanted:
        name, partitions, _ = _looked_up(topics, version, each)
        count = len(each.partitions)
        left -= count
        if partitions is None or not count or left < 0:
            return None
        columns = [tuple(map(column, each.partitions)) for column in _COLUMNS]
        indexes = columns[0]
        try:
            ends = tuple([partitions[index].log_end_offset for index in indexes])
        except IndexError:
            return None
        if min(indexes) < 0:
            return None
        found.append(((name,) * count, *columns, ends))
    if len(found) == 1:
        return Offsets(*found[0])
    if not found:
        return None
    by_column = zip(*found, strict=True)
    return Offsets(*(tuple(chain.from_iterable(each)) for each in by_column))


def respond(request: Request, result: CommitResult) -> None:
    """Answers a commit of known partitions."""
    message: OffsetCommitRequest = request.message
    if result.codes is not None:
        found = _Found(0)
        found.known = [(topic, topic.partitions) for topic in message.topics]
        request.go_on(_reply(request, found, result, Pace()))
        return
    topics = message.topics
    kept = topics.layout.kept if type(topics) is RepeatedTopics else None
    if kept is not None and not result.error_code:
        request.finish(kept.answer)
    else:
        request.finish(_response(result.error_code, topics))


def _response(
    error_code: int, wanted: Sequence[OffsetCommitRequestTopic]
) -> OffsetCommitResponse:
    """The response with the same error code for all partitions."""
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [
                OffsetCommitResponsePartition(row.partition_index, error_code)
                for row in topic.partitions
            ],
        )
        for topic in wanted
    ]
    return OffsetCommitResponse(0, topics)


# -- many partitions, and unknown ones


def _in_pieces(request: Request) -> Work:
    message: OffsetCommitRequest = request.message
    pace = Pace()
    topics = request.node.cluster.topics
    found = yield from _sorted(request, pace)
    if found.unknown:
        yield from _publish_refusals(request, found, pace)
    has_expiry = message.retention_time_ms != -1
    if found.is_too_large or (
        yield from is_too_large(request, found, pace, has_expiry=has_expiry)
    ):
        token = _Token(request, found, pace, is_refused=True)
        request.node.submit_group_event(_commit(token, request, NO_OFFSETS))
    elif found.is_stale(topics):
        yield from _in_pieces(request)
    elif found.count:
        token = _Token(request, found, pace)
        request.node.submit_group_event(_commit(token, request, found.offsets))
    else:
        yield from _reply(request, found, CommitResult(ErrorCode.NONE), pace)


def _sorted(request: Request, pace: Pace) -> Generator[None, None, _Found]:
    """Looks up all partitions."""
    message: OffsetCommitRequest = request.message
    topics = request.node.cluster.topics
    found = _Found(largest_batch(topics))
    for wanted in message.topics:
        name, partitions, error = _looked_up(topics, request.version, wanted)
        known: list[OffsetCommitRequestPartition] = []
        unknown: list[OffsetCommitRequestPartition] = []
        for start in range(0, len(wanted.partitions), SLICE):
            some = wanted.partitions[start : start + SLICE]
            found.sort(some, name, partitions or (), known, unknown)
            if pace.spend(ROW_COST * len(some)):
                yield
        # Kafka's response leaves out known topics without partitions.
        if unknown or partitions is None:
            found.unknown.append((wanted, unknown, error))
        if known:
            found.known.append((wanted, known))
        if pace.spend(ROW_COST):
            yield
    return found


def _looked_up(
    topics: Topics, version: int, wanted: OffsetCommitRequestTopic
) -> tuple[str, Sequence[Partition] | None, ErrorCode]:
    """A topic's name and partitions, and the error for missing partitions."""
    error = _UNKNOWN
    if version >= 10:
        topic = topics.by_id.get(wanted.topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = topics.by_name.get(wanted.name)
    if topic is None:
        return "", None, error
    return topic.name, topic.partitions, error


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Token:
    """Token of the commit: the request goes on when the log has the offsets.

    Args:
        request: the request.
        found: its partitions.
        pace: has counted the work so far.
        is_refused: the log does not accept these offsets. The coordinator was asked
            about none of them: a member that may not commit gets its error first.
    """

    __slots__ = ("_found", "_is_refused", "_pace", "_request")

    def __init__(
        self, request: Request, found: _Found, pace: Pace, *, is_refused: bool = False
    ) -> None:
        self._request = request
        self._found = found
        self._pace = pace
        self._is_refused = is_refused

    def answer(self, result: CommitResult) -> None:
        """Takes the coordinator's result."""
        request = self._request
        if self._is_refused and not result.error_code:
            result = CommitResult(ErrorCode.UNKNOWN_SERVER_ERROR)
            nothing = _commit(self, request, NO_OFFSETS)
            request.node.commit_refused(nothing, result.error_code)
        request.go_on(_reply(request, self._found, result, self._pace))


# -- events and responses


def _commit(token: object, request: Request, offsets: Offsets) -> CommitOffsets:
    message: OffsetCommitRequest = request.message
    return CommitOffsets(
        token,
        message.group_id,
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        request.client,
        request.version < 9,
        offsets,
        message.retention_time_ms,
    )


def _publish_refusals(request: Request, found: _Found, pace: Pace) -> Work:
    """Publishes the offsets of unknown partitions, by their errors."""
    by_id = request.node.cluster.topics.by_id
    refused: dict[int, list[OffsetRow]] = {}
    for topic, partitions, error in found.unknown:
        known = by_id.get(topic.topic_id)
        # A topic without a known name is listed by its id, in hexadecimal.
        name = topic.name or (topic.topic_id.hex() if known is None else known.name)
        for p in partitions:
            rows = refused.setdefault(error, [])
            if len(rows) < _MOST_PUBLISHED:
                row = name, p.partition_index, p.committed_offset, -1, None, None
                rows.append(row)
            if pace.spend(_PUBLISHED_COST):
                yield
    for code, rows in refused.items():
        refusal = _commit(None, request, Offsets.of(rows))
        request.node.commit_refused(refusal, code)


def _reply(request: Request, found: _Found, result: CommitResult, pace: Pace) -> Work:
    """Answers; see `Found.answers`."""
    make = OffsetCommitResponsePartition
    answers = yield from found.answers(result, make, pace)
    topics = yield from map_in_pieces(
        lambda each: OffsetCommitResponseTopic(*each), answers, pace
    )
    yield from request.finish_in_pieces(OffsetCommitResponse(0, topics), pace)
