"""Reassignments: partitions get other replicas (KIP-455).

1. `begin`: the target nodes become replicas; the others stay replicas, marked for
   removal.
2. When `is_complete`, `complete` drops the replicas marked for removal. Kafka waits for
   the new replicas to be in sync, kohort for their nodes to run: it checks at once and
   whenever a node starts.
3. `cancel` drops the added replicas instead.

The caller elects the leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from kohort.broker.topics.topic import NO_REASSIGNMENT, Reassignment, Topic


def begin(topic: Topic, index: int, target: Sequence[int]) -> None:
    """Makes these nodes the replicas of a partition, the preferred leader first."""
    current = set(topic.replicas[index])
    before = topic.reassignments.get(index, NO_REASSIGNMENT)
    adding = sorted(set(target) - current)
    removing = sorted(current.difference(target))
    topic.replicas[index] = [*target, *removing]
    # As in Kafka, an earlier reassignment still adds and removes its replicas, unless
    # this one adds, or removes, some itself.
    merged = Reassignment(adding or before.adding, removing or before.removing)
    if merged.adding or merged.removing:
        topic.reassignments[index] = merged


def is_complete(topic: Topic, index: int, is_running: Callable[[int], bool]) -> bool:
    """Returns whether the nodes that a reassignment needs are running."""
    reassignment = topic.reassignments[index]
    kept = _without(topic.replicas[index], reassignment.removing)
    in_sync = [*filter(is_running, kept)]
    if not in_sync or any(node not in in_sync for node in reassignment.adding):
        return False
    # With fewer replicas than before, none of them may be missing.
    is_smaller = len(reassignment.adding) < len(reassignment.removing)
    return not is_smaller or len(in_sync) == len(kept)


def complete(topic: Topic, index: int) -> None:
    """Drops the replicas that a reassignment removes."""
    reassignment = topic.reassignments.pop(index)
    topic.replicas[index] = _without(topic.replicas[index], reassignment.removing)


def original(topic: Topic, index: int) -> list[int]:
    """Returns the replicas that a partition has after cancelling its reassignment."""
    reassignment = topic.reassignments.get(index, NO_REASSIGNMENT)
    return _without(topic.replicas[index], reassignment.adding)


def cancel(topic: Topic, index: int) -> None:
    """Drops the replicas that a reassignment was adding."""
    topic.replicas[index] = original(topic, index)
    del topic.reassignments[index]


def _without(replicas: Sequence[int], dropped: Container[int]) -> list[int]:
    return [node for node in replicas if node not in dropped]
