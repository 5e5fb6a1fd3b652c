"""How many partitions there may be, and the replicas that clients choose for them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kohort.broker.handlers.refusal import RefusedError
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


def _refused(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
