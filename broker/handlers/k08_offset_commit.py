"""OffsetCommit: topics are looked up here, the rest is the coordinator's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kohort.broker.coordinator.effects import CommitResult
from kohort.broker.coordinator.events import CommitOffsets, OffsetRow
from kohort.broker.log.partition import Partition
from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.errors import ErrorCode

_rows: dict[tuple[int, int], OffsetCommitResponsePartition] = {}
"""Rows of responses by (partition, error code): built once."""
_ROWS_LIMIT = 10_000
"""Rows kept: the partitions of all but the largest topics, in 1 MB."""


def _row(partition: int, error_code: int) -> OffsetCommitResponsePartition:
    key = partition, error_code
    row = _rows.get(key)
    if row is None:
        row = OffsetCommitResponsePartition(partition, error_code)
        if len(_rows) < _ROWS_LIMIT:
            _rows[key] = row
    return row


def handle(request: Request) -> None:
    """Commits what is about known partitions; unknown ones get their error."""
    message: OffsetCommitRequest = request.message
    by_id = request.version >= 10
    topics = request.node.cluster.topics
    offsets: list[OffsetRow] = []
    wanted_topics: list[OffsetCommitRequestTopic] = []
    errors: list[list[int]] = []
    is_known = True
    for wanted in message.topics:
        topic: Topic | None
        if by_id:
            topic, error = topics.by_id.get(wanted.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, error = topics.by_name.get(wanted.name), _UNKNOWN
        name, partitions = "", _NOTHING
        if topic is None:
            is_known = False
        elif wanted.partitions:
            name, partitions = topic.name, topic.partitions
        else:
            # Kafka's answer leaves out known topics of which nothing is asked.
            continue
        codes = []
        for p in wanted.partitions:
            index = p.partition_index
            if 0 <= index < len(partitions):
                codes.append(0)
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
                codes.append(int(_UNKNOWN if topic else error))
                is_known = False
        wanted_topics.append(wanted)
        errors.append(codes)
    if not is_known:
        _tell_unknown(request, wanted_topics, errors)
    if not offsets:
        request.reply(_response(wanted_topics, errors, is_known))
        return
    request.message = wanted_topics, errors, is_known
    request.node.groups.submit(_commit(request, message, offsets))


_NOTHING: Sequence[Partition] = ()
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _commit(
    request: Request, message: OffsetCommitRequest, offsets: Sequence[OffsetRow]
) -> CommitOffsets:
    return CommitOffsets(
        request,
        message.group_id,
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        request.version < 9,
        offsets,
        message.retention_time_ms,
    )


def _tell_unknown(
    request: Request, wanted: list[OffsetCommitRequestTopic], errors: list[list[int]]
) -> None:
    """Tells listeners what no coordinator hears of, by its error."""
    message: OffsetCommitRequest = request.message
    by_id = request.node.cluster.topics.by_id
    refused: dict[int, list[OffsetRow]] = {}
    for topic, codes in zip(wanted, errors, strict=True):
        known = by_id.get(topic.topic_id)
        # A topic of which there is an id only is called by that, in hexadecimals.
        name = topic.name or (topic.topic_id.hex() if known is None else known.name)
        for p, code in zip(topic.partitions, codes, strict=True):
            if code:
                row = name, p.partition_index, p.committed_offset, -1, None, None
                refused.setdefault(code, []).append(row)
    for code, rows in refused.items():
        request.node.groups.commit_refused(_commit(request, message, rows), code)


def respond(request: Request, result: CommitResult) -> None:
    """Puts the coordinator's codes in the places of the known partitions."""
    topics, errors, is_known = request.message
    if result.error_code or result.codes is not None:
        common = result.error_code
        each = iter(result.codes or ())
        take: Callable[[], int] = (lambda: common) if common else each.__next__
        errors = [[code or take() for code in codes] for codes in errors]
    request.reply(_response(topics, errors, is_known))


def _response(
    topics: list[OffsetCommitRequestTopic], errors: list[list[int]], is_known: bool
) -> OffsetCommitResponse:
    if not is_known:
        return OffsetCommitResponse(0, _merged(topics, errors))
    return OffsetCommitResponse(
        0,
        [
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    _row(p.partition_index, code)
                    for p, code in zip(topic.partitions, codes, strict=True)
                ],
            )
            for topic, codes in zip(topics, errors, strict=True)
        ],
    )


def _merged(
    topics: list[OffsetCommitRequestTopic], errors: list[list[int]]
) -> list[OffsetCommitResponseTopic]:
    """One entry per topic, as Kafka answers where something was unknown."""
    rows: dict[tuple[str, bytes], list[OffsetCommitResponsePartition]] = {}
    for topic, codes in zip(topics, errors, strict=True):
        rows.setdefault((topic.name, topic.topic_id), []).extend(
            _row(p.partition_index, code)
            for p, code in zip(topic.partitions, codes, strict=True)
        )
    return [OffsetCommitResponseTopic(*key, each) for key, each in rows.items()]
