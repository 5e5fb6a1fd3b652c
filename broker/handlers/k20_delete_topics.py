"""DeleteTopics: by name, or by id (KIP-516)."""

from __future__ import annotations

from collections import Counter

from kohort.broker.handlers.mutations import count_mutation
from kohort.broker.handlers.refusal import TIMED_OUT, RefusedError
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID

_FOUND_COST = 3
"""Cost of looking up one topic, or answering for it, as `Pace` counts."""

_Key = tuple[str | None, bytes]
"""The name and the id of a requested topic, one of which is empty."""


def handle(request: Request) -> None:
    """Deletes each topic that exists, and the groups' committed offsets for it."""
    request.node.cluster.controller.submit(_delete(request), request.failed)


def _delete(request: Request) -> Work:
    message: DeleteTopicsRequest = request.message
    if request.version >= 6:
        wanted = message.topics
    else:
        wanted = [DeleteTopicState(name) for name in message.topic_names]
    pace = Pace()
    times = yield from count_values(((w.name, w.topic_id) for w in wanted), pace)
    results: list[DeletableTopicResult] = []
    error = _why_none(request, times)
    if error is not None:
        for w in wanted:
            results.append(_refused(w, error))
            if pace.spend(_FOUND_COST):
                yield
        yield from request.finish_in_pieces(DeleteTopicsResponse(0, results))
        return
    found: dict[_Key, Topic | RefusedError] = {}
    for w in wanted:
        key = w.name, w.topic_id
        if not _is_valid(key):
            why = "neither a name nor an id" if w.name is None else "a name and an id"
            results.append(_refused(w, _invalid(why)))
        elif key not in found:
            found[key] = _REPEATED if times[key] > 1 else _found(request, w)
        if pace.spend(_FOUND_COST):
            yield
    yield from _deleted(request, found, pace, results)
    yield from request.finish_in_pieces(DeleteTopicsResponse(0, results))


def _deleted(
    request: Request,
    found: dict[_Key, Topic | RefusedError],
    pace: Pace,
    results: list[DeletableTopicResult],
) -> Work:
    """Deletes the topics that are named once, and adds the results of all."""
    times = Counter(t.name for t in found.values() if isinstance(t, Topic))
    topics: list[Topic] = []
    places: list[int] = []
    for (name, topic_id), topic in found.items():
        if isinstance(topic, RefusedError):
            results.append(_refused(DeleteTopicState(name, topic_id), topic))
        elif times[topic.name] == 1:
            result = _permitted(request, topic)
            if not result.error_code:
                places.append(len(results))
                topics.append(topic)
            results.append(result)
        elif name is not None:
            both = DeleteTopicState(topic.name, topic.id)
            results.append(_refused(both, _invalid("the request has its id, too")))
        if pace.spend(_FOUND_COST):
            yield
    if topics:
        try:
            yield from request.node.cluster.delete_topics(topics, pace)
        except StorageError as error:
            refusal = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            for place, topic in zip(places, topics, strict=True):
                state = DeleteTopicState(topic.name, topic.id)
                results[place] = _refused(state, refusal)


def _permitted(request: Request, topic: Topic) -> DeletableTopicResult:
    """Counts the deletion against the quota; returns the topic's result."""
    try:
        count_mutation(request, len(topic.partitions))
    except RefusedError as error:
        return _refused(DeleteTopicState(topic.name, topic.id), error)
    return DeletableTopicResult(topic.name, topic.id, 0, None)


def _why_none(request: Request, times: Counter[_Key]) -> RefusedError | None:
    """The reason for refusing the whole request, if there is one."""
    if not request.node.cluster.config["delete.topic.enable"]:
        # Versions before 3 have no error code for this.
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if request.version < 3:
            error = ErrorCode.INVALID_REQUEST
        return RefusedError(error, None)
    is_late = request.message.timeout_ms <= 0
    if is_late and any(n == 1 and _is_valid(key) for key, n in times.items()):
        return TIMED_OUT
    return None


def _is_valid(key: _Key) -> bool:
    """Returns whether a key has either a name or an id, not both."""
    name, topic_id = key
    return (name is None) != (topic_id == ZERO_UUID)


def _found(request: Request, wanted: DeleteTopicState) -> Topic | RefusedError:
    """The topic that a name or an id refers to."""
    topics = request.node.cluster.topics
    if wanted.name is None:
        return topics.by_id.get(wanted.topic_id) or RefusedError(
            ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id"
        )
    return topics.by_name.get(wanted.name) or RefusedError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name}"
    )


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, why)


_REPEATED = _invalid("the request has it twice")


def _refused(wanted: DeleteTopicState, error: RefusedError) -> DeletableTopicResult:
    return DeletableTopicResult(wanted.name, wanted.topic_id, error.code, error.why)
