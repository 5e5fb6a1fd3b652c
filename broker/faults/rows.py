"""Errors for some of a request's partitions: the others are handled as usual.

A rule with an error and with ``topic`` or ``partition`` strikes only these rows of the
APIs in `APIS`.

1. `split` divides the request into two, the kept and the struck rows.
2. The handler gets the kept ones; `answers.error_answer` answers the struck ones.
3. `Errors.join` puts the errors into the response.

A request for Metadata names topics, and no partitions. If a partition is struck, or one
of all topics, the request is handled as it is, and `Errors.join` changes the rows of
its response.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from kohort.broker.cluster.fetch_sessions import FINAL_EPOCH
from kohort.broker.faults.answers import OF_SESSIONS
from kohort.broker.faults.facts import PARTITION_ROWS, TOPIC_ROWS, Facts, index_of
from kohort.broker.faults.rule import Rule
from kohort.broker.long_work import Pace
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import fields_of
from kohort.protocol.slotted import replace

APIS: Final = frozenset(
    {
        "DeleteRecords",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetCommit",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "Produce",
        "TxnOffsetCommit",
    }
)
"""APIs whose requests may fail for some partitions, and succeed for others."""
_OF_REQUESTS: Final = OF_SESSIONS | {ErrorCode.REBOOTSTRAP_REQUIRED}
"""Errors that no row has."""
_ROW_COST: Final = 1
"""Cost of one partition, as `Pace` counts."""
_NO_LEADER: Final = -1


def is_of_rows(rule: Rule, api: str) -> bool:
    """Returns whether a rule's error is that of single rows."""
    return (
        rule.error is not None
        and (rule.topic is not None or rule.partition is not None)
        and api in APIS
        and ErrorCode[rule.error] not in _OF_REQUESTS
    )


def has_rows(request: Request, rule: Rule) -> bool:
    """Returns whether a request names the rows that the rule strikes."""
    if request.api.name != "Metadata":
        return True
    return rule.partition is None and bool(request.message.topics)


def split(facts: Facts, rule: Rule) -> Generator[None, None, tuple[Any, Any]]:
    """Divides a request that a rule has struck.

    Returns:
        The request without the struck rows, None if it has no others; and the request
        with these only.
    """
    message = facts.request.message
    if facts.request.api.name == "Fetch":
        message = _without_session(facts, message)
    if getattr(message, "groups", ()):
        return (yield from _split(message, "groups", facts, rule, Pace()))
    return (yield from _split(message, _topics_of(message), facts, rule, Pace()))


def _split(
    owner: Any, name: str, facts: Facts, rule: Rule, pace: Pace
) -> Generator[None, None, tuple[Any, Any]]:
    """Divides a message by its rows: groups, topics, or partitions."""
    kept: list[Any] = []
    parts: tuple[Any, Any]
    struck: list[Any] = []
    for row in getattr(owner, name):
        if name == "groups":
            if (rule.group is None or rule.group == row.group_id) and row.topics:
                parts = yield from _split(row, "topics", facts, rule, pace)
            else:
                parts = row, None
        elif name in PARTITION_ROWS:
            parts = (None, row) if index_of(row) == rule.partition else (row, None)
        elif rule.topic is not None and facts.name_of(row) != rule.topic:
            parts = row, None
        elif rule.partition is None:
            parts = None, row
        else:
            inner = next(each for each in PARTITION_ROWS if hasattr(row, each))
            parts = yield from _split(row, inner, facts, rule, pace)
        some, others = parts
        kept += [] if some is None else [some]
        struck += [] if others is None else [others]
        if pace.spend(_ROW_COST):
            yield
    return (
        replace(owner, **{name: kept}) if kept else None,
        replace(owner, **{name: struck}) if struck else None,
    )


def _topics_of(message: Any) -> str:
    return next(name for name in TOPIC_ROWS if getattr(message, name, ()))


def _without_session(facts: Facts, message: Any) -> Any:
    """A Fetch that lists all partitions of its session, which ends.

    The client keeps only the partitions that it believes to be in the session, so after
    an error it has to list all of them again. An error is no reason to wait.
    """
    request = facts.request
    module, sessions = request.api.module, request.node.fetch_sessions
    session = sessions.get(message.session_id) if message.session_epoch > 0 else None
    topics = message.topics
    if session is not None:
        by_id = session.uses_topic_ids
        rows = {
            key: module.FetchPartition(
                each.partition,
                each.leader_epoch,
                each.fetch_offset,
                partition_max_bytes=each.max_bytes,
            )
            for key, each in session.partitions.items()
        }
        for topic in message.topics:
            key = topic.topic_id if by_id else topic.topic
            rows |= {(key, each.partition): each for each in topic.partitions}
        for topic in message.forgotten_topics_data:
            key = topic.topic_id if by_id else topic.topic
            for index in topic.partitions:
                rows.pop((key, index), None)
        found: dict[str | bytes, list[Any]] = {}
        for (key, _), row in rows.items():
            found.setdefault(key, []).append(row)
        name = "topic_id" if by_id else "topic"
        topics = [
            module.FetchTopic(**{name: key}, partitions=some)
            for key, some in found.items()
        ]
        sessions.close(session.id)
    return replace(
        message,
        topics=topics,
        forgotten_topics_data=(),
        session_id=0,
        session_epoch=FINAL_EPOCH,
        max_wait_ms=0,
    )


class Errors:
    """The errors of a request's struck rows, until its response takes them up.

    Args:
        rule: the rule that struck them.
        version: the request's version.
        response: a response with these rows only; None for Metadata.
    """

    __slots__ = ("_response", "_version", "rule")

    def __init__(self, rule: Rule, version: int, response: Any = None) -> None:
        self.rule = rule
        self._version = version
        self._response = response

    def join(self, response: Any) -> Any:
        """The response to the other rows, with the errors of these."""
        if self._response is not None:
            return self._joined(response, self._response)
        return replace(response, topics=[*map(self._without_leader, response.topics)])

    def _joined(self, found: Any, errors: Any) -> Any:
        cls: type = type(errors)
        for field in fields_of(cls):
            rows = getattr(errors, field.name)
            if field.name in _ROWS and rows:
                merged = self._merged(getattr(found, field.name), rows)
                return replace(found, **{field.name: merged})
        return found

    def _merged(self, found: Sequence[Any], errors: Sequence[Any]) -> list[Any]:
        """Rows of groups, topics or partitions, and those with the errors."""
        merged = [*found]
        places: dict[object, int] = {}
        for place, row in enumerate(found):
            places.setdefault(self._subject(row), place)
        for row in errors:
            subject = self._subject(row)
            if subject not in places:
                merged.append(row)
            else:
                place = places[subject]
                merged[place] = self._joined(merged[place], row)
        return merged

    def _subject(self, row: Any) -> object:
        """The name or id of the row's group or topic, or the index of a partition."""
        cls: type = type(row)
        return tuple(
            getattr(row, field.name)
            for field in fields_of(cls)
            if field.name in _SUBJECTS and field.exists_in(self._version)
        )

    def _without_leader(self, topic: Any) -> Any:
        """A topic of Metadata: with the error, or with that of a partition."""
        rule = self.rule
        if rule.topic not in {None, topic.name}:
            return topic
        code = ErrorCode[rule.error or ""]
        if rule.partition is None:
            return replace(topic, error_code=code, partitions=())
        rows = [
            replace(row, error_code=code, leader_id=_NO_LEADER)
            if row.partition_index == rule.partition
            else row
            for row in topic.partitions
        ]
        return replace(topic, partitions=rows)


_ROWS: Final = frozenset(
    {"groups", "partition_responses", "partitions", "responses", "topics"}
)
"""Fields of responses with the rows of groups, topics and partitions."""
_SUBJECTS: Final = frozenset(
    {"group_id", "name", "topic", "topic_id", "partition_index", "partition", "index"}
)
"""Fields that identify a row."""
