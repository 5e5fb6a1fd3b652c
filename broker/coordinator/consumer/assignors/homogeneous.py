"""The uniform assignor for members that all subscribe to the same topics.

Each member has a quota: the partitions divided by the members, and one more for the
members that come first. A member keeps its partitions up to its quota; the others fill
up members below theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator.consumer.assignors.members import (
    Assignments,
    Members,
    MemberSpec,
    Topics,
    ordered_ids,
)
from kohort.broker.coordinator.consumer.assignors.partitions import (
    MemberPartitions,
    ordered_map,
    ordered_set,
    unchanged,
)


def assign(members: Members, topics: Topics) -> Assignments:
    """Returns the partitions of each member."""
    order = list(members)
    subscribed = ordered_ids(members[order[0]], topics)
    return _Assignment(members, topics, order, subscribed).built()


class _Assignment:
    def __init__(
        self, members: Members, topics: Topics, order: list[str], ids: list[bytes]
    ) -> None:
        self._members = members
        self._topics = topics
        self._order = order
        self._ids = ids
        self._subscribed = frozenset(ids)
        self._changed: dict[str, MemberPartitions] = {}
        self._free: list[tuple[bytes, int]] = []
        self._unfilled: list[tuple[str, int]] = []
        """Members below their quotas, and how many partitions they can get."""

    def built(self) -> Assignments:
        if not self._ids:
            return {member_id: {} for member_id in self._order}
        total = self._find_free()
        quota, extra = divmod(total, len(self._order))
        for index, member_id in enumerate(self._order):
            has_extra = extra > 0
            left = self._keep(member_id, quota + has_extra)
            if left and has_extra and len(self._order) - index > extra:
                # Others that follow may have one more already: they keep it.
                left -= 1
                has_extra = False
            if left:
                self._unfilled.append((member_id, left))
            extra -= has_extra
        self._fill()
        return {
            member_id: self._changed[member_id].ordered()
            if member_id in self._changed
            else unchanged(self._members[member_id].assigned)
            for member_id in self._order
        }

    def _find_free(self) -> int:
        """Collects the partitions without a member; returns the number of all."""
        assigned: dict[bytes, set[int]] = {topic_id: set() for topic_id in self._ids}
        for spec in self._members.values():
            for topic_id, partitions in spec.assigned.items():
                if topic_id in assigned:
                    assigned[topic_id].update(partitions)
        total = 0
        for topic_id in self._ids:
            count = len(self._topics[topic_id].racks)
            taken = assigned[topic_id]
            if len(taken) < count:
                self._free += [(topic_id, i) for i in range(count) if i not in taken]
            total += count
        return total

    def _keep(self, member_id: str, quota: int) -> int:
        """Takes from a member the partitions over its quota, and topics it left.

        Returns:
            The part of its quota that is left.
        """
        spec = self._members[member_id]
        for topic_id in ordered_map(spec.assigned):
            if topic_id not in self._subscribed:
                self._changing(member_id, spec).remove_topic(topic_id)
                continue
            partitions = spec.assigned[topic_id]
            if len(partitions) > quota:
                self._revoke(member_id, topic_id, ordered_set(partitions)[quota:])
                quota = 0
            else:
                quota -= len(partitions)
        return quota

    def _revoke(
        self, member_id: str, topic_id: bytes, partitions: Iterable[int]
    ) -> None:
        changing = self._changing(member_id, self._members[member_id])
        for partition in partitions:
            changing.remove(topic_id, partition)
            self._free.append((topic_id, partition))

    def _fill(self) -> None:
        free = iter(self._free)
        for member_id, quota in self._unfilled:
            changing = self._changing(member_id, self._members[member_id])
            for _, (topic_id, partition) in zip(range(quota), free, strict=False):
                changing.add(topic_id, partition)

    def _changing(self, member_id: str, spec: MemberSpec) -> MemberPartitions:
        found = self._changed.get(member_id)
        if found is None:
            self._changed[member_id] = found = MemberPartitions(spec.assigned)
        return found
