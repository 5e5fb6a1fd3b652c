"""The uniform assignor for members that subscribe to different topics.

1. Members keep their partitions of the topics that they still subscribe to.
2. The other partitions go to the members with the fewest partitions, topic by topic,
   those with most partitions per member first.
3. Topic by topic, members with most partitions give to members with fewest, until no
   topic can be balanced further, or `_MOST_ROUNDS` are over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.broker.coordinator.consumer.assignors.loads import NO_MEMBER, Loads
from kohort.broker.coordinator.consumer.assignors.members import (
    Assignments,
    Members,
    Topics,
)
from kohort.broker.coordinator.consumer.assignors.partitions import (
    MemberPartitions,
    unchanged,
)
from kohort.broker.runtime.java_hash import capacity_for

_MOST_ROUNDS: Final = 16
"""Kafka's: the loads of topics can affect each other for ever."""
_SIGN: Final = 1 << 63


def assign(members: Members, topics: Topics) -> Assignments:
    """Returns the partitions of each member."""
    return _Assignment(members, topics).built()


def _signed_order(topic_id: bytes) -> tuple[int, int]:
    """Sorts topic ids as Kafka's ``Uuid``, whose halves have signs."""
    return int.from_bytes(topic_id[:8]) ^ _SIGN, int.from_bytes(topic_id[8:]) ^ _SIGN


class _Assignment:
    def __init__(self, members: Members, topics: Topics) -> None:
        self._order = list(members)
        self._specs = [members[member_id] for member_id in self._order]
        self._subscribers: dict[bytes, list[int]] = {}
        for index, spec in enumerate(self._specs):
            for topic_id in spec.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._sizes = [0] * len(self._order)
        """The number of partitions of each member."""
        self._owners = {
            topic_id: [NO_MEMBER] * len(topics[topic_id].racks)
            for topic_id in self._subscribers
        }
        self._changed: dict[int, MemberPartitions] = {}

    def built(self) -> Assignments:
        if not self._subscribers:
            return {member_id: {} for member_id in self._order}
        self._keep()
        self._assign_free()
        self._balance()
        return {
            member_id: self._changed[index].ordered()
            if index in self._changed
            else unchanged(self._specs[index].assigned)
            for index, member_id in enumerate(self._order)
        }

    def _keep(self) -> None:
        for index, spec in enumerate(self._specs):
            subscribed = frozenset(spec.topics) if spec.assigned else frozenset()
            for topic_id, partitions in spec.assigned.items():
                if topic_id not in subscribed:
                    self._changing(index).remove_topic(topic_id)
                    continue
                self._sizes[index] += len(partitions)
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = index

    def _assign_free(self) -> None:
        for topic_id in self._by_load(self._owners):
            owners = self._owners[topic_id]
            free = [i for i, owner in enumerate(owners) if owner == NO_MEMBER]
            if free:
                loads = Loads(self._subscribers[topic_id], self._sizes)
                for partition in free:
                    self._give(topic_id, partition, loads.next_to_get())

    def _by_load(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Sorts topics: first those with most partitions for each member."""

        def load(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            count = len(self._subscribers[topic_id])
            partitions = len(self._owners[topic_id])
            return -(partitions / count), count, _signed_order(topic_id)

        return sorted(topic_ids, key=load)

    def _balance(self) -> None:
        shared = [each for each, found in self._subscribers.items() if len(found) > 1]
        order = self._by_load(shared)
        last_changed = None
        for _ in range(_MOST_ROUNDS):
            for topic_id in order:
                if topic_id == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def _balance_topic(self, topic_id: bytes) -> int:
        """Balances the members of a topic; returns how many partitions moved."""
        loads = Loads(self._subscribers[topic_id], self._sizes)
        if loads.imbalance <= 1:
            return 0
        can_give: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            can_give.setdefault(owner, []).append(partition)
        moved = 0
        while not loads.are_balanced():
            giver = loads.next_to_give()
            while giver != NO_MEMBER and not can_give.get(giver):
                loads.exclude_giver()
                giver = loads.next_to_give()
            if giver == NO_MEMBER:
                break
            partition = can_give[giver].pop()
            getter = loads.next_to_get()
            if loads.are_balanced():
                break
            self._give(topic_id, partition, getter)
            moved += 1
        return moved

    def _give(self, topic_id: bytes, partition: int, index: int) -> None:
        owners = self._owners[topic_id]
        old = owners[partition]
        if old != NO_MEMBER:
            self._changing(old).remove(topic_id, partition)
            self._sizes[old] -= 1
        each = -(-len(owners) // len(self._subscribers[topic_id]))
        self._changing(index).add(topic_id, partition, capacity_for(each))
        owners[partition] = index
        self._sizes[index] += 1

    def _changing(self, index: int) -> MemberPartitions:
        found = self._changed.get(index)
        if found is None:
            found = MemberPartitions(self._specs[index].assigned)
            self._changed[index] = found
        return found
