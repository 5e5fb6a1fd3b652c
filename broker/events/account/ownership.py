"""The owners of partitions over time: `Move`s are computed from it."""

from __future__ import annotations

from collections import deque
from typing import Final

from kohort.broker.events.account.values import Event, Partition, partitions

FORMER_OWNERS: Final = 3
"""Earlier owners of a partition that are remembered: a partition returns if its new
owner is one of them. A rolling restart moves a partition twice: away and back. One
more, as an assignor may pass it on in between."""


class Ownership:
    """The owners of partitions, from ``partitions_changed``.

    Attributes:
        owned: the partitions of each member; members with unknown ones are left out.
        last: each partition's last owner, present or not.
        is_known: whether an assignment could be read.
        is_whole: whether every assignment so far has been read.
    """

    def __init__(self) -> None:
        self.owned: dict[str, set[Partition]] = {}
        self.last: dict[Partition, str] = {}
        self.is_known = False
        self.is_whole = True
        self._former: dict[Partition, deque[tuple[str, str]]] = {}

    def forget(self) -> None:
        """Forgets the owners: events are missing."""
        self.owned.clear()
        self.last.clear()
        self._former.clear()
        self.is_whole = False

    def count(self, member_id: str) -> int | None:
        """The number of a member's partitions; None if unknown."""
        owned = self.owned.get(member_id)
        return None if owned is None else len(owned)

    def rename(self, old: str, new: str) -> None:
        """Moves a static member's partitions to its new id."""
        if old not in self.owned:
            return
        self.owned[new] = self.owned.pop(old)
        for partition in self.owned[new]:
            self.last[partition] = new

    def know(self, event: Event, member_id: str, process: tuple[str, str]) -> None:
        """Notes a member's partitions, without a change of owners."""
        owned = set(partitions(event.get("owned")))
        self.owned[member_id] = owned
        for partition in owned:
            self.take(partition, member_id, process)

    def change(self, event: Event) -> tuple[list[Partition], list[Partition]]:
        """Handles a new assignment; returns the partitions gained and those lost."""
        member_id = str(event["member_id"])
        self.owned[member_id] = set(partitions(event.get("owned")))
        gained = sorted(partitions(event.get("partitions_gained")))
        return gained, self.lose(event)

    def lose(self, event: Event) -> list[Partition]:
        """Removes the partitions that a member has lost, and returns them."""
        member_id = str(event["member_id"])
        lost = sorted(partitions(event.get("partitions_lost")))
        for partition in lost:
            self.last.setdefault(partition, member_id)
        return lost

    def take(
        self, partition: Partition, member_id: str, process: tuple[str, str]
    ) -> tuple[str | None, bool]:
        """Gives a partition to an owner.

        Args:
            partition: the partition.
            member_id: the new owner.
            process: the new owner's `Member.process`.

        Returns:
            The previous owner, and whether the new owner's process had it earlier.
        """
        source = self.last.get(partition)
        former = self._former.setdefault(partition, deque(maxlen=FORMER_OWNERS))
        self.last[partition] = member_id
        is_another = not former or former[-1] != process
        returned = is_another and process in former
        if is_another:
            former.append(process)
        return source, returned
