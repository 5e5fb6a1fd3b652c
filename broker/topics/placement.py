"""Placement of replicas: the nodes that may lead each partition of a new topic."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def spread(
    count: int,
    replication_factor: int,
    running: Sequence[int],
    stopped: Collection[int],
    start: int,
) -> list[list[int]]:
    """Places the replicas of `count` partitions, with evenly distributed leaders.

    Args:
        count: number of partitions.
        replication_factor: replicas of each; at most the number of nodes.
        running: running nodes, in order.
        stopped: stopped nodes: used only if there are too few running ones.
        start: position of the node that leads the first partition.
    """
    placed = []
    for i in range(start, start + count):
        turn = i % len(running)
        # As in Kafka, followers shift by one with each round of leaders, so that a
        # node's partitions do not all have the same follower.
        others = [*running[turn + 1 :], *running[:turn]]
        shift = (i // len(running)) % len(others) if others else 0
        others = [*others[shift:], *others[:shift], *sorted(stopped)]
        placed.append([running[turn], *others[: replication_factor - 1]])
    return placed
