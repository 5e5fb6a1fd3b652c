"""OffsetCommit: looks up the topics; the coordinator decides the rest."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from itertools import chain, repeat

from kohort.broker.coordinator.effects import CommitResult
from kohort.broker.coordinator.events import CommitOffsets, OffsetRow
from kohort.broker.coordinator.offsets import is_too_long
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.shards.group_records import (
    LARGEST_FRAME,
    MOST_NAME,
    SMALLEST_RECORD,
    BatchSize,
)
from kohort.broker.topics.topic import OFFSETS_TOPIC
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

_ROWS_LIMIT = 10_000
"""Rows of responses kept: the partitions of all but the largest topics, in 1 MB."""
_row = functools.lru_cache(_ROWS_LIMIT)(OffsetCommitResponsePartition)

_Partitions = Sequence[OffsetCommitRequestPartition]

_SLICE = 500
"""Partitions looked up between two checks whether a piece is full."""
_ROW_COST = 2
"""Cost of looking up one partition, as `Pace` counts."""
_SIZED_COST = 1
"""Cost of counting the bytes of one offset."""
_PUBLISHED_COST = 1
"""Cost of an event about one unknown partition."""
_MOST_PUBLISHED = 1000
"""Unknown partitions that one event names; a client rarely has one."""


def handle(request: Request) -> Work:
    """Commits the offsets of known partitions; unknown ones get their error."""
    message: OffsetCommitRequest = request.message
    pace = Pace()
    found = _Found(_largest_batch(request.node.cluster.topics))
    for wanted in message.topics:
        name, partitions, error = _looked_up(request, wanted)
        known: list[OffsetCommitRequestPartition] = []
        unknown: list[OffsetCommitRequestPartition] = []
        for start in range(0, len(wanted.partitions), _SLICE):
            some = wanted.partitions[start : start + _SLICE]
            found.sort(some, name, partitions or (), known, unknown)
            if pace.spend(_ROW_COST * len(some)):
                yield
        # Kafka's answer leaves out known topics without partitions.
        if unknown or partitions is None:
            found.unknown.append((wanted, unknown, error))
        if known:
            found.known.append((wanted, known))
        if pace.spend(_ROW_COST):
            yield
    if found.unknown:
        yield from _publish_refusals(request, found, pace)
    if found.is_too_large or (
        _may_be_too_large(request, found)
        and (yield from _is_too_large(request, found, pace))
    ):
        token = _Token(request, found, pace, is_refused=True)
        request.node.submit_group_event(_commit(token, request, []))
    elif found.offsets:
        token = _Token(request, found, pace)
        request.node.submit_group_event(_commit(token, request, found.offsets))
    else:
        yield from _reply(request, found, CommitResult(ErrorCode.NONE), pace)


def _looked_up(
    request: Request, wanted: OffsetCommitRequestTopic
) -> tuple[str, Sequence[Partition] | None, ErrorCode]:
    """A topic's name and partitions, and the error of those that it has not."""
    topics = request.node.cluster.topics
    error = _UNKNOWN
    if request.version >= 10:
        topic = topics.by_id.get(wanted.topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = topics.by_name.get(wanted.name)
    if topic is None:
        return "", None, error
    return topic.name, topic.partitions, error


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Found:
    """The partitions of a commit, sorted into known and unknown ones.

    Args:
        largest: bytes of the largest batch that the log takes.

    Attributes:
        largest: see above.
        known: by topic, the partitions that exist.
        unknown: by topic, the others, and their error.
        offsets: the offsets to commit, of known partitions.
        is_too_large: whether there are more offsets than any batch has room for; then
            they are not kept.
    """

    __slots__ = (
        "is_too_large",
        "known",
        "largest",
        "offsets",
        "unknown",
    )

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.known: list[tuple[OffsetCommitRequestTopic, _Partitions]] = []
        self.unknown: list[tuple[OffsetCommitRequestTopic, _Partitions, ErrorCode]] = []
        self.offsets: list[OffsetRow] = []
        self.is_too_large = False

    def sort(
        self,
        wanted: _Partitions,
        name: str,
        partitions: Sequence[Partition],
        known: list[OffsetCommitRequestPartition],
        unknown: list[OffsetCommitRequestPartition],
    ) -> None:
        """Takes partitions of one topic, and adds each to one of the two lists."""
        offsets = self.offsets
        for p in wanted:
            index = p.partition_index
            if 0 <= index < len(partitions):
                known.append(p)
                offsets.append(
                    (
                        name,
                        index,
                        p.committed_offset,
                        p.committed_leader_epoch,
                        p.committed_metadata,
                        partitions[index].log_end_offset,
                    )
                )
            else:
                unknown.append(p)
        if self.is_too_large or len(offsets) * SMALLEST_RECORD > self.largest:
            self.is_too_large = True
            offsets.clear()


# -- too much for one batch


def _largest_batch(topics: Topics) -> int:
    """Bytes that a batch of ``__consumer_offsets`` may have."""
    topic = topics.by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return topics.log_config({}).max_message_bytes
    return topic.partitions[0].config.max_message_bytes


def _may_be_too_large(request: Request, found: _Found) -> bool:
    """Whether this many offsets could be too large, if each were of the longest."""
    # Longer metadata does not come to the log.
    longest: int = request.node.cluster.config["offset.metadata.max.bytes"]
    group_id = request.message.group_id
    most = LARGEST_FRAME + 4 * len(group_id) + MOST_NAME + 4 * longest
    return len(found.offsets) * most > found.largest


def _is_too_large(
    request: Request, found: _Found, pace: Pace
) -> Generator[None, None, bool]:
    """Whether the log does not take these offsets, which go into one batch."""
    message: OffsetCommitRequest = request.message
    longest = request.node.cluster.config["offset.metadata.max.bytes"]
    size = BatchSize(message.group_id, has_expiry=message.retention_time_ms != -1)
    for topic, _, _, _, metadata, _ in found.offsets:
        if metadata is None or not is_too_long(metadata, longest):
            size.add(topic, metadata or "")
        if pace.spend(_SIZED_COST):
            yield
    return size.total > found.largest


class _Token:
    """Token of the commit: the request goes on when the log has the offsets.

    Args:
        request: the request.
        found: its partitions.
        pace: counted the work so far.
        is_refused: the log does not take these offsets. The coordinator was asked
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
            nothing = _commit(self, request, [])
            request.node.commit_refused(nothing, result.error_code)
        request.go_on(_reply(request, self._found, result, self._pace))


# -- telling, and answering


def _commit(
    token: object, request: Request, offsets: Sequence[OffsetRow]
) -> CommitOffsets:
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
        # A topic without a known name is listed by its id, in hexadecimals.
        name = topic.name or (topic.topic_id.hex() if known is None else known.name)
        for p in partitions:
            rows = refused.setdefault(error, [])
            if len(rows) < _MOST_PUBLISHED:
                row = name, p.partition_index, p.committed_offset, -1, None, None
                rows.append(row)
            if pace.spend(_PUBLISHED_COST):
                yield
    for code, rows in refused.items():
        refusal = _commit(None, request, rows)
        request.node.commit_refused(refusal, code)


def _reply(request: Request, found: _Found, result: CommitResult, pace: Pace) -> Work:
    """Answers; unknown partitions come first, then the others with the result's codes.

    If a partition was unknown, Kafka has one entry per topic.
    """
    codes = repeat(result.error_code) if result.codes is None else iter(result.codes)
    answers: list[OffsetCommitResponseTopic] = []
    merged: dict[tuple[str, bytes], list[OffsetCommitResponsePartition]] = {}
    rows_of = chain(
        ((topic, some, repeat(int(error))) for topic, some, error in found.unknown),
        ((topic, some, codes) for topic, some in found.known),
    )
    for topic, partitions, codes_of in rows_of:
        key = topic.name, topic.topic_id
        if not found.unknown or key not in merged:
            merged[key] = []
            answers.append(OffsetCommitResponseTopic(*key, merged[key]))
        rows = merged[key]
        for start in range(0, len(partitions), _SLICE):
            some = partitions[start : start + _SLICE]
            rows += map(_row, [p.partition_index for p in some], codes_of)
            if pace.spend(len(some)):
                yield
    yield from request.reply_in_pieces(OffsetCommitResponse(0, answers), pace)
