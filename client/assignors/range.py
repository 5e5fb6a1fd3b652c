"""Range assignor: a range of each topic's partitions for each member.

Topics with the same members and the same number of partitions are divided in the same
way, so one member owns partition 3 of all of them (co-partitioning). With racks,
members first get partitions with a replica on their rack, unless that changes the
sizes of the ranges or breaks co-partitioning (KIP-881).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from kohort.client.assignors.contract import (
    Assignment,
    PartitionRacks,
    RebalanceProtocol,
    Subscriptions,
    TopicPartition,
    Topics,
    partitions_by_topic,
)
from kohort.client.assignors.java_order import hash_order
from kohort.client.assignors.racks import member_racks, racks_count, replica_racks
from kohort.client.assignors.roundrobin import members_in_order


class RangeAssignor:
    """Kafka's `range`."""

    name = "range"
    protocols: Sequence[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def metadata_user_data(
        self, owned: Sequence[TopicPartition] | None, generation: int
    ) -> None:
        """None: range sends no user data."""
        del owned, generation

    def assign(self, cluster: Topics, subscriptions: Subscriptions) -> Assignment:
        """Assigns topic by topic."""
        takers: dict[str, list[str]] = {}
        for member in members_in_order(subscriptions):
            for topic in dict.fromkeys(subscriptions[member].topics):
                takers.setdefault(topic, []).append(member)
        racks = member_racks(subscriptions)
        partitions = partitions_by_topic(cluster, subscriptions)
        divisions = [
            _Division(topic, partitions[topic], takers[topic], racks)
            for topic in _java_order(subscriptions, partitions)
        ]
        given: Assignment = {member: [] for member in subscriptions}
        near = any(division.racks_count for division in divisions)
        if near:
            for group in _co_partitioned(divisions):
                _divide_by_rack(group, given)
        for division in divisions:
            division.divide_rest(given)
        if near:
            for partitions_of in given.values():
                partitions_of.sort()
        return given


def _java_order(
    subscriptions: Subscriptions, partitions: Mapping[str, object]
) -> list[str]:
    """The order in which the Java client puts topics into a member's assignment."""
    wanted = (
        topic
        for member in hash_order(subscriptions)
        for topic in subscriptions[member].topics
    )
    return hash_order(topic for topic in hash_order(wanted) if topic in partitions)


class _Division:
    """One topic: its unassigned partitions, and each member's remaining quota."""

    def __init__(
        self,
        topic: str,
        infos: Sequence[PartitionRacks],
        members: Sequence[str],
        racks: Mapping[str, str],
    ) -> None:
        self.topic = topic
        self.members = members
        self.rack_of = racks
        self.used_racks = {racks[member] for member in members if member in racks}
        self.partitions = [info.partition for info in infos]
        self.racks = [replica_racks(info) for info in infos] if self.used_racks else []
        self.racks_count = racks_count(self.used_racks, self.racks)
        self._size, self._longer = divmod(len(infos), len(members))
        self._given: Counter[str] = Counter()
        self._left = dict.fromkeys(range(len(infos)))

    def room(self, member: str) -> int:
        """Partitions that the member may still take."""
        most = self._size + (self._longer > 0)
        return max(0, most - self._given[member])

    def give(self, member: str, places: Sequence[int], given: Assignment) -> None:
        """Assigns the partitions at some indexes to the member."""
        for place in places:
            del self._left[place]
            given[member].append((self.topic, self.partitions[place]))
        self._given[member] += len(places)
        self._longer -= self._given[member] > self._size

    def divide_by_rack(self, given: Assignment) -> None:
        """Assigns to each member in turn partitions of its rack, if it has one."""
        on_rack: dict[str, deque[int]] = {}
        for place, racks in enumerate(self.racks):
            for rack in racks:
                on_rack.setdefault(rack, deque()).append(place)
        anywhere = deque(range(len(self.partitions)))
        for member in self.members:
            near = anywhere
            if member in self.rack_of:
                near = on_rack.get(self.rack_of[member], deque())
            taken: list[int] = []
            room = self.room(member)
            while near and len(taken) < room:
                place = near.popleft()
                if place in self._left:
                    taken.append(place)
            if taken:
                self.give(member, taken, given)

    def divide_rest(self, given: Assignment) -> None:
        """Assigns to each member in turn the next partitions."""
        rest = list(self._left)
        start = 0
        for member in self.members:
            if start == len(rest):
                break
            taken = rest[start : start + self.room(member)]
            if taken:
                self.give(member, taken, given)
            start += len(taken)


def _co_partitioned(divisions: Iterable[_Division]) -> list[list[_Division]]:
    """Topics with the same members and as many partitions, together."""
    groups: dict[tuple[tuple[str, ...], int], list[_Division]] = {}
    for division in divisions:
        # Without racks of members there is nothing to match.
        if division.used_racks:
            key = tuple(division.members), len(division.partitions)
            groups.setdefault(key, []).append(division)
    return list(groups.values())


def _divide_by_rack(group: Sequence[_Division], given: Assignment) -> None:
    first = group[0]
    if len(group) == 1:
        if first.racks_count:
            first.divide_by_rack(given)
        return
    # The topics are divided in step, so the first one knows how much room there is.
    queues: dict[str | None, deque[tuple[int, str]]] = {}
    for turn, member in enumerate(first.members):
        rack = first.rack_of.get(member)
        queues.setdefault(rack, deque()).append((turn, member))
    for place in range(len(first.partitions)):
        shared = frozenset.intersection(*(division.racks[place] for division in group))
        heads = []
        for rack in (None, *shared):
            queue = queues.get(rack, deque())
            while queue and not first.room(queue[0][1]):
                queue.popleft()  # room never comes back
            if queue:
                heads.append(queue[0])
        if heads:
            _, member = min(heads)
            for division in group:
                division.give(member, [place], given)
