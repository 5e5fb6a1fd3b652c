"""Load: the groups that a coordinator finds in its log when it starts.

Records are read one after the other; the last one of a key counts.
Timers and waiting requests are in no record: a group that rebalanced when its
coordinator stopped is found in its last generation, and pending members are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator import notices, rebalance
from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Record,
)
from kohort.broker.coordinator.group import Group, OffsetEntry
from kohort.broker.coordinator.turn import Cause, Turn


class Found:
    """One group as its records describe it.

    Attributes:
        record: the latest; None for a group that only ever had offsets.
        offsets: by (topic, partition).
        expire_ms: when an offset expires, where its commit said so itself.
    """

    __slots__ = ("expire_ms", "offsets", "record")

    def __init__(self) -> None:
        self.record: GroupRecord | None = None
        self.offsets: dict[tuple[str, int], OffsetEntry] = {}
        self.expire_ms: dict[tuple[str, int], int] = {}


class Loading:
    """A log that is being read, in slices: it may have millions of records.

    `feed` it all records in order, and `finish` it. Others may have their turn in
    between; a coordinator must get no request about these groups before the end.

    Attributes:
        found: the state of each group so far, by group id.
    """

    __slots__ = ("_keys", "found")

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}
        # One (topic, partition) for all groups that commit it: a quarter of the memory
        # that many groups take.
        self._keys: dict[tuple[str, int], tuple[str, int]] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """Reads on; under 1 us for a record.

        A commit makes a group where there is none. One whose offsets are gone again
        is still there, until a tombstone of the group itself takes it away.
        """
        groups, keys = self.found, self._keys
        for record in records:
            if isinstance(record, OffsetRecord):
                group_id, entry = record.group_id, record.entry
                found = groups.get(group_id)
                key = record.topic, record.partition
                if entry is None:
                    if found is not None:
                        found.offsets.pop(key, None)
                        found.expire_ms.pop(key, None)
                    continue
                if found is None:
                    found = groups[group_id] = Found()
                key = keys.setdefault(key, key)
                found.offsets[key] = entry
                if record.expire_timestamp_ms != -1:
                    found.expire_ms[key] = record.expire_timestamp_ms
                elif found.expire_ms:
                    found.expire_ms.pop(key, None)
            elif isinstance(record, GroupTombstone):
                groups.pop(record.group_id, None)
            else:
                groups.setdefault(record.group_id, Found()).record = record

    def finish(self, turn: Turn, groups: dict[str, Group]) -> None:
        """Adds the groups that were found; every member's session starts now.

        A group with more members than group.max.size, which may have been
        changed meanwhile, rebalances at once (KIP-389). That removes no member yet:
        the limit is applied to the members that rejoin.

        Args:
            turn: whose effects are to be performed.
            groups: those of the coordinator, by group id.
        """
        found, self.found = self.found, {}
        for group_id, facts in found.items():
            _add(turn, groups, group_id, facts)


def _add(turn: Turn, groups: dict[str, Group], group_id: str, found: Found) -> None:
    assert group_id not in groups
    group = Group(group_id, turn.now)
    if found.record is not None:
        group.restore(found.record)
    group.offsets = found.offsets
    group.expire_ms = found.expire_ms
    groups[group_id] = group
    notices.group_loaded(turn, group)
    for member in group.ordered():
        turn.keep_alive(member, member.session_timeout)
    if len(group.members) > turn.settings.max_size:
        rebalance.prepare(turn, group, Cause("group_over_max_size"))
