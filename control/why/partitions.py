"""Whose partition is whose, and since when nobody's: the memory that moves need."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.control.why.model import Event, Partition

FORMER_OWNERS = 3
"""How many earlier owners of a partition are remembered: it has come back if its new
owner is one of them. A restart in a roll takes two: away, and back. One more, as an
assignor may pass it on between."""


class Ownership:
    """Who owns what, by ``partitions_changed``.

    Attributes:
        owned: the partitions of each member; of one that is missing they are not known.
        last: each partition's last owner, present or not.
        let_go: since when a partition that has no owner stands still: the time when
            its owner was told to give it up, or went; None: not known.
        is_known: whether an assignment could be read.
        is_whole: whether all assignments there ever were have been read.
    """

    def __init__(self) -> None:
        self.owned: dict[str, set[Partition]] = {}
        self.last: dict[Partition, str] = {}
        self.let_go: dict[Partition, int | None] = {}
        self.is_known = False
        self.is_whole = True
        self._former: dict[Partition, deque[tuple[str, str]]] = {}

    def forget(self) -> None:
        """Events are missing: who has what is not known any more."""
        self.owned.clear()
        self.last.clear()
        self.let_go.clear()
        self._former.clear()
        self.is_whole = False

    def rename(self, old: str, new: str) -> None:
        """A static member has come back under a new id: what it has is the same."""
        if old not in self.owned:
            return
        self.owned[new] = self.owned.pop(old)
        for partition in self.owned[new]:
            self.last[partition] = new

    def drop(self, member_id: str, at_ns: int | None) -> None:
        """A member is gone: what it had has no owner any more, since a time."""
        for partition in self.owned.pop(member_id, ()):
            self.let_go.setdefault(partition, at_ns)

    def know(self, event: Event, member_id: str, process: tuple[str, str]) -> None:
        """Takes in what a member has, where nothing has changed hands."""
        owned = set(partitions_of(event.get("owned")))
        self.owned[member_id] = owned
        for partition in owned:
            self.let_go.pop(partition, None)
            self.take(partition, member_id, process)

    def change(
        self, event: Event, at_ns: int
    ) -> tuple[list[Partition], list[Partition]]:
        """Takes in what a member's assignment says: what is new, and what it lost."""
        member_id = str(event["member_id"])
        self.owned[member_id] = set(partitions_of(event.get("owned")))
        gained = sorted(partitions_of(event.get("partitions_gained")))
        return gained, self.lose(event, at_ns)

    def lose(self, event: Event, at_ns: int) -> list[Partition]:
        """Takes in what a member has lost, by its assignment or by going."""
        member_id = str(event["member_id"])
        lost = sorted(partitions_of(event.get("partitions_lost")))
        for partition in lost:
            # Else it has another owner already.
            if self.last.setdefault(partition, member_id) == member_id:
                self.let_go.setdefault(partition, at_ns)
        return lost

    def take(
        self, partition: Partition, member_id: str, process: tuple[str, str]
    ) -> tuple[str | None, bool]:
        """A partition has a new owner: the one before, and whether it had it earlier.

        `process` is that of the new owner (see `Member.process`).
        """
        source = self.last.get(partition)
        former = self._former.setdefault(partition, deque(maxlen=FORMER_OWNERS))
        self.last[partition] = member_id
        is_another = not former or former[-1] != process
        returned = is_another and process in former
        if is_another:
            former.append(process)
        return source, returned


def partitions_of(parts: Iterable[Mapping[str, Any]] | None) -> list[Partition]:
    """The partitions in a list of ``part`` rows."""
    return [(p["topic"], n) for p in parts or () for n in p["partitions"]]


def parts_of(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    """The other way round: rows of JSON, in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [{"topic": t, "partitions": numbers} for t, numbers in topics.items()]
