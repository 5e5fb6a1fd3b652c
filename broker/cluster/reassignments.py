"""Reassignments: partitions get other replicas (KIP-455).

1. `begin`: the target nodes become replicas; those that are not among the targets stay
   replicas, and are marked to be removed.
2. When `is_complete`, which Kafka finds by the replicas in sync, and kohort by the
   nodes that run, `complete` drops the replicas that are to be removed. It is asked at
   once, and whenever a node starts.
3. `cancel` drops those that were added instead.

The caller elects the leaders.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from kohort.broker.topics.topic import NO_REASSIGNMENT, Reassignment, Topic


def begin(topic: Topic, index: int, target: Sequence[int]) -> None:
    """Makes these nodes the replicas of a partition, the preferred leader first."""
    current = set(topic.replicas[index])
    before = topic.reassignments.get(index, NO_REASSIGNMENT)
    adding = sorted(set(target) - current)
    removing = sorted(current.difference(target))
    topic.replicas[index] = [*target, *removing]
    # As in Kafka, an earlier reassignment adds and removes what it did, unless this
    # one adds, or removes, something itself.
    merged = Reassignment(adding or before.adding, removing or before.removing)
    if merged.adding or merged.removing:
        topic.reassignments[index] = merged


def is_complete(topic: Topic, index: int, running: Container[int]) -> bool:
    """Whether the nodes that a reassignment needs run."""
    reassignment = topic.reassignments[index]
    kept = _without(topic.replicas[index], reassignment.removing)
    in_sync = [node for node in kept if node in running]
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
    """The replicas that a partition has if its reassignment is cancelled."""
    reassignment = topic.reassignments.get(index, NO_REASSIGNMENT)
    return _without(topic.replicas[index], reassignment.adding)


def cancel(topic: Topic, index: int) -> None:
    """Drops the replicas that a reassignment was adding."""
    topic.replicas[index] = original(topic, index)
    del topic.reassignments[index]


def _without(replicas: Sequence[int], dropped: Container[int]) -> list[int]:
    return [node for node in replicas if node not in dropped]
