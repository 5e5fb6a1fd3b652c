"""Appends that are not in the log yet: the requests and changes that depend on them.

Kafka's coordinator does not wait for its log. It hands records over, goes on with the
next request, and comes back when they are written or refused. Meanwhile:

1. `Appends.add` numbers an append and keeps the consequences (`Waiting`). The driver
   collects appends and writes them together: in the next turn of the event loop, or
   after ``group.coordinator.append.linger.ms``.
2. The responses to heartbeats, commits, departures and deletions wait for all appends
   before them (`Appends.after`). Joins and syncs wait only for their own append.
3. Commits and deletions have changed the groups already. Requests that only read
   (OffsetFetch, DescribeGroups, ListGroups) see the groups as the log has them:
   `committed_offsets`, `committed_groups`.
4. The driver reports `Appended`, or `AppendFailed` if an append was too large for the
   log. The coordinator then finishes or undoes each append by its `Completion`.

If the log cannot be written at all, the coordinator is unloaded instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence

from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.classic.member import Protocols
from kohort.broker.coordinator.committed import OffsetEntry, OffsetKey
from kohort.broker.coordinator.effects import Append, Effect, Written
from kohort.protocol.slotted import slotted


@slotted
class GroupChange:
    """A group as it was before records that change it are in the log.

    Attributes:
        group: the group.
        keys: the offsets that changed, in order.
        entries: their previous values; None for none.
        expire_ms: their previous expiry if a commit set one; None for none. Empty if no
            offset of the group had one.
        pending: their previous pending offsets; None for none. Empty if no pending
            offset changed.
        was_made: the group did not exist before.
        was_deleted: the group no longer exists.
    """

    group: Group
    keys: Sequence[OffsetKey] = ()
    entries: Sequence[OffsetEntry | None] = ()
    expire_ms: Sequence[int | None] = ()
    pending: Sequence[dict[int, OffsetEntry | None] | None] = ()
    was_made: bool = False
    was_deleted: bool = False


@slotted
class Changed:
    """Groups have changed; the change is undone if the append fails."""

    changes: Sequence[GroupChange]


@slotted
class Assigned:
    """The leader's SyncGroup: the group is Stable once its record is written."""

    group_id: str
    generation_id: int
    leader: str
    assignments: dict[str, bytes]
    """Assignments of all members; empty bytes for those that the leader left out."""


@slotted
class Replaced:
    """The JoinGroup that replaces a static member of a Stable group."""

    group_id: str
    group_instance_id: str
    token: object
    can_skip_assignment: bool
    old_leader: str
    old_member_id: str
    new_member_id: str
    old_protocols: Protocols
    old_session_timeout_ms: int
    old_rebalance_timeout_ms: int


Completion = Changed | Assigned | Replaced | None
"""The step that an append completes; None if nothing depends on it."""


class Waiting:
    """An append that is not in the log yet.

    Attributes:
        append: its records and its id.
        completion: the step that it completes.
        effects: notices and replies that wait for it.
    """

    __slots__ = ("append", "completion", "effects")

    def __init__(
        self, append: Append, completion: Completion, effects: list[Effect]
    ) -> None:
        self.append = append
        self.completion = completion
        self.effects = effects


class Appends:
    """A coordinator's appends that are not in the log yet.

    Attributes:
        waiting: oldest first.
        unwritten: ids of groups created without a record. As in Kafka, requests that
            only read see them once another append is in the log.
    """

    __slots__ = ("_latest", "unwritten", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Waiting] = deque()
        self.unwritten: set[str] = set()
        self._latest = 0

    def add(
        self,
        records: Sequence[Written],
        completion: Completion,
        effects: list[Effect],
        *,
        is_atomic: bool = True,
    ) -> Append:
        """Numbers an append.

        Args:
            records: records to be written together.
            completion: the step that the append completes.
            effects: notices and replies that wait for it.
            is_atomic: whether the records have to fit into one batch.
        """
        self._latest += 1
        opens_window = type(completion) is Assigned or type(completion) is Replaced
        append = Append(records, self._latest, is_atomic, opens_window)
        self.waiting.append(Waiting(append, completion, effects))
        return append

    def after(self, effect: Effect, now: list[Effect]) -> None:
        """Keeps an effect until all appends are in the log, or adds it to `now`."""
        if self.waiting:
            self.waiting[-1].effects.append(effect)
        else:
            now.append(effect)

    def take(self, append_id: int) -> Iterator[Waiting]:
        """Removes the appends up to this one, and yields them."""
        waiting = self.waiting
        while waiting and waiting[0].append.append_id <= append_id:
            self.unwritten.clear()
            yield waiting.popleft()

    def remove(self, append_id: int) -> Waiting:
        """Removes an append of the latest turn."""
        (found,) = (each for each in self.waiting if each.append.append_id == append_id)
        self.waiting.remove(found)
        return found

    def changes(self) -> Iterator[GroupChange]:
        """Yields the changes that the log does not have yet, latest first."""
        for each in reversed(self.waiting):
            if type(each.completion) is Changed:
                yield from reversed(each.completion.changes)


# -- groups as requests that only read see them


def committed_group(
    appends: Appends, groups: dict[str, Group], group_id: str
) -> Group | None:
    """Returns a group if the log has it. Only its existence is as in the log."""
    group = None if group_id in appends.unwritten else groups.get(group_id)
    if appends.waiting:
        for change in appends.changes():
            if change.group.group_id == group_id:
                if change.was_made:
                    group = None
                elif change.was_deleted:
                    group = change.group
    return group


def committed_groups(appends: Appends, groups: dict[str, Group]) -> dict[str, Group]:
    """Returns the groups that the log has."""
    if not appends.waiting and not appends.unwritten:
        return groups
    found = {key: each for key, each in groups.items() if key not in appends.unwritten}
    for change in appends.changes():
        if change.was_made:
            found.pop(change.group.group_id, None)
        elif change.was_deleted:
            found[change.group.group_id] = change.group
    return found


def committed_offsets(
    appends: Appends, groups: dict[str, Group], group_id: str
) -> dict[tuple[str, int], OffsetEntry]:
    """Returns the offsets of a group that the log has."""
    group = committed_group(appends, groups, group_id)
    if group is None:
        return {}
    if not appends.waiting:
        return group.offsets
    found: dict[tuple[str, int], OffsetEntry] | None = None
    for change in appends.changes():
        if change.group is group:
            if found is None:
                found = dict(group.offsets)
            # Latest first: a commit may have a partition twice.
            changed = zip(reversed(change.keys), reversed(change.entries), strict=True)
            for key, entry in changed:
                if entry is None:
                    found.pop(key, None)
                else:
                    found[key] = entry
    return group.offsets if found is None else found


def unstable_offsets(
    appends: Appends, groups: dict[str, Group], group_id: str
) -> Container[OffsetKey]:
    """Returns the offsets of a group that an open transaction in the log may change."""
    group = committed_group(appends, groups, group_id)
    if group is None:
        return ()
    found: dict[OffsetKey, object] | None = None
    if appends.waiting:
        for change in appends.changes():
            if change.group is group and change.pending:
                if found is None:
                    found = dict(group.pending)
                changed = zip(change.keys, change.pending, strict=True)
                for key, before in reversed([*changed]):
                    if before is None:
                        found.pop(key, None)
                    else:
                        found[key] = before
    return group.pending if found is None else found
