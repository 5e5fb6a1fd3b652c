"""Metadata: the nodes, and the topics with their partitions' leaders."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import cast

from kohort.broker.cluster.new_topics import NewTopics
from kohort.broker.handlers import acl_bits
from kohort.broker.handlers.replicas import MAX_PARTITIONS
from kohort.broker.handlers.topic_rows import TopicRows
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.broker.template import Encoded
from kohort.broker.topics.topic import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    why_no_topic_name,
)
from kohort.protocol.apis.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID

_IDS_SINCE = 12
"""First version that takes ids and null names; v10 and v11 only have the fields."""
_TOPIC_COST = 5
"""Cost of looking up one topic, as `Pace` counts."""
_PARTITION_COST = 1
"""Cost of finding the row of one partition."""
_SLICE = 100
"""Partitions described between two checks whether a piece is full."""


def handle(request: Request) -> Work:
    """Describes the requested topics; creates missing ones if allowed."""
    message: MetadataRequest = request.message
    cluster = request.node.cluster
    pace = Pace()
    if message.topics is None or (request.version == 0 and not message.topics):
        rows = TopicRows(request)
        yield from _describe(request, list(cluster.topics.by_name), rows, pace)
        _reply(request, rows)
        return
    # As in Kafka, each name or id is answered once, and names are ignored if there are
    # ids.
    names = yield from count_values((asked.name for asked in message.topics), pace)
    ids = yield from count_values((asked.topic_id for asked in message.topics), pace)
    del ids[ZERO_UUID]
    if request.version < _IDS_SINCE and (ids or None in names):
        yield from _refuse(request, ErrorCode.INVALID_REQUEST, pace)
    elif ids:
        yield from _by_id(request, ids, pace)
    elif None in names:
        # Kafka looks up the name anyway.
        yield from _refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, pace)
    else:
        yield from _named(request, cast("Collection[str]", names), pace)


def _named(request: Request, names: Collection[str], pace: Pace) -> Work:
    """Describes topics by name, after creating missing ones."""
    to_create = yield from _to_create(request, names, pace)
    if to_create:
        work = _create(request, names, to_create, pace)
        request.node.cluster.controller.submit(work, request.failed)
        return
    yield from _by_name(request, names, {}, pace)


def _refuse(request: Request, error: ErrorCode, pace: Pace) -> Work:
    """Refuses all topics, as Kafka does if there is an id or a null name."""
    topics = []
    for asked in request.message.topics:
        topics.append(MetadataResponseTopic(error, asked.name or "", asked.topic_id))
        if pace.spend(_TOPIC_COST):
            yield
    yield from request.finish_in_pieces(
        MetadataResponse(topics=topics, error_code=error), pace
    )


def _by_id(request: Request, ids: Iterable[bytes], pace: Pace) -> Work:
    by_id = request.node.cluster.topics.by_id
    rows = TopicRows(request)
    names = []
    for topic_id in ids:
        topic = by_id.get(topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            rows.add(MetadataResponseTopic(error, None, topic_id))
        else:
            names.append(topic.name)
        if pace.spend(_TOPIC_COST):
            yield
    yield from _describe(request, names, rows, pace)
    _reply(request, rows)


def _by_name(
    request: Request, names: Iterable[str], refused: dict[str, ErrorCode], pace: Pace
) -> Work:
    """Describes topics; as in Kafka, those that do not exist, or did not, come last."""
    topics = request.node.cluster.topics
    allowed = _allowed(request)
    known, unknown = [], []
    for name in names:
        error = refused.get(name)
        if error is None and name in topics.by_name:
            known.append(name)
        else:
            if why_no_topic_name(name):
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            code = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_internal = name in INTERNAL_TOPICS
            row = MetadataResponseTopic(code, name, ZERO_UUID, is_internal, (), allowed)
            unknown.append(row)
        if pace.spend(_TOPIC_COST):
            yield
    rows = TopicRows(request)
    yield from _describe(request, known, rows, pace)
    for row in unknown:
        rows.add(row)
        if pace.spend(_TOPIC_COST):
            yield
    _reply(request, rows)


# -- creating


def _to_create(
    request: Request, names: Iterable[str], pace: Pace
) -> Generator[None, None, list[str]]:
    """The names of the topics to create."""
    cluster = request.node.cluster
    may_create = request.version < 4 or request.message.allow_auto_topic_creation
    found: list[str] = []
    if not may_create or not cluster.config["auto.create.topics.enable"]:
        return found
    by_name, why_illegal = cluster.topics.by_name, cluster.topics.why_illegal
    total = 0
    for name in names:
        if name not in by_name and name != METADATA_TOPIC and not why_illegal(name):
            found.append(name)
            total += cluster.automatic(name)[0]
        if pace.spend(_TOPIC_COST):
            yield
    # The limit of CreateTopics also applies to auto-creation. Kafka's response does not
    # say so, either: the topics are unknown.
    return found if total <= MAX_PARTITIONS else []


def _create(
    request: Request, names: Iterable[str], to_create: list[str], pace: Pace
) -> Work:
    """Creates topics; as in Kafka, the first response still calls them unknown."""
    cluster = request.node.cluster
    new = NewTopics(cluster)
    refused = dict.fromkeys(to_create, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    entering: list[str] = []
    for number, name in enumerate(to_create, 1):
        # Meanwhile another client may have created it, or one with a colliding name.
        if name in cluster.topics.by_name:
            del refused[name]
        elif not cluster.topics.why_illegal(name):
            try:
                yield from new.make_automatically(name, pace)
                entering.append(name)
            except StorageError:
                refused[name] = ErrorCode.KAFKA_STORAGE_ERROR
        if new.is_full or number == len(to_create):
            try:
                new.enter()
            except StorageError:
                error = ErrorCode.KAFKA_STORAGE_ERROR
                refused |= dict.fromkeys(entering, error)
            entering.clear()
        if pace.spend(_TOPIC_COST):
            yield
    yield from _by_name(request, names, refused, pace)


# -- describing


def _describe(
    request: Request, names: Iterable[str], rows: TopicRows, pace: Pace
) -> Work:
    """Describes topics, including the named ones that were deleted meanwhile."""
    cluster = request.node.cluster
    allowed = _allowed(request)
    for name in names:
        topic = cluster.topics.by_name.get(name)
        if topic is not None:
            partitions: list[bytes] = []
            count = len(topic.partitions)
            for start in range(0, count, _SLICE):
                stop = min(start + _SLICE, count)
                partitions.append(rows.partitions(cluster, topic, start, stop))
                if pace.spend(_PARTITION_COST * (stop - start)):
                    yield
            rows.add(
                MetadataResponseTopic(
                    0,
                    topic.name,
                    topic.id,
                    topic.is_internal,
                    topic_authorized_operations=allowed,
                ),
                count,
                partitions,
            )
        elif request.message.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            rows.add(
                MetadataResponseTopic(error, name, topic_authorized_operations=allowed)
            )
        if pace.spend(_TOPIC_COST):
            yield


def _allowed(request: Request) -> int:
    """The operations that a topic's row shows as allowed."""
    if request.message.include_topic_authorized_operations:
        return acl_bits.TOPIC
    return acl_bits.NOT_ASKED_FOR


def _reply(request: Request, rows: TopicRows) -> None:
    message: MetadataRequest = request.message
    cluster = request.node.cluster
    response = MetadataResponse(
        0,
        [
            MetadataResponseBroker(node.id, *node.addresses[request.peer.listener])
            for node in cluster.nodes.values()
            if node.is_running
        ],
        cluster.id,
        cluster.controller_id,
        (),
        acl_bits.CLUSTER
        if message.include_cluster_authorized_operations
        else acl_bits.NOT_ASKED_FOR,
    )
    parts = rows.within(request.encode(response))
    request.finish(Encoded(parts, rows.errors))
