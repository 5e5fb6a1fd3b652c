"""Appends of the group coordinator, and the groups as the log has them.

`kohort.broker.runtime.appends` explains how appends are written. Meanwhile:

1. The responses to heartbeats, commits, departures and deletions wait for all appends
   before them (`Appends.after`). Joins and syncs wait only for their own append.
2. Commits and deletions have changed the groups already. Requests that only read
   (OffsetFetch, DescribeGroups, ListGroups) see the groups as the log has them:
   `committed_offsets`, `committed_groups`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from kohort.broker.coordinator.committed import OffsetEntry, OffsetKey
from kohort.broker.coordinator.effects import ConsumerRecord
from kohort.broker.coordinator.group import Group, Work
from kohort.broker.runtime.appends import Appends, Waiting
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
        was_replaced: the same, because it has changed its protocol.
        undo: the records that take its other records back, in the order of these.
        is_rebalance: the records begin a rebalance.
        work: the step that made most of the records; empty if they are few.
    """

    group: Group
    keys: Sequence[OffsetKey] = ()
    entries: Sequence[OffsetEntry | None] = ()
    expire_ms: Sequence[int | None] = ()
    pending: Sequence[dict[int, OffsetEntry | None] | None] = ()
    was_made: bool = False
    was_deleted: bool = False
    was_replaced: bool = False
    undo: Sequence[ConsumerRecord] = ()
    is_rebalance: bool = False
    work: Work = ()


@slotted
class Changed:
    """Groups have changed; the change is undone if the append fails."""

    changes: Sequence[GroupChange]


class GroupAppends(Appends):
    """A coordinator's appends that are not in the log yet.

    Attributes:
        unwritten: ids of groups created without a record. As in Kafka, requests that
            only read see them once another append is in the log.
    """

    __slots__ = ("unwritten",)

    def __init__(self) -> None:
        super().__init__()
        self.unwritten: set[str] = set()

    def take(self, append_id: int) -> Iterator[Waiting]:
        """Removes the appends up to this one, and yields them."""
        for waiting in super().take(append_id):
            self.unwritten.clear()
            yield waiting

    def changes(self) -> Iterator[GroupChange]:
        """Yields the changes that the log does not have yet, latest first."""
        for each in reversed(self.waiting):
            if type(each.completion) is Changed:
                yield from reversed(each.completion.changes)


# -- groups as requests that only read see them


def committed_group(
    appends: GroupAppends, groups: dict[str, Group], group_id: str
) -> Group | None:
    """Returns a group as the log has it, if it has it.

    Offsets are those of now, and so are the members of a classic group.
    """
    group = _existing(appends, groups, group_id)
    if group is not None and appends.waiting:
        return group.as_of(_undone(appends, group))
    return group


def _existing(
    appends: GroupAppends, groups: dict[str, Group], group_id: str
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


def _undone(appends: GroupAppends, group: Group) -> Iterator[ConsumerRecord]:
    """Yields the records that take back what the log does not have yet."""
    for change in appends.changes():
        if change.group is group:
            yield from reversed(change.undo)


def committed_groups(
    appends: GroupAppends, groups: dict[str, Group]
) -> dict[str, Group]:
    """Returns the groups that the log has."""
    if not appends.waiting and not appends.unwritten:
        return groups
    found = {key: each for key, each in groups.items() if key not in appends.unwritten}
    for change in appends.changes():
        if change.was_made:
            found.pop(change.group.group_id, None)
        elif change.was_deleted:
            found[change.group.group_id] = change.group
    return {key: each.as_of(_undone(appends, each)) for key, each in found.items()}


def committed_offsets(
    appends: GroupAppends, groups: dict[str, Group], group_id: str
) -> dict[tuple[str, int], OffsetEntry]:
    """Returns the offsets of a group that the log has."""
    group = _existing(appends, groups, group_id)
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
    appends: GroupAppends, groups: dict[str, Group], group_id: str
) -> Container[OffsetKey]:
    """Returns the offsets of a group that an open transaction in the log may change."""
    group = _existing(appends, groups, group_id)
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
