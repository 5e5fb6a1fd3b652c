"""CreatePartitions: adds partitions to topics (KIP-195)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from kohort.broker.handlers.mutations import count_mutation
from kohort.broker.handlers.refusal import TIMED_OUT, RefusedError
from kohort.broker.handlers.replicas import MAX_PARTITIONS, check_replicas
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.broker.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kohort.protocol.errors import ErrorCode

_COUNTED_COST = 1
"""Cost of counting one topic of a request, as `Pace` counts."""
_GROWN_COST = 100
"""Cost of saving one topic that grows; its partitions are extra."""
_COORDINATED = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactions"}
"""Topics whose size decides where something is coordinated."""
_REPEATED = RefusedError(ErrorCode.INVALID_REQUEST, "the request names it twice")


def handle(request: Request) -> None:
    """Adds partitions to each topic that can have them."""
    request.node.cluster.controller.submit(_grow(request), request.failed)


def _grow(request: Request) -> Work:
    message: CreatePartitionsRequest = request.message
    pace = Pace()
    names = (topic.name for topic in message.topics)
    times = yield from count_values(names, pace)
    results: list[CreatePartitionsTopicResult] = []
    if message.timeout_ms <= 0 and 1 in times.values():
        for wanted in message.topics:
            results.append(_refused(wanted.name, TIMED_OUT))
            if pace.spend(_COUNTED_COST):
                yield
    else:
        yield from _all_grown(request, times, pace, results)
    yield from request.finish_in_pieces(CreatePartitionsResponse(0, results))


def _all_grown(
    request: Request,
    times: Counter[str],
    pace: Pace,
    results: list[CreatePartitionsTopicResult],
) -> Work:
    """Grows the topics that are named once; repeated ones come first, once each."""
    for name, count in times.items():
        if count > 1:
            results.append(_refused(name, _REPEATED))
        if pace.spend(_COUNTED_COST):
            yield
    room = MAX_PARTITIONS
    for wanted in request.message.topics:
        if times[wanted.name] > 1:
            continue
        try:
            room -= yield from _grown(request, wanted, room, pace)
            results.append(CreatePartitionsTopicResult(wanted.name))
        except RefusedError as error:
            results.append(_refused(wanted.name, error))
        if pace.spend(_GROWN_COST):
            yield


def _refused(name: str, error: RefusedError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, error.code, error.why)


def _grown(
    request: Request,
    wanted: CreatePartitionsTopic,
    room: int,
    pace: Pace,
) -> Generator[None, None, int]:
    """Grows a topic, and returns the number of new partitions."""
    message: CreatePartitionsRequest = request.message
    topic = _growing(request, wanted)
    added = wanted.count - len(topic.partitions)
    if added > room:
        # Kafka has no better code, either: its metadata log has no room for it.
        raise RefusedError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"a request may create {MAX_PARTITIONS} partitions at most",
        )
    count_mutation(request, added)
    if not message.validate_only:
        placed = None
        if wanted.assignments is not None:
            placed = [list(each.broker_ids) for each in wanted.assignments]
        cluster = request.node.cluster
        try:
            yield from cluster.grow_topic(topic, wanted.count, placed, pace)
        except StorageError as error:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
    return added


def _growing(request: Request, wanted: CreatePartitionsTopic) -> Topic:
    """Returns the topic, if it can grow as requested."""
    topic = request.node.cluster.topics.by_name.get(wanted.name)
    if topic is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    if topic.name in _COORDINATED:
        # Kafka lets it grow, and then no longer finds its groups or transactions: they
        # hash to other partitions.
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{_COORDINATED[topic.name]} are found by the size of {topic.name}",
        )
    count = len(topic.partitions)
    if wanted.count <= count:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {wanted.name} has {count} partitions; {wanted.count} are not more",
        )
    if wanted.assignments is not None:
        added = wanted.count - count
        if len(wanted.assignments) != added:
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(wanted.assignments)} assignments for {added} new partitions",
            )
        nodes, factor = request.node.cluster.nodes, len(topic.replicas[0])
        for assignment in wanted.assignments:
            check_replicas(assignment.broker_ids, nodes, factor)
    return topic
