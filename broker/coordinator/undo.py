"""Undoes changes of groups whose records the log refused."""

from __future__ import annotations

from kohort.broker.coordinator.appends import GroupChange
from kohort.broker.coordinator.group import Group


def take_back(groups: dict[str, Group], change: GroupChange) -> None:
    """Restores a group to its state before the records."""
    group = change.group
    _restore_offsets(change)
    group.take_back(reversed(change.undo))
    if change.was_deleted:
        groups[group.group_id] = group
    if change.was_made:
        del groups[group.group_id]


def _restore_offsets(change: GroupChange) -> None:
    group = change.group
    expire_before = change.expire_ms or (None,) * len(change.keys)
    before = zip(change.keys, change.entries, expire_before, strict=True)
    # Latest first: a commit may have a partition twice.
    for key, entry, expire_ms in reversed([*before]):
        if entry is None:
            group.offsets.pop(key, None)
        else:
            group.offsets[key] = entry
        if expire_ms is None:
            group.expire_ms.pop(key, None)
        else:
            group.expire_ms[key] = expire_ms
    if change.pending:
        for key, pending in reversed([*zip(change.keys, change.pending, strict=True)]):
            if pending is None:
                group.pending.pop(key, None)
            else:
                group.pending[key] = pending
