"""DeleteTopics: by name, or by id (KIP-516)."""

from __future__ import annotations

from collections import Counter

from kohort.broker.handlers.refusal import TIMED_OUT, RefusedError
from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.broker.topics import Topic
from kohort.protocol.apis.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import ZERO_UUID


def handle(request: Request) -> None:
    """Deletes each topic that exists, and what groups have committed for it."""
    message: DeleteTopicsRequest = request.message
    if request.version >= 6:
        wanted = list(message.topics)
    else:
        wanted = [DeleteTopicState(name) for name in message.topic_names]
    request.reply(DeleteTopicsResponse(0, _results(request, wanted)))


def _results(
    request: Request, wanted: list[DeleteTopicState]
) -> list[DeletableTopicResult]:
    error = _why_none(request)
    if error is not None:
        return [_refused(w, error) for w in wanted]
    plain, results = [], []
    for w in wanted:
        if (w.name is None) == (w.topic_id == ZERO_UUID):
            why = "neither a name nor an id" if w.name is None else "a name and an id"
            results.append(_refused(w, _invalid(why)))
        else:
            plain.append(w)
    found = _found(request, plain)
    times = Counter(t.name for t in found.values() if isinstance(t, Topic))
    for (name, topic_id), topic in found.items():
        if isinstance(topic, RefusedError):
            results.append(_refused(DeleteTopicState(name, topic_id), topic))
        elif times[topic.name] == 1:
            results.append(_deleted(request, topic))
        elif name is not None:
            both = DeleteTopicState(topic.name, topic.id)
            results.append(_refused(both, _invalid("the request has its id, too")))
    return results


def _deleted(request: Request, topic: Topic) -> DeletableTopicResult:
    try:
        request.node.cluster.delete_topic(topic.name)
    except StorageError as error:
        refusal = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return _refused(DeleteTopicState(topic.name, topic.id), refusal)
    return DeletableTopicResult(topic.name, topic.id, 0, None)


def _why_none(request: Request) -> RefusedError | None:
    """Why nothing at all is deleted."""
    if not request.node.cluster.config["delete.topic.enable"]:
        # Before v3 there was no error code of its own for it.
        error = ErrorCode.TOPIC_DELETION_DISABLED
        if request.version < 3:
            error = ErrorCode.INVALID_REQUEST
        return RefusedError(error, "delete.topic.enable is false")
    if request.message.timeout_ms <= 0:
        return RefusedError(ErrorCode.REQUEST_TIMED_OUT, TIMED_OUT)
    return None


def _found(
    request: Request, wanted: list[DeleteTopicState]
) -> dict[tuple[str | None, bytes], Topic | RefusedError]:
    """What each name or id stands for; repeated ones stand for nothing."""
    topics = request.node.cluster.topics
    found: dict[tuple[str | None, bytes], Topic | RefusedError] = {}
    for name, topic_id in ((w.name, w.topic_id) for w in wanted):
        topic: Topic | RefusedError
        if (name, topic_id) in found:
            topic = _invalid("the request has it twice")
        elif name is None:
            topic = topics.by_id.get(topic_id) or RefusedError(
                ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id"
            )
        else:
            topic = topics.by_name.get(name) or RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"
            )
        found[name, topic_id] = topic
    return found


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, why)


def _refused(wanted: DeleteTopicState, error: RefusedError) -> DeletableTopicResult:
    return DeletableTopicResult(wanted.name, wanted.topic_id, error.code, error.why)
