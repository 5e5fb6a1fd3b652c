"""The first use of coordinators, as in a new Apache Kafka cluster.

Kafka creates ``__consumer_offsets`` when a client first looks for a coordinator. That
takes a second or so, and its clients retry until they are served. With
``coordinator.first.use=kafka`` kohort gives the same answers, each a fixed number of
times, so that a test does not depend on time:

| ``__consumer_offsets`` | FindCoordinator | requests for a group | ListGroups |
| --- | --- | --- | --- |
| is missing | 15, and creates it | 16 | no groups |
| is new | served | the first of each API: 16 | the first: 14 |
| is in use, since a request for a group was served | served | served | served |

15 is COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 14 COORDINATOR_LOAD_IN_PROGRESS. A
topic in a data directory is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.coordinator.events import CommitInTransaction, GroupEvent, ListGroups
from kohort.broker.shards.group_shards import GroupShards
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.log.producers import Verification
    from kohort.broker.shards.group_driver import GroupDriver


class FirstUse(GroupShards):
    """Shards that refuse their first requests."""

    refuses_first = True

    _refused_kinds: set[type] | None = None
    """The kinds of events refused since the topic is new; None once it is in use."""

    def can_find(self) -> bool:
        """Returns False once: the look-up that creates ``__consumer_offsets`` fails."""
        found = super().can_find()
        if not found and len(self):
            self._refused_kinds = set()
        return found

    def submit(self, node_id: int | None, event: GroupEvent) -> None:
        """Hands an event to its group's coordinator, or refuses it."""
        if len(self) and not self._refuses(type(event)):
            self._refused_kinds = None
            super().submit(node_id, event)
        else:
            error = ErrorCode.NOT_COORDINATOR
            event.token.answer(self._refused(event, error))  # type: ignore[attr-defined]  # a waiter

    def verify(
        self, node_id: int, group_id: str, producer_id: int, epoch: int, *, adds: bool
    ) -> Verification | int:
        """Begins to verify a commit, or refuses it."""
        if not len(self) or self._refuses(CommitInTransaction):
            return ErrorCode.NOT_COORDINATOR
        self._refused_kinds = None
        return super().verify(node_id, group_id, producer_id, epoch, adds=adds)

    def drivers(self, node_id: int) -> list[GroupDriver] | None:
        """The drivers of a node's coordinators; None for the first ListGroups."""
        return None if self._refuses(ListGroups) else super().drivers(node_id)

    def _refuses(self, kind: type) -> bool:
        if self._refused_kinds is None or kind in self._refused_kinds:
            return False
        self._refused_kinds.add(kind)
        return True
