"""AlterPartitionReassignments: gives partitions other replicas (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.cluster import reassignments
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.handlers.replicas import check_replicas
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.broker.topics.topic import Topic
from kohort.protocol.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kohort.protocol.errors import ErrorCode

_ALTERED_COST = 20
"""Cost of one partition, as `Pace` counts; its replicas are extra."""


def handle(request: Request) -> None:
    """Begins or cancels reassignments; completes them if their nodes run."""
    request.node.cluster.controller.submit(_alter(request), request.failed)


def _alter(request: Request) -> Work:
    message: AlterPartitionReassignmentsRequest = request.message
    cluster = request.node.cluster
    is_late = message.timeout_ms <= 0 and bool(message.topics)
    topics, changed = [], {}
    pace = Pace()
    for wanted in message.topics:
        rows = []
        for row in wanted.partitions:
            error, why = (ErrorCode.REQUEST_TIMED_OUT if is_late else 0), None
            if not is_late:
                try:
                    changed[wanted.name] = _altered(cluster, wanted.name, row, message)
                except RefusedError as refusal:
                    error, why = refusal.code, refusal.why
            rows.append(ReassignablePartitionResponse(row.partition_index, error, why))
            if pace.spend(_ALTERED_COST + len(row.replicas or ())):
                yield
        topics.append(ReassignableTopicResponse(wanted.name, rows))
        if pace.spend(1):
            yield
    cluster.leaders_changed(changed.values())
    response = AlterPartitionReassignmentsResponse(
        0,
        message.allow_replication_factor_change,
        ErrorCode.REQUEST_TIMED_OUT if is_late else 0,
        None if topics else "",
        topics,
    )
    yield from request.finish_in_pieces(response)


def _altered(
    cluster: Cluster,
    name: str,
    row: ReassignablePartition,
    message: AlterPartitionReassignmentsRequest,
) -> Topic:
    """Begins or cancels the reassignment of one partition; returns its topic."""
    topic, index = cluster.topics.by_name.get(name), row.partition_index
    if topic is None or not 0 <= index < len(topic.partitions):
        why = f"there is no partition {name[:260]}-{index}"
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if row.replicas is None:
        if index not in topic.reassignments:
            raise RefusedError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
        _check_cancel(cluster, topic, index)
    else:
        check_replicas(row.replicas, cluster.nodes, len(row.replicas))
        if not message.allow_replication_factor_change:
            _check_factor(topic, index, row.replicas)
    cluster.leaders.reassign(topic, index, row.replicas)
    return topic


def _check_factor(topic: Topic, index: int, replicas: Sequence[int]) -> None:
    reassignment = topic.reassignments.get(index)
    removing = reassignment.removing if reassignment else ()
    factor = len(set(topic.replicas[index]) - set(removing))
    if len(replicas) != factor:
        why = f"{len(replicas)} replicas, where there are {factor}"
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, why)


def _check_cancel(cluster: Cluster, topic: Topic, index: int) -> None:
    """Refuses, as Kafka does, to go back to replicas none of which is in sync."""
    left = reassignments.original(topic, index)
    in_sync = any(cluster.nodes[node_id].is_running for node_id in left)
    if not in_sync and not cluster.allows_unclean_election(topic):
        why = f"none of the nodes {left} runs"
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
