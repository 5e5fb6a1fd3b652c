"""The accounts of all groups of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kohort.broker.events.account.flow import take
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import Account, Event, UnreadAccount

OF_ALL: Final = frozenset({"events_lost", "node_started", "node_stopped"})
"""Events of no group that affect every group."""


class Accounts:
    """The accounts of all groups of a stream: pass each event to `take`, in order.

    Attributes:
        groups: groups with at least one event, by id.
    """

    def __init__(self) -> None:
        self.groups: dict[str, GroupAccounts] = {}
        self._shared: list[Event] = []

    def take(self, event: Event) -> list[Account]:
        """Handles the next event.

        Returns:
            The accounts of rebalances that are now settled.
        """
        group = event.get("group")
        if group is not None:
            return take(self.of(group), event)
        if event["kind"] not in OF_ALL:
            return []
        self._share(event)
        return [a for each in self.groups.values() for a in take(each, event)]

    def take_all(self, event: Event) -> Iterator[Account | UnreadAccount]:
        """The same, and the time without a reader that belongs to no rebalance.

        Without this, the account of the next rebalance has that time.
        """
        yield from self.take(event)
        found = self.groups.get(event.get("group") or "")
        quiet = None if found is None else found.take_unread()
        if quiet is not None:
            yield quiet

    def close_all(self) -> Iterator[Account | UnreadAccount]:
        """Ends the stream: `close`, and the time without a reader that it ends."""
        yield from self.close()
        for found in self.groups.values():
            quiet = found.take_unread("broker_stopped")
            if quiet is not None:
                yield quiet

    def of(self, group: str) -> GroupAccounts:
        """Returns a group's accounts."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = GroupAccounts(group)
            # Events lost before may have been the group's own.
            for event in self._shared:
                take(found, event)
        return found

    def _share(self, event: Event) -> None:
        # The latest one of a kind and node is enough.
        of = (event["kind"] == "events_lost", event["run"], event["node"])
        self._shared = [
            each
            for each in self._shared
            if (each["kind"] == "events_lost", each["run"], each["node"]) != of
        ]
        self._shared.append(event)

    def under_way(self, group: str, now_ns: int | None = None) -> Account | None:
        """The account of a rebalance that is not settled yet; None without one.

        Args:
            group: a group's id.
            now_ns: the time of the broker's clock; None: that of the last event.
        """
        found = self.groups.get(group)
        return None if found is None else found.under_way(now_ns)

    def trim(self, group: str) -> None:
        """Bounds the memory of a group in an endless stream."""
        found = self.groups.get(group)
        if found is not None:
            found.trim()

    def forget(self, group: str) -> None:
        """Forgets a deleted group."""
        self.groups.pop(group, None)

    def close(self) -> list[Account]:
        """Ends the stream of events.

        Returns:
            The accounts of rebalances that a node's stop has ended.
        """
        return [a for each in self.groups.values() for a in each.close()]
