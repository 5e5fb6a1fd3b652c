"""Sticky assignment if all members have subscribed to the same topics.

Then every member may get every partition, and the numbers are known from the start:
`low` each, and one more for `extra` members. Members keep as many of their partitions
as these numbers allow; the rest is assigned in turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from kohort.client.assignors.claims import Claims
from kohort.client.assignors.contract import Assignment, TopicPartition
from kohort.client.assignors.java_order import utf16
from kohort.client.assignors.racks import Racks


class EqualDivision:
    """One assignment; `given` is the result, `moving` has moved partitions' new owners.

    Args:
        partitions: all of them, by topic and number.
        claims: the previous owners; its members are the members.
        racks: empty if they do not count.
    """

    def __init__(
        self, partitions: Sequence[TopicPartition], claims: Claims, racks: Racks
    ) -> None:
        self.given: Assignment = {member: [] for member in claims.owned}
        self.moving: dict[TopicPartition, str] = {}
        self._claims = claims
        self._racks = racks
        self._low, self._extra = divmod(len(partitions), len(claims.owned))
        self._longer = 0  # members with more than low
        self._taken_from: dict[TopicPartition, str] = {}
        # Members that may get more: with fewer than low, and with low exactly. The
        # latter are there as long as there is one partition more for some of them.
        self._short: list[str] = []
        self._at_low: dict[str, None] = {}

        kept = self._keep()
        rest = [partition for partition in partitions if partition not in kept]
        self._short.sort(key=utf16)
        self._at_low = dict.fromkeys(sorted(self._at_low, key=utf16))
        if racks:
            rest = self._hand_out_near(racks.hardest_first(rest))
        self._hand_out(rest)

    def _keep(self) -> set[TopicPartition]:
        kept: set[TopicPartition] = set()
        high = self._low + (self._extra > 0)
        for member, claimed in self._claims.owned.items():
            owned = self._keepable(member, claimed)
            size = len(owned)
            if size < self._low:
                self._short.append(member)
            elif size >= high and self._longer < self._extra:
                size = high
                self._count_longer()
            else:
                size = self._low
                if self._longer < self._extra:
                    self._at_low[member] = None
            self.given[member] = owned[:size]
            kept.update(owned[:size])
            self._taken_from.update(dict.fromkeys(owned[size:], member))
        return kept

    def _keepable(
        self, member: str, claimed: dict[TopicPartition, None]
    ) -> list[TopicPartition]:
        """Partitions that it may keep, lower partition numbers first."""
        owned = [each for each in claimed if each not in self._claims.contested]
        if self._racks:
            far = {each for each in owned if self._racks.is_far(member, each)}
            self._taken_from.update(dict.fromkeys(far, member))
            owned = [each for each in owned if each not in far]
        return sorted(owned, key=lambda each: (each[1], each[0]))

    def _count_longer(self) -> None:
        self._longer += 1
        if self._longer == self._extra:
            self._at_low.clear()

    def _hand_out(self, partitions: Sequence[TopicPartition]) -> None:
        """Assigns in turn to members below `low`, then one each to members at `low`."""
        turns = deque(self._short)
        for partition in partitions:
            if turns:
                member = turns.popleft()
                if self._give(partition, member) < self._low:
                    turns.append(member)
                else:
                    self._at_low[member] = None
            else:
                member = next(iter(self._at_low))
                del self._at_low[member]
                self._give(partition, member)

    def _hand_out_near(
        self, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """The same, only to members on a rack of the partition; returns the rest."""
        circle = _Circle(self._racks, self._short)
        for member in self._at_low:
            circle.add_at_low(member)
        rest: list[TopicPartition] = []
        for partition in partitions:
            racks = self._racks.of_partition[partition]
            short = circle.next_short(racks)
            if short is not None:
                if self._give(partition, short) == self._low:
                    circle.remove_short(short)
                    if self._longer < self._extra:
                        self._at_low[short] = None
                        circle.add_at_low(short)
                continue
            low = circle.pop_at_low(racks) if self._at_low else None
            if low is not None:
                del self._at_low[low]
                self._give(partition, low)
                self._count_longer()
            else:
                rest.append(partition)
        self._short = [m for m in self._short if len(self.given[m]) < self._low]
        return rest

    def _give(self, partition: TopicPartition, member: str) -> int:
        """Assigns one partition; returns the member's new count."""
        given = self.given[member]
        given.append(partition)
        before = self._taken_from.get(partition, member)
        if before != member or partition in self._claims.contested:
            self.moving[partition] = member
        return len(given)


class _Circle:
    """Members that may get more, by rack: finds the next one on one of some racks.

    Members below `low` are in a circle; the search continues behind the last result.
    Members at `low` are in a queue.
    """

    def __init__(self, racks: Racks, short: Sequence[str]) -> None:
        self._rack_of = racks.of_member
        self._members = list(short)
        self._seat = {member: seat for seat, member in enumerate(short)}
        self._seats_on: dict[str, list[int]] = {}
        for seat, member in enumerate(short):
            if member in self._rack_of:
                self._seats_on.setdefault(self._rack_of[member], []).append(seat)
        self._turn = 0
        self._queued = 0
        self._at_low_on: dict[str, deque[tuple[int, str]]] = {}

    def next_short(self, racks: frozenset[str]) -> str | None:
        """The next member below `low`."""
        found: list[tuple[bool, int]] = []
        for rack in racks:
            seats = self._seats_on.get(rack)
            if seats:
                at = bisect_left(seats, self._turn)
                once_round = at == len(seats)
                found.append((once_round, seats[0 if once_round else at]))
        if not found:
            return None
        _, seat = min(found)
        self._turn = seat + 1
        return self._members[seat]

    def remove_short(self, member: str) -> None:
        """The member has reached `low`."""
        seats = self._seats_on[self._rack_of[member]]
        del seats[bisect_left(seats, self._seat[member])]

    def add_at_low(self, member: str) -> None:
        """Puts the member at the end of the queue."""
        rack = self._rack_of.get(member)
        if rack is not None:
            queue = self._at_low_on.setdefault(rack, deque())
            queue.append((self._queued, member))
        self._queued += 1

    def pop_at_low(self, racks: frozenset[str]) -> str | None:
        """Takes the first one out of the queue."""
        waiting = [self._at_low_on[r] for r in racks if self._at_low_on.get(r)]
        if not waiting:
            return None
        _, member = min(waiting, key=lambda queue: queue[0]).popleft()
        return member
