"""When members were last heard of: what a page shows in place of heartbeats.

Heartbeats are no events unless asked for: there would be little else. The time of a
member's last sign of life is in its state all the same, and is read from there once a
second, for as long as somebody looks.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kohort.broker.cluster import Cluster
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import NEVER
from kohort.broker.events.render import ns

MOST_ROWS: Final = 5_000
"""Members in one sample: the rest have their turn in the next one."""


class LastHeard:
    """Samples of some groups' members.

    Args:
        cluster: where the groups are.
        groups: their ids; none for all groups.
    """

    def __init__(self, cluster: Cluster, groups: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._groups = groups
        self._known: dict[tuple[str, str], float] = {}

    def sample(self) -> dict[str, Any]:
        """Who has been heard of since the last sample.

        Returns:
            ``time_ns``, the broker's now; and ``members``: rows of group, member id,
            and when it was heard of, in ns since the epoch.
        """
        before = self._known
        heard_of: dict[tuple[str, str], float] = {}
        for group in self._found():
            for member in group.members.values():
                # The session of a member that has not been answered yet is not one of
                # heartbeats.
                if member.is_new or member.deadline == NEVER:
                    continue
                key = group.group_id, member.member_id
                heard_of[key] = member.deadline - member.session_timeout
        new = [key for key, heard in heard_of.items() if before.get(key) != heard]
        if len(new) > MOST_ROWS:
            # Whoever was told of longest ago is first: all have their turn.
            new.sort(key=lambda key: before.get(key, 0.0))
            for key in new[MOST_ROWS:]:
                heard_of[key] = before.get(key, 0.0)
            del new[MOST_ROWS:]
        rows = [(*key, ns(heard_of[key])) for key in new]
        self._known = heard_of
        return {"time_ns": ns(self._cluster.clock.now()), "members": rows}

    def _found(self) -> list[Group]:
        return [
            group
            for shard in self._cluster.shards
            if shard.driver is not None
            for group in shard.driver.coordinator.groups.values()
            if not self._groups or group.group_id in self._groups
        ]
