"""Load: the groups that a coordinator finds in its log when it starts.

Records are read one after the other; the last one of a key counts. Offsets in an open
transaction are pending (`kohort.broker.coordinator.pending`). Timers and waiting
requests have no records: a group that was rebalancing when its coordinator stopped
comes back in its last generation, and pending members are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from kohort.broker.coordinator import pending
from kohort.broker.coordinator.committed import OffsetEntry, OffsetKey
from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignmentRecord,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    PendingOffset,
    Record,
    RegularExpressionRecord,
    TargetMemberRecord,
    TransactionEnd,
)
from kohort.broker.coordinator.group import Group, Pending
from kohort.broker.coordinator.pending import OpenTransactions
from kohort.broker.coordinator.turn import Turn

Restore = Callable[[Turn, str, Any], Group]
"""Makes a group from its id and its record, or its records, in a turn that collects the
effects."""

_NAMES: Mapping[type, Callable[[Any], str]] = {
    ConsumerMemberRecord: attrgetter("member_id"),
    TargetMemberRecord: attrgetter("member_id"),
    CurrentAssignmentRecord: attrgetter("member_id"),
    RegularExpressionRecord: attrgetter("regex"),
}
"""Names by which a group's records of one kind differ."""


def _no_name(_: object) -> str:
    return ""


class Found:
    """One group as its records describe it.

    Attributes:
        record: the latest of a classic group; None for a group that has only ever had
            offsets.
        consumer: the latest records of a consumer group, by kind and, for those of a
            member or a pattern, its name; in the order of the log.
        offsets: by (topic, partition).
        expire_ms: the expiry of an offset, if its commit set one.
        pending: offsets of open transactions.
    """

    __slots__ = ("consumer", "expire_ms", "offsets", "pending", "record")

    def __init__(self) -> None:
        self.record: GroupRecord | None = None
        self.consumer: dict[tuple[type, str], ConsumerRecord] = {}
        self.offsets: dict[OffsetKey, OffsetEntry] = {}
        self.expire_ms: dict[OffsetKey, int] = {}
        self.pending: Pending = {}


class Loading:
    """A log that is being read, in slices: it may have millions of records.

    `feed` it all records in order, then `finish` it. Other work may run in between, but
    a coordinator must get no request for these groups before the end.

    Attributes:
        found: the state of each group so far, by group id.
        transactions: the open ones.
    """

    __slots__ = ("_keys", "found", "transactions")

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}
        self.transactions = OpenTransactions()
        # One (topic, partition) object for all groups that commit it: saves a quarter
        # of the memory of many groups.
        self._keys: dict[tuple[str, int], tuple[str, int]] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """Reads some records; less than 1 us each.

        A commit creates a group if it does not exist. When its offsets are deleted, it
        still exists, until a tombstone of the group itself.
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
                        found.pending.pop(key, None)
                    continue
                if found is None:
                    found = groups[group_id] = Found()
                key = keys.setdefault(key, key)
                found.offsets[key] = entry
                if record.expire_timestamp_ms != -1:
                    found.expire_ms[key] = record.expire_timestamp_ms
                elif found.expire_ms:
                    found.expire_ms.pop(key, None)
                if found.pending:
                    pending.supersede(found, (key,))
            else:
                self._feed_other(record)

    def _feed_other(
        self,
        record: GroupRecord
        | GroupTombstone
        | ConsumerRecord
        | PendingOffset
        | TransactionEnd,
    ) -> None:
        if isinstance(record, GroupTombstone):
            found = self.found.get(record.group_id)
            if found is not None:
                found.record = None
                self._forget_empty(record.group_id)
        elif isinstance(record, PendingOffset):
            self._feed_pending(record.producer_id, record.offset)
        elif isinstance(record, TransactionEnd):
            self._feed_end(record)
        elif isinstance(record, GroupRecord):
            self.found.setdefault(record.group_id, Found()).record = record
        else:
            self._feed_consumer(record)

    def _feed_consumer(self, record: ConsumerRecord) -> None:
        group_id = record.group_id
        key = type(record), _NAMES.get(type(record), _no_name)(record)
        found = self.found.get(group_id)
        if found is not None:
            # The latest one comes last.
            found.consumer.pop(key, None)
        if record.value is not None:
            found = self.found.setdefault(group_id, Found())
            found.consumer[key] = record
        elif found is not None and type(record) is ConsumerGroupRecord:
            found.consumer.clear()
            self._forget_empty(group_id)

    def _forget_empty(self, group_id: str) -> None:
        """A deleted group is gone; one that has changed its protocol has offsets."""
        found = self.found[group_id]
        if not (found.offsets or found.pending or found.record or found.consumer):
            del self.found[group_id]

    def _feed_pending(self, producer_id: int, record: OffsetRecord) -> None:
        if record.entry is None:
            # Coordinators write none; Kafka, too, would delete the offset at once.
            self.feed((record,))
            return
        key = record.topic, record.partition
        key = self._keys.setdefault(key, key)
        found = self.found.setdefault(record.group_id, Found())
        pending.put(found, producer_id, (key,), (record.entry,))
        commit = self.transactions.commit(producer_id, record.group_id)
        commit.log_ends[key] = None

    def _feed_end(self, record: TransactionEnd) -> None:
        producer_id = record.producer_id
        for group_id, commit in self.transactions.end(producer_id).items():
            found = self.found.get(group_id)
            if found is not None:
                keys = commit.log_ends
                pending.end(found, producer_id, keys, is_commit=record.is_commit)

    def finish(
        self, turn: Turn, groups: dict[str, Group], restore: Mapping[type, Restore]
    ) -> None:
        """Adds the groups that were found.

        Args:
            turn: collects the effects.
            groups: those of the coordinator, by group id.
            restore: by the type of its record, makes a group; by that of None, a group
                that has only ever had offsets; by `ConsumerGroupRecord`, a group from
                all its records.
        """
        found, self.found = self.found, {}
        for group_id, facts in found.items():
            assert group_id not in groups
            if facts.consumer:
                records = [*facts.consumer.values()]
                group = restore[ConsumerGroupRecord](turn, group_id, records)
            else:
                group = restore[type(facts.record)](turn, group_id, facts.record)
            group.committed.replace(facts.offsets)
            group.expire_ms = facts.expire_ms
            group.pending = facts.pending
            groups[group_id] = group
