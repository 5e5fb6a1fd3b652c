"""Sticky assignment if members have subscribed to different topics.

Partitions stay with their owners where possible; each other one goes to the subscribed
member with the fewest. Then single partitions move from members with more to members
with at least two fewer, until none can. Moves that improve nothing are undone.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kohort.client.assignors.claims import Claims
from kohort.client.assignors.contract import (
    Assignment,
    PartitionRacks,
    Subscriptions,
    TopicPartition,
)
from kohort.client.assignors.java_order import PartitionSet, string_hash, utf16
from kohort.client.assignors.racks import Racks

PATIENCE = 50
"""Rounds that move partitions exactly as the Java client does. Its algorithm is not
proven to end; in 10,000 groups it took at most seven rounds."""


class Least:
    """Finds the member with the fewest partitions.

    A heap of members, each with a lower bound of its partitions, which is made exact
    at the top. When a member falls below its bound, call `has_fewer`: the new bound is
    half of its partitions: a member with many, in many heaps, is cheap to level.

    Args:
        members: the members.
        sizes: how many partitions each member has, kept by others.
        floors: for each member, by bound, the heaps whose `has_fewer` to call when it
            falls below; already filled for the members' first sizes. None if no
            member will lose partitions.
    """

    __slots__ = ("_floors", "_heap", "_sizes", "_width")

    def __init__(
        self,
        members: Iterable[int],
        sizes: list[int],
        floors: list[Floors] | None = None,
    ) -> None:
        self._sizes = sizes
        self._floors = floors
        self._width = len(sizes)
        self._heap = [sizes[member] * self._width + member for member in members]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def _entry(self, member: int, at_least: int) -> int:
        if self._floors is not None:
            self._floors[member].setdefault(at_least, {})[self] = None
        return at_least * self._width + member

    def member(self) -> int:
        """The member; of several, the first by id."""
        heap, sizes, width = self._heap, self._sizes, self._width
        while True:
            at_least, member = divmod(heap[0], width)
            if at_least == sizes[member]:
                return member
            heapq.heapreplace(heap, self._entry(member, sizes[member]))

    def has_fewer(self, member: int) -> None:
        """Updates the bound of a member that has fewer partitions."""
        heapq.heappush(self._heap, self._entry(member, self._sizes[member] // 2))


Floors: TypeAlias = dict[int, dict[Least, None]]


class Moves:
    """Moved partitions, with their old and new owners.

    If a partition of a topic has moved from A to B, no other one of the topic needs to
    move from B to A: the first one can return instead.
    """

    def __init__(self) -> None:
        self._way: dict[TopicPartition, tuple[int, int]] = {}
        self._sets: dict[tuple[str, int, int], PartitionSet] = {}

    def back(
        self, partition: TopicPartition, owner: int, member: int
    ) -> TopicPartition | None:
        """A partition that can return to a member in place of another of its owner."""
        topic = partition[0]
        origin = self._way[partition][0] if partition in self._way else owner
        returning = self._sets.get((topic, member, origin))
        return (topic, returning.first()) if returning else None

    def note(self, partition: TopicPartition, source: int, target: int) -> None:
        """Records a move."""
        topic, number = partition
        known = self._way.pop(partition, None)
        if known is not None:
            source = known[0]
            self._sets[topic, *known].remove(number)
        if source != target:
            self._way[partition] = source, target
            key = topic, source, target
            if not self._sets.get(key):
                self._sets[key] = PartitionSet(string_hash(topic))
            self._sets[key].add(number)


class UnequalDivision:
    """One assignment; `given` is the result.

    Members are numbered by their ids.

    Args:
        topics: the topics, with their partitions by number.
        subscriptions: the members.
        claims: the previous owners.
        racks: empty if they do not count.
    """

    def __init__(
        self,
        topics: Mapping[str, Sequence[PartitionRacks]],
        subscriptions: Subscriptions,
        claims: Claims,
        racks: Racks,
    ) -> None:
        self._topics = topics
        self._members = sorted(subscriptions, key=utf16)
        self._number = {member: n for n, member in enumerate(self._members)}
        self._claims = claims
        self._racks = racks
        self._wanted = [
            [t for t in dict.fromkeys(subscriptions[m].topics) if t in topics]
            for m in self._members
        ]
        takers: dict[str, list[int]] = {topic: [] for topic in topics}
        for number, wanted in enumerate(self._wanted):
            for topic in wanted:
                takers[topic].append(number)
        # Topics with the same subscribers share one tuple, and one heap.
        self._takers = {topic: tuple(numbers) for topic, numbers in takers.items()}
        self._all = [
            (topic, info.partition)
            for topic in sorted(topics, key=lambda t: (len(takers[t]), utf16(t)))
            for info in topics[topic]
        ]
        self._owner: dict[TopicPartition, int] = {}
        self._sizes = [0] * len(self._members)
        self._given: list[dict[TopicPartition, None]] = [{} for _ in self._members]
        self._moves = Moves()
        self._divide()

    @property
    def given(self) -> Assignment:
        """The assignment."""
        return dict(zip(self._members, map(list, self._given), strict=True))

    def _divide(self) -> None:
        must_revoke = self._keep()
        fresh = not any(self._sizes)
        rest = [each for each in self._all if each not in self._owner]
        far = self._hand_out(rest, near=True) if self._racks else rest
        self._hand_out(far, near=False)

        movable = {topic for topic, takers in self._takers.items() if len(takers) > 1}
        free = [n for n in range(len(self._members)) if self._is_free(n, movable)]
        before_score = _imbalance(self._sizes[n] for n in free)
        before = list(self._sizes), dict(self._owner), [dict(g) for g in self._given]
        heaps_of: list[dict[Least, None]] = [{} for _ in self._members]
        self._floors: list[Floors] = [
            {size: heaps} for size, heaps in zip(self._sizes, heaps_of, strict=True)
        ]
        self._least: dict[tuple[int, ...], Least] = {}
        for takers in {self._takers[topic] for topic in movable}:
            least = self._least[takers] = Least(takers, self._sizes, self._floors)
            for number in takers:
                heaps_of[number][least] = None
        # New partitions are cheaper to move than owned ones, which must be revoked.
        if not must_revoke:
            self._level([each for each in rest if each[0] in movable])
        moved = self._level([each for each in self._all if each[0] in movable])
        after_score = _imbalance(self._sizes[n] for n in free)
        if moved and not fresh and after_score >= before_score:
            self._sizes, self._owner, self._given = before

    def _keep(self) -> bool:
        """Keeps partitions in place where allowed; returns whether any has to move."""
        must_revoke = False
        for member, claimed in self._claims.owned.items():
            number = self._number[member]
            wanted = set(self._wanted[number])
            for partition in claimed:
                if partition[0] not in wanted or (
                    self._racks and self._racks.is_far(member, partition)
                ):
                    must_revoke = True
                else:
                    self._give(partition, number)
        return must_revoke

    def _give(self, partition: TopicPartition, number: int) -> None:
        self._given[number][partition] = None
        self._owner[partition] = number
        self._sizes[number] += 1

    def _hand_out(
        self, partitions: Iterable[TopicPartition], *, near: bool
    ) -> list[TopicPartition]:
        """Assigns each to the member with the fewest; `near`: on the partition's racks.

        Returns:
            Partitions that no member can get.
        """
        heaps: dict[tuple[tuple[int, ...], frozenset[str]], Least] = {}
        rest: list[TopicPartition] = []
        for partition in partitions:
            takers = self._takers[partition[0]]
            racks = self._racks.of_partition[partition] if near else frozenset()
            least = heaps.get((takers, racks))
            if least is None:
                takers_near = self._near(takers, racks) if near else takers
                least = heaps[takers, racks] = Least(takers_near, self._sizes)
            if least:
                self._give(partition, least.member())
            else:
                rest.append(partition)
        return rest

    def _near(self, takers: Sequence[int], racks: frozenset[str]) -> list[int]:
        """Members on one of the racks, and those without a known rack."""
        of_member = self._racks.of_member
        return [
            number
            for number in takers
            if of_member.get(self._members[number]) in {None, *racks}
        ]

    def _is_free(self, number: int, movable: set[str]) -> bool:
        """Returns whether the member could get or lose anything."""
        wanted = self._wanted[number]
        if self._sizes[number] < sum(len(self._topics[topic]) for topic in wanted):
            return True
        return any(topic in movable for topic, _ in self._given[number])

    def _level(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves partitions to members with fewer; returns whether any moved."""
        for rounds in itertools.count():
            moved = False
            for partition in partitions:
                target = self._better(partition)
                if target is not None:
                    self._move(partition, target, must_level=rounds >= PATIENCE)
                    moved = True
            if not moved:
                return rounds > 0
        raise AssertionError

    def _better(self, partition: TopicPartition) -> int | None:
        """A member with at least two fewer than the owner; the previous owner first."""
        takers = self._takers[partition[0]]
        enough = self._sizes[self._owner[partition]] - 1
        previous = self._number.get(self._claims.outdated.get(partition, ""))
        if (
            previous is not None
            and self._sizes[previous] < enough
            and partition[0] in self._wanted[previous]
        ):
            return previous
        least = self._least[takers].member()
        return least if self._sizes[least] < enough else None

    def _move(
        self, partition: TopicPartition, target: int, *, must_level: bool
    ) -> None:
        """Moves a partition, or returns another one of its topic.

        Args:
            partition: the partition that leaves its owner.
            target: the new owner.
            must_level: return only a partition of an owner with more. With that, each
                move makes two members more equal.
        """
        source = self._owner[partition]
        back = self._moves.back(partition, source, target)
        if back is not None:
            owner = self._owner[back]
            if not must_level or self._sizes[owner] > self._sizes[target] + 1:
                partition, source = back, owner
        self._moves.note(partition, source, target)
        del self._given[source][partition]
        self._sizes[source] -= 1
        self._give(partition, target)
        for least in self._floors[source].pop(self._sizes[source] + 1, ()):
            least.has_fewer(source)


def _imbalance(sizes: Iterable[int]) -> int:
    """The sum of the differences between any two members."""
    ordered = sorted(sizes)
    last = len(ordered) - 1
    return sum(size * (2 * place - last) for place, size in enumerate(ordered))
