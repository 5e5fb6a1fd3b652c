"""CreateTopics: with partitions by number, or placed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from kohort.broker.cluster.new_topics import NewTopics
from kohort.broker.handlers import configs
from kohort.broker.handlers.mutations import count_mutation
from kohort.broker.handlers.refusal import TIMED_OUT, RefusedError
from kohort.broker.handlers.replicas import MAX_PARTITIONS, check_replicas
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.broker.topics.topic import METADATA_TOPIC
from kohort.protocol.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.errors import ErrorCode

_DEFAULT = -1
_COUNTED_COST = 1
"""Cost of counting or refusing one topic of a request, as `Pace` counts."""
_CREATED_COST = 100
"""Cost of checking and showing its configuration; its partitions are extra."""
_IS_RESERVED = RefusedError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is reserved")


def handle(request: Request) -> None:
    """Creates each topic that can be created."""
    request.node.cluster.controller.submit(_create(request), request.failed)


def _create(request: Request) -> Work:
    message: CreateTopicsRequest = request.message
    pace, total, wanted = Pace(), 0, 0
    default = request.node.cluster.config["num.partitions"]
    times = yield from count_values((topic.name for topic in message.topics), pace)
    for topic in message.topics:
        if times[topic.name] == 1 and topic.name != METADATA_TOPIC:
            wanted += 1
            total += max(_count(topic, default), 0)
        if pace.spend(_COUNTED_COST):
            yield
    results: list[CreatableTopicResult] = []
    error = None
    if wanted and message.timeout_ms <= 0:
        error = TIMED_OUT
    elif total > MAX_PARTITIONS:
        error = RefusedError(
            ErrorCode.POLICY_VIOLATION,
            f"{total} partitions are more than a request may create ({MAX_PARTITIONS})",
        )
    if error is None:
        yield from _created(request, times, pace, results)
    else:
        for topic in message.topics:
            results.append(_refused(topic, error))
            if pace.spend(_COUNTED_COST):
                yield
    yield from request.finish_in_pieces(CreateTopicsResponse(0, results))


def _created(
    request: Request,
    times: Counter[str],
    pace: Pace,
    results: list[CreatableTopicResult],
) -> Work:
    """Creates the topics that are named once; each name gets one result."""
    new = NewTopics(request.node.cluster)
    # The places of the new topics in `results`.
    places: list[int] = []
    repeated = RefusedError(ErrorCode.INVALID_REQUEST, "the request names it twice")
    refused: dict[str, CreatableTopicResult] = {}
    reserved: CreatableTopicResult | None = None
    for topic in request.message.topics:
        if times[topic.name] > 1:
            refused[topic.name] = _refused(topic, repeated)
            cost = _COUNTED_COST
        elif topic.name == METADATA_TOPIC:
            reserved = _refused(topic, _IS_RESERVED)
            cost = _COUNTED_COST
        else:
            result = yield from _result(request, topic, new, pace)
            if not result.error_code:
                places.append(len(results))
            results.append(result)
            cost = _CREATED_COST
        if new.is_full:
            _enter(new, places, results)
        if pace.spend(cost):
            yield
    _enter(new, places, results)
    results += refused.values()
    if reserved is not None:
        results.append(reserved)


def _enter(
    new: NewTopics, places: list[int], results: list[CreatableTopicResult]
) -> None:
    """Enters the new topics; if that fails, their results have the error."""
    try:
        new.enter()
    except StorageError as error:
        storage = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        for place in places:
            results[place] = _refused(results[place], storage)
    places.clear()


def _count(topic: CreatableTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == _DEFAULT else topic.num_partitions


def _refused(
    topic: CreatableTopic | CreatableTopicResult, error: RefusedError
) -> CreatableTopicResult:
    return CreatableTopicResult(
        topic.name, error_code=error.code, error_message=error.why
    )


def _result(
    request: Request, topic: CreatableTopic, new: NewTopics, pace: Pace
) -> Generator[None, None, CreatableTopicResult]:
    cluster = request.node.cluster
    try:
        _check_name(request, topic.name)
        overrides = _overrides(topic)
        configs.check_topic(cluster.config, overrides)
        partitions, factor, replicas = _placed(request, topic)
        count_mutation(request, partitions)
        if request.message.validate_only:
            topic_id = cluster.ids.topic_id()
        else:
            if replicas is None:
                replicas = cluster.spread_topic(partitions, factor)
            made = yield from new.make(topic.name, replicas, overrides, pace)
            topic_id = made.id
    except RefusedError as error:
        return _refused(topic, error)
    except StorageError as error:
        storage = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return _refused(topic, storage)
    shown = _shown(request, overrides) if request.version >= 5 else ()
    return CreatableTopicResult(
        topic.name, topic_id, 0, None, 0, partitions, factor, shown
    )


def _check_name(request: Request, name: str) -> None:
    topics = request.node.cluster.topics
    if name in topics.by_name:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
    why = topics.why_illegal(name)
    if why is not None:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    """The topic's configuration; the last value for a key counts."""
    overrides = {}
    for config in topic.configs:
        if config.value is None:
            raise RefusedError(ErrorCode.INVALID_CONFIG, f"{config.name} is null")
        overrides[config.name] = config.value
    return overrides


def _placed(
    request: Request, topic: CreatableTopic
) -> tuple[int, int, list[list[int]] | None]:
    """Number of partitions, replication factor, and node ids of assigned replicas."""
    cluster = request.node.cluster
    if topic.assignments:
        if topic.replication_factor != _DEFAULT or topic.num_partitions != _DEFAULT:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                "with assignments, num_partitions and replication_factor must be -1",
            )
        return _placed_by_hand(request, list(topic.assignments))
    replicas: int = topic.replication_factor
    if replicas == _DEFAULT:
        replicas = cluster.config["default.replication.factor"]
    partitions = _count(topic, cluster.config["num.partitions"])
    if replicas <= 0:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "the replication factor must be at least 1, or -1 for the default",
        )
    if partitions <= 0:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            "the number of partitions must be at least 1, or -1 for the default",
        )
    if replicas > len(cluster.nodes):
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replicas} replicas do not fit on {len(cluster.nodes)} broker(s)",
        )
    return partitions, replicas, None


def _placed_by_hand(
    request: Request, assignments: list[CreatableReplicaAssignment]
) -> tuple[int, int, list[list[int]]]:
    indexes = [assignment.partition_index for assignment in assignments]
    replicas = len(assignments[0].broker_ids)
    for assignment in assignments:
        check_replicas(assignment.broker_ids, request.node.cluster.nodes, replicas)
    if sorted(indexes) != list(range(len(indexes))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the partitions of the assignments must be 0, 1, 2, ... once each",
        )
    placed = {each.partition_index: list(each.broker_ids) for each in assignments}
    return len(indexes), replicas, [placed[index] for index in sorted(indexes)]


def _shown(request: Request, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
    """The topic's configuration, with values as they were sent (KIP-525)."""
    entries = request.node.cluster.config.topic_entries(overrides)
    return [
        CreatableTopicConfigs(
            entry.key.name,
            overrides.get(entry.key.name, entry.value),
            False,
            entry.source,
            entry.key.sensitive,
        )
        for entry in entries
    ]
