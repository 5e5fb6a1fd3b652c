"""The accounts of all groups of a stream."""

from __future__ import annotations

from typing import Final

from kohort.broker.events.account.flow import take
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import Account, Event

OF_ALL: Final = frozenset({"events_lost", "node_started", "node_stopped"})
"""Events of no group that matter to every group."""


class Accounts:
    """All groups of a stream: each event in order goes in by `take`.

    Attributes:
        groups: by id, those that have an event.
    """

    def __init__(self) -> None:
        self.groups: dict[str, GroupAccounts] = {}
        self._shared: list[Event] = []

    def take(self, event: Event) -> list[Account]:
        """Takes in the next event.

        Returns:
            The accounts of rebalances that are settled now.
        """
        group = event.get("group")
        if group is not None:
            return take(self.of(group), event)
        if event["kind"] not in OF_ALL:
            return []
        self._share(event)
        return [a for each in self.groups.values() for a in take(each, event)]

    def of(self, group: str) -> GroupAccounts:
        """A group's accounts."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = GroupAccounts(group)
            # Events that were lost before may have been the group's own.
            for event in self._shared:
                take(found, event)
        return found

    def _share(self, event: Event) -> None:
        # The latest one of a kind and node says it all.
        of = (event["kind"] == "events_lost", event["run"], event["node"])
        self._shared = [
            each
            for each in self._shared
            if (each["kind"] == "events_lost", each["run"], each["node"]) != of
        ]
        self._shared.append(event)

    def under_way(self, group: str, now_ns: int | None = None) -> Account | None:
        """The account of a rebalance that is not settled; None: there is none.

        Args:
            group: a group's id.
            now_ns: now, by the broker's clock; None: the last event.
        """
        found = self.groups.get(group)
        return None if found is None else found.under_way(now_ns)

    def trim(self, group: str) -> None:
        """Bounds the memory of a group of a stream without end."""
        found = self.groups.get(group)
        if found is not None:
            found.trim()

    def forget(self, group: str) -> None:
        """A group is gone, and its memory with it."""
        self.groups.pop(group, None)

    def close(self) -> list[Account]:
        """The events end here.

        Returns:
            The accounts of rebalances that a node's stop has ended.
        """
        return [a for each in self.groups.values() for a in each.close()]
