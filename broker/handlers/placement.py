"""How many partitions there may be, their replicas, and who leads them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kohort.broker.cluster import Cluster, Node
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.topics import NOBODY, Topic
from kohort.protocol.errors import ErrorCode

MAX_PARTITIONS = 10_000
"""Partitions that one request may create: Kafka's limit, the records of one batch
of its metadata log. It keeps one request from taking all memory."""


def check_replicas(
    broker_ids: Sequence[int], nodes: Container[int], replication_factor: int
) -> None:
    """Checks the replicas of one partition.

    Args:
        broker_ids: the nodes that were chosen.
        nodes: the nodes that there are.
        replication_factor: how many replicas there have to be.

    Raises:
        RefusedError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not broker_ids:
        raise _refused("a partition is assigned to no broker")
    if len(set(broker_ids)) < len(broker_ids):
        raise _refused(f"a broker occurs twice in {list(broker_ids)}")
    for broker_id in broker_ids:
        if broker_id not in nodes:
            raise _refused(f"there is no broker {broker_id}")
    if len(broker_ids) != replication_factor:
        raise _refused(
            f"{list(broker_ids)} has {len(broker_ids)} replicas, "
            f"where other partitions have {replication_factor}"
        )


def placed(
    cluster: Cluster, topic: Topic, index: int
) -> tuple[ErrorCode, int, int, Sequence[int], list[int], list[int]]:
    """Who has a partition, as clients are told.

    Returns:
        Error code, leader, leader epoch, replicas, those in sync, those offline.
    """
    leader, replicas = topic.leaders[index], topic.replicas[index]
    running = [id_ for id_ in replicas if cluster.nodes[id_].is_running]
    offline = [id_ for id_ in replicas if id_ not in running]
    error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NOBODY else ErrorCode.NONE
    epoch = topic.partitions[index].leader_epoch
    return error, leader, epoch, replicas, running, offline


def leaders_told(cluster: Cluster, leaders: Sequence[int]) -> list[Node]:
    """The nodes behind the leaders that a response names (KIP-951)."""
    return [cluster.nodes[id_] for id_ in dict.fromkeys(leaders) if id_ != NOBODY]


def _refused(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
