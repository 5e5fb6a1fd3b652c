"""Metadata: the nodes, and the topics with their partitions' leaders."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import cast

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.new_topics import NewTopics
from kohort.broker.handlers import acl_bits
from kohort.broker.handlers.replicas import MAX_PARTITIONS, placed
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work, count_values
from kohort.broker.request import Request
from kohort.broker.topics.topic import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    Topic,
    why_no_topic_name,
)
from kohort.protocol.apis.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import ZERO_UUID

_IDS_SINCE = 12
"""First version that takes ids and null names; v10 and v11 only have the fields."""
_TOPIC_COST = 3
"""Cost of looking up one topic, as `Pace` counts."""
_PARTITION_COST = 2
"""Cost of describing one partition."""
_SLICE = 100
"""Partitions described between two checks whether a piece is full."""
_ROWS_LIMIT = 10_000
"""Rows kept: those of all topics, as a rule, in 4 MB. With few nodes the partitions
of the same number are alike, so 1,000 topics of 100 partitions have 100 rows."""

_Row = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
_rows: dict[_Row, MetadataResponsePartition] = {}
"""Rows of responses by their fields."""


def handle(request: Request) -> Work:
    """Describes the requested topics; creates missing ones if allowed."""
    message: MetadataRequest = request.message
    cluster = request.node.cluster
    pace = Pace()
    if message.topics is None or (request.version == 0 and not message.topics):
        topics = yield from _described(request, list(cluster.topics.by_name), pace)
        yield from _reply(request, topics, pace)
        return
    # As in Kafka each name or id is answered for once, and names count for
    # nothing where there are ids.
    names = yield from count_values((asked.name for asked in message.topics), pace)
    ids = yield from count_values((asked.topic_id for asked in message.topics), pace)
    del ids[ZERO_UUID]
    if request.version < _IDS_SINCE and (ids or None in names):
        yield from _refuse(request, ErrorCode.INVALID_REQUEST, pace)
    elif ids:
        topics = yield from _by_id(request, ids, pace)
        yield from _reply(request, topics, pace)
    elif None in names:
        # Kafka looks at the name all the same.
        yield from _refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, pace)
    else:
        yield from _named(request, cast("Collection[str]", names), pace)


def _named(request: Request, names: Collection[str], pace: Pace) -> Work:
    """Describes topics by name, after those that are missing were created."""
    to_create = yield from _to_create(request, names, pace)
    if to_create:
        work = _create(request, names, to_create, pace)
        request.node.cluster.controller.submit(work, request.failed)
        return
    topics = yield from _by_name(request, names, {}, pace)
    yield from _reply(request, topics, pace)


def _refuse(request: Request, error: ErrorCode, pace: Pace) -> Work:
    """Refuses all topics, as Kafka does where there is an id or a null name."""
    topics = []
    for asked in request.message.topics:
        topics.append(MetadataResponseTopic(error, asked.name or "", asked.topic_id))
        if pace.spend(_TOPIC_COST):
            yield
    yield from request.reply_in_pieces(
        MetadataResponse(topics=topics, error_code=error), pace
    )


def _by_id(
    request: Request, ids: Iterable[bytes], pace: Pace
) -> Generator[None, None, list[MetadataResponseTopic]]:
    by_id = request.node.cluster.topics.by_id
    unknown, names = [], []
    for topic_id in ids:
        topic = by_id.get(topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            unknown.append(MetadataResponseTopic(error, None, topic_id))
        else:
            names.append(topic.name)
        if pace.spend(_TOPIC_COST):
            yield
    return unknown + (yield from _described(request, names, pace))


def _by_name(
    request: Request, names: Iterable[str], refused: dict[str, ErrorCode], pace: Pace
) -> Generator[None, None, list[MetadataResponseTopic]]:
    """Describes topics; those that do not exist, or did not, come last as in Kafka."""
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
    return (yield from _described(request, known, pace)) + unknown


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
    # The limit of CreateTopics holds for auto-creation, too. Kafka does
    # not say so in its answer, either: the topics are unknown.
    return found if total <= MAX_PARTITIONS else []


def _create(
    request: Request, names: Iterable[str], to_create: list[str], pace: Pace
) -> Work:
    """Creates topics; Kafka's first answer about them is that they are unknown."""
    cluster = request.node.cluster
    new = NewTopics(cluster)
    refused = dict.fromkeys(to_create, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    entering: list[str] = []
    for number, name in enumerate(to_create, 1):
        # Another client may have created it, or one too much like it, meanwhile.
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
    topics = yield from _by_name(request, names, refused, pace)
    yield from _reply(request, topics, pace)


# -- describing


def _described(
    request: Request, names: Iterable[str], pace: Pace
) -> Generator[None, None, list[MetadataResponseTopic]]:
    """Describes topics, including the named ones that were deleted meanwhile."""
    cluster = request.node.cluster
    allowed = _allowed(request)
    topics = []
    for name in names:
        topic = cluster.topics.by_name.get(name)
        if topic is not None:
            partitions: list[MetadataResponsePartition] = []
            count = len(topic.partitions)
            for start in range(0, count, _SLICE):
                some = range(start, min(start + _SLICE, count))
                partitions += [_partition(cluster, topic, index) for index in some]
                if pace.spend(_PARTITION_COST * len(some)):
                    yield
            topics.append(
                MetadataResponseTopic(
                    0, topic.name, topic.id, topic.is_internal, partitions, allowed
                )
            )
        elif request.message.topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            row = MetadataResponseTopic(
                error, name, topic_authorized_operations=allowed
            )
            topics.append(row)
        if pace.spend(_TOPIC_COST):
            yield
    return topics


def _allowed(request: Request) -> int:
    """The operations that a topic's row shows as allowed."""
    if request.message.include_topic_authorized_operations:
        return acl_bits.TOPIC
    return acl_bits.NOT_ASKED_FOR


def _partition(cluster: Cluster, topic: Topic, index: int) -> MetadataResponsePartition:
    error, leader, epoch, replicas, in_sync, offline = placed(cluster, topic, index)
    key = (error, index, leader, epoch, tuple(replicas), tuple(in_sync), tuple(offline))
    row = _rows.get(key)
    if row is None:
        row = MetadataResponsePartition(*key)
        if len(_rows) >= _ROWS_LIMIT:
            _rows.clear()
        _rows[key] = row
    return row


def _reply(
    request: Request, topics: list[MetadataResponseTopic], pace: Pace
) -> Iterable[None]:
    message: MetadataRequest = request.message
    cluster = request.node.cluster
    return request.reply_in_pieces(
        MetadataResponse(
            0,
            [
                MetadataResponseBroker(node.id, node.host, node.port)
                for node in cluster.nodes.values()
                if node.is_running
            ],
            cluster.id,
            cluster.controller_id,
            topics,
            acl_bits.CLUSTER
            if message.include_cluster_authorized_operations
            else acl_bits.NOT_ASKED_FOR,
        ),
        pace,
    )
