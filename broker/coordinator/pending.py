"""Pending offsets: committed in transactions that are still open (KIP-98).

A producer commits offsets of a group with TxnOffsetCommit. They are in the log at once,
but do not count yet: they wait in `Group.pending` until a marker in the same partition
of ``__consumer_offsets`` ends the transaction.

For each partition the later commit in the log counts, in a transaction or not. So a
commit takes the place of the pending offsets before it (`supersede`, `end`): these
become None, and stay, because the offset is unstable until all markers are there.
A deleted offset takes its pending ones with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kohort.broker.coordinator.committed import OffsetEntry, OffsetKey
from kohort.broker.coordinator.group import Pending
from kohort.broker.notice import Who


class Holder(Protocol):
    """The offsets of one group, in use or while they are loaded."""

    @property
    def offsets(self) -> dict[OffsetKey, OffsetEntry]:
        """The committed offsets."""

    expire_ms: dict[OffsetKey, int]
    pending: Pending


class OpenCommit:
    """The offsets of one group in one open transaction.

    Attributes:
        log_ends: by (topic, partition), the end of the partition's log at the commit;
            None if unknown. Some offsets may have been deleted since.
        who: the member that committed last; None if unknown.
    """

    __slots__ = ("log_ends", "who")

    def __init__(self) -> None:
        self.log_ends: dict[OffsetKey, int | None] = {}
        self.who: Who | None = None


class OpenTransactions:
    """A coordinator's open transactions with offsets.

    Attributes:
        by_producer: by producer id and group id, the offsets.
    """

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[str, OpenCommit]] = {}

    def __len__(self) -> int:
        return len(self.by_producer)

    def commit(self, producer_id: int, group_id: str) -> OpenCommit:
        """Returns the offsets of a group in a producer's transaction, to add some."""
        groups = self.by_producer.setdefault(producer_id, {})
        found = groups.get(group_id)
        if found is None:
            found = groups[group_id] = OpenCommit()
        return found

    def end(self, producer_id: int) -> dict[str, OpenCommit]:
        """Removes a producer's transaction; returns its offsets by group id."""
        return self.by_producer.pop(producer_id, {})


Before = list[dict[int, OffsetEntry | None] | None]
"""The pending offsets of some partitions, for `GroupChange.pending`."""


def put(
    holder: Holder,
    producer_id: int,
    keys: Sequence[OffsetKey],
    entries: Iterable[OffsetEntry],
) -> Before:
    """Adds pending offsets, as the latest of their partitions.

    Returns:
        The pending offsets before.
    """
    before: Before = []
    pending = holder.pending
    for key, entry in zip(keys, entries, strict=True):
        by_producer = pending.get(key)
        before.append(by_producer)
        if by_producer is None:
            pending[key] = {producer_id: entry}
        else:
            pending[key] = changed = dict(by_producer)
            changed.pop(producer_id, None)
            changed[producer_id] = entry
    return before


def supersede(holder: Holder, keys: Iterable[OffsetKey]) -> Before:
    """Puts a commit outside of transactions in the place of pending offsets.

    Returns:
        The pending offsets before.
    """
    before: Before = []
    for key in keys:
        by_producer = holder.pending.get(key)
        before.append(by_producer)
        if by_producer is not None:
            holder.pending[key] = dict.fromkeys(by_producer)
    return before


def end(
    holder: Holder, producer_id: int, keys: Iterable[OffsetKey], *, is_commit: bool
) -> list[OffsetKey]:
    """Ends a transaction in one group.

    Args:
        holder: the group.
        producer_id: the producer of the transaction.
        keys: the offsets that were in it; some may have been deleted since.
        is_commit: whether the offsets count from now on; False: they are dropped.

    Returns:
        The offsets that count now.
    """
    counting: list[OffsetKey] = []
    pending = holder.pending
    for key in keys:
        by_producer = pending.get(key)
        if by_producer is None or producer_id not in by_producer:
            continue
        entry = by_producer[producer_id]
        if is_commit and entry is not None:
            holder.offsets[key] = entry
            holder.expire_ms.pop(key, None)
            counting.append(key)
            for earlier in by_producer:
                if earlier == producer_id:
                    break
                by_producer[earlier] = None
        del by_producer[producer_id]
        if not by_producer:
            del pending[key]
    return counting
