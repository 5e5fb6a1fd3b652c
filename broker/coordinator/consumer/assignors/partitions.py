"""A member's partitions while an assignor changes them.

Kafka keeps them in a HashMap of HashSets, whose order is that of the target
assignment's record. The next assignment revokes partitions in that order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.broker.runtime.java_hash import (
    buckets_for,
    buckets_of,
    buckets_of_copy,
    in_buckets,
    spread_int,
    spread_topic_id,
)


def ordered_set(partitions: Collection[int]) -> list[int]:
    """The order of a HashSet that is made from partitions."""
    if len(partitions) < 2:
        return list(partitions)
    return in_buckets(partitions, spread_int, buckets_of_copy(len(partitions)))


def ordered_map(assigned: Mapping[bytes, Collection[int]]) -> list[bytes]:
    """The topics of a recorded assignment in the order of a HashMap."""
    if len(assigned) < 2:
        return list(assigned)
    return in_buckets(assigned, spread_topic_id, buckets_for(len(assigned)))


class _Partitions:
    """A HashSet of partitions."""

    __slots__ = ("_buckets", "_partitions")

    def __init__(self, partitions: Iterable[int], buckets: int) -> None:
        self._partitions = dict.fromkeys(partitions)
        self._buckets = buckets

    def add(self, partition: int) -> None:
        self._partitions[partition] = None
        if len(self._partitions) > self._buckets * 3 // 4:
            self._buckets *= 2

    def remove(self, partition: int) -> bool:
        """Removes a partition; returns whether others are left."""
        self._partitions.pop(partition, None)
        return bool(self._partitions)

    def ordered(self) -> list[int]:
        return in_buckets(self._partitions, spread_int, self._buckets)


class MemberPartitions:
    """A copy of a member's assignment that can be changed.

    A topic that is new gets into its bucket first (``computeIfAbsent``), and the table
    grows before the next one.
    """

    __slots__ = ("_buckets", "_new", "_topics")

    def __init__(self, assigned: Mapping[bytes, Collection[int]]) -> None:
        self._topics: dict[bytes, _Partitions] = {}
        self._new: dict[bytes, None] = {}
        """Added after the copy was made, the latest at the end."""
        self._buckets = buckets_for(len(assigned), buckets_of(len(assigned)))
        for topic_id in ordered_map(assigned):
            partitions = ordered_set(assigned[topic_id])
            self._topics[topic_id] = _Partitions(
                ordered_set(partitions), buckets_of_copy(len(partitions))
            )

    def add(self, topic_id: bytes, partition: int, capacity: int = 16) -> None:
        """Adds a partition; `capacity` is that of a new topic's HashSet."""
        if len(self._topics) > self._buckets * 3 // 4:
            self._buckets *= 2
        partitions = self._topics.get(topic_id)
        if partitions is None:
            self._topics[topic_id] = partitions = _Partitions((), buckets_of(capacity))
            self._new[topic_id] = None
        partitions.add(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Removes a partition, and the topic if it has no other."""
        partitions = self._topics.get(topic_id)
        if partitions is not None and not partitions.remove(partition):
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: bytes) -> None:
        """Removes a topic with its partitions."""
        del self._topics[topic_id]
        self._new.pop(topic_id, None)

    def ordered(self) -> dict[bytes, Sequence[int]]:
        """The partitions by topic, in the order of the record."""
        old = [topic_id for topic_id in self._topics if topic_id not in self._new]
        order = in_buckets([*reversed(self._new), *old], spread_topic_id, self._buckets)
        return {topic_id: self._topics[topic_id].ordered() for topic_id in order}


def unchanged(assigned: Mapping[bytes, Collection[int]]) -> dict[bytes, Sequence[int]]:
    """A recorded assignment in its order."""
    return {
        topic_id: ordered_set(assigned[topic_id]) for topic_id in ordered_map(assigned)
    }
