"""Replicas and leaders of partitions: limits, checks, and rows of responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.request import Request
from kohort.broker.topics.topic import NO_NODE, Topic
from kohort.protocol.apis.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from kohort.protocol.errors import ErrorCode

MAX_PARTITIONS = 10_000
"""Partitions that one request may create: Kafka's limit, the records of one batch of
its metadata log. It keeps one request from using all memory."""


def check_replicas(
    broker_ids: Sequence[int], nodes: Collection[int], replication_factor: int
) -> None:
    """Checks the replicas of one partition.

    Args:
        broker_ids: the chosen nodes.
        nodes: the existing nodes.
        replication_factor: the required number of replicas.

    Raises:
        RefusedError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not broker_ids:
        raise _refused("a partition is assigned to no broker")
    if len(broker_ids) > len(nodes):
        # There may be a million.
        raise _refused(f"{len(broker_ids)} replicas on {len(nodes)} broker(s)")
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
    """Returns the nodes of a partition, for a response.

    Returns:
        Error code, leader, leader epoch, replicas, those in sync, those offline.
    """
    leader, replicas = topic.leaders[index], topic.replicas[index]
    running = [id_ for id_ in replicas if cluster.nodes[id_].is_running]
    offline = [id_ for id_ in replicas if id_ not in running]
    error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_NODE else ErrorCode.NONE
    epoch = topic.partitions[index].leader_epoch
    return error, leader, epoch, replicas, running, offline


def leader_hint(topic: Topic, index: int) -> LeaderIdAndEpoch:
    """The leader of a partition, for the response of another node (KIP-951)."""
    return LeaderIdAndEpoch(topic.leaders[index], topic.partitions[index].leader_epoch)


def leader_endpoints(request: Request, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of the leaders that a response names (KIP-951)."""
    found, at = request.node.cluster.nodes, request.peer.listener
    nodes = (found[id_] for id_ in dict.fromkeys(leaders) if id_ != NO_NODE)
    return [NodeEndpoint(node.id, *node.addresses[at]) for node in nodes]


def _refused(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
