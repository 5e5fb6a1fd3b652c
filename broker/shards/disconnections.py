"""Members whose connections were closed: published as ``member_disconnected``.

A member that ends without leaving (a crash, or a static member of a classic group)
stays in its group until its session expires. Its process closes the connection at once,
so this shows when it stopped reading, and in which way: a member that hangs keeps the
connection open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kohort.broker.notice import Notice

if TYPE_CHECKING:
    from kohort.broker.coordinator.group import Group, GroupMember

MOST_MEMBERS: Final = 1_000
"""Members remembered per connection; a client has one. The oldest are dropped."""
MOST_AWAY: Final = 10_000
"""Members remembered whose connection is closed. The oldest are dropped."""

_Key = tuple[str, str]
"""Group id, member id."""
Find = Callable[[str, str], "tuple[int, Group, GroupMember] | None"]
"""Finds a member by the two: its coordinator's node, its group, and itself."""


class Disconnections:
    """Notes the connection of each member, and when that closes.

    It is that of a classic member's last SyncGroup, or of a heartbeat of a consumer
    group (KIP-848).

    Args:
        find: finds a member.
        publish: publishes a notice of a node.
    """

    def __init__(self, find: Find, publish: Callable[[int, Notice], None]) -> None:
        self._find = find
        self._publish = publish
        self._members: dict[int, dict[_Key, None]] = {}
        # The connection, and when it was closed.
        self._away: dict[_Key, tuple[int, float]] = {}

    def heard(self, connection: int, group_id: str, member_id: str) -> None:
        """Notes that a member sent such a request on a connection."""
        members = self._members.get(connection)
        if members is None:
            members = self._members[connection] = {}
        members[group_id, member_id] = None
        if len(members) > MOST_MEMBERS:
            del members[next(iter(members))]

    def closed(self, connection: int, now: float) -> None:
        """Publishes that the connection of these members is closed."""
        for key in self._members.pop(connection, ()):
            if self._tell(key, connection, "closed"):
                self._away.pop(key, None)
                self._away[key] = connection, now
        while len(self._away) > MOST_AWAY:
            del self._away[next(iter(self._away))]

    def stop(self) -> None:
        """Publishes the members that are not back now that the broker stops.

        A client that only had to connect again has sent requests since.
        """
        for key, (connection, closed) in self._away.items():
            found = self._find(*key)
            if found is not None:
                member = found[2]
                if member.deadline - member.session_timeout <= closed:
                    self._tell(key, connection, "away")
        self._away.clear()
        self._members.clear()

    def _tell(self, key: _Key, connection: int, cause: str) -> bool:
        """Publishes a member's event; False if it has left, or another connection."""
        found = self._find(*key)
        if found is None or found[2].client.connection != connection:
            return False
        node_id, group, member = found
        of = group.group_id, group.generation_id, member.identity
        notice = Notice("member_disconnected", *of, {"cause": cause})
        self._publish(node_id, notice)
        return True
