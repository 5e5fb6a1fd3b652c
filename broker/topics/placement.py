"""Placement of replicas: which nodes may lead which partitions of a new topic."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def spread(
    count: int,
    replication_factor: int,
    running: Sequence[int],
    stopped: Collection[int],
    start: int,
) -> list[list[int]]:
    """Replicas of `count` partitions, so that each node leads as many as any other.

    Args:
        count: how many partitions.
        replication_factor: replicas of each; at most the number of nodes.
        running: nodes that run, in order.
        stopped: nodes that do not: they only come in where others do not suffice.
        start: which of the nodes leads the first one.
    """
    placed = []
    for i in range(start, start + count):
        turn = i % len(running)
        # As Kafka does: followers shift by one with each round of leaders, so that
        # a node's partitions do not all fall to the same other node.
        others = [*running[turn + 1 :], *running[:turn]]
        shift = (i // len(running)) % len(others) if others else 0
        others = [*others[shift:], *others[:shift], *sorted(stopped)]
        placed.append([running[turn], *others[: replication_factor - 1]])
    return placed
