"""Times of the last requests of members, for pages.

Heartbeats are no events by default, as they would outnumber all others. The state of a
member has the time of its last request; it is sampled once a second while a page is
open.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kohort.broker.clock import ns
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.coordinator.classic.member import NEVER
from kohort.broker.coordinator.classic.member import Member as ClassicMember
from kohort.control.group_views import AnyGroup, AnyMember

MOST_ROWS: Final = 5_000
"""Most members of one sample; the others come with the next one."""


class LastHeard:
    """Samples of some groups' members.

    Args:
        cluster: the cluster of the groups.
        groups: their ids; empty for all groups.
    """

    def __init__(self, cluster: Cluster, groups: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._groups = groups
        self._known: dict[tuple[str, str], float] = {}

    def sample(self) -> dict[str, Any]:
        """Returns the members with requests since the last sample.

        Returns:
            ``time_ns``, the broker's now; and ``members``: rows of group, member id,
            and time in ns since the epoch.
        """
        before = self._known
        heard_of: dict[tuple[str, str], float] = {}
        now = self._cluster.clock.now()
        for group in self._found():
            for member in group.members.values():
                # Before its first answer a member sends no heartbeats.
                if _waits_to_join(member) or member.deadline == NEVER:
                    continue
                key = group.group_id, member.member_id
                # While the clock is moved, members are credited with later signs.
                heard = min(now, member.deadline - member.session_timeout)
                heard_of[key] = heard
        new = [key for key, heard in heard_of.items() if before.get(key) != heard]
        if len(new) > MOST_ROWS:
            # The members of the oldest samples first, so that all have their turn.
            new.sort(key=lambda key: before.get(key, 0.0))
            for key in new[MOST_ROWS:]:
                heard_of[key] = before.get(key, 0.0)
            del new[MOST_ROWS:]
        rows = [(*key, ns(heard_of[key])) for key in new]
        self._known = heard_of
        return {"time_ns": ns(now), "members": rows}

    def _found(self) -> list[AnyGroup]:
        return [
            group
            for group in self._cluster.shards.groups()
            if isinstance(group, AnyGroup)
            and (not self._groups or group.group_id in self._groups)
        ]


def _waits_to_join(member: AnyMember) -> bool:
    return isinstance(member, ClassicMember) and member.is_new
