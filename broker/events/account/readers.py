"""The readers of partitions over time, and since when a partition has none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from kohort.broker.events.account.values import (
    EMPTY,
    WORK_ENDED,
    Partition,
    Unread,
    parts,
)

TOGETHER_NS: Final = 5_000_000_000
"""Stops of readers that follow one another within this time are one teardown: the
clients of a test are often closed one by one, and each takes up to some seconds."""


@dataclass(slots=True, eq=False)
class _Gap:
    """Partitions that one reader stopped reading at one moment.

    Attributes:
        member_id: the reader.
        cause: `kohort.broker.events.words.UNREAD_CAUSES`.
        since_ns: when it stopped.
        told_ns: the end of the time that is already in rows.
        partitions: the partitions that still have no reader.
        empty_ns: when the group was found without members. The time from `told_ns` on
            is in no row until a member joins, or the stream ends.
    """

    member_id: str
    cause: str
    since_ns: int
    told_ns: int
    partitions: set[Partition] = field(default_factory=set)
    empty_ns: int | None = None


_Row = tuple[str, str | None, str, int, int]
"""Last reader, next reader, cause, since, until."""


class Readers:
    """The readers of partitions, and since when the others have none.

    A member reads its partitions from the moment it gets its assignment (SyncGroup's
    answer). It stops when it joins, if it is eager; when it gets an assignment without
    them, if it is cooperative; when it leaves or is removed; and if its session
    expires, when the broker last heard of it. A partition that never had a reader is
    never counted.

    Rows are made when a gap ends, and when an account does (`cut`). When the last
    members are gone (`empty`), only the future tells whether the group's work has ended
    or goes on: the rows wait for a join (`resume`), or the end of the stream (`end`).
    """

    def __init__(self) -> None:
        self._rows: dict[_Row, list[Partition]] = {}
        self._clear()

    def _clear(self) -> None:
        self._reads: dict[str, set[Partition]] = {}
        self._since: dict[str, int] = {}
        self._reader: dict[Partition, str] = {}
        self._gaps: dict[str, list[_Gap]] = {}
        self._gap_of: dict[Partition, _Gap] = {}
        self._is_empty = False

    def start(
        self, member_id: str, owned: Collection[Partition], at_ns: int
    ) -> dict[Partition, int]:
        """Notes that a member got its assignment: it now reads that, and nothing else.

        Returns:
            By partition that it did not read before, the time without a reader: 0 if
            another member read it up to now; those that never had a reader are missing.
        """
        self.resume()
        reads = self._reads.setdefault(member_id, set())
        if not reads.issubset(owned):
            self._stop(member_id, reads.difference(owned), at_ns, "revoked")
        self._since[member_id] = at_ns
        unread = {}
        # Sorted, as the order of a set differs in each process.
        for partition in sorted({*owned} - reads):
            reader = self._reader.get(partition)
            gap = self._close(partition)
            if gap is not None:
                self._add(gap, member_id, at_ns, (partition,))
                unread[partition] = max(at_ns - gap.since_ns, 0)
            elif reader is not None:
                self._reads[reader].discard(partition)
                unread[partition] = 0
            self._reader[partition] = member_id
            reads.add(partition)
        return unread

    def reads_since(self, member_id: str) -> tuple[int, int] | None:
        """When a member got its last assignment, and the partitions that it reads."""
        since_ns = self._since.get(member_id)
        if since_ns is None:
            return None
        return since_ns, len(self._reads.get(member_id, ()))

    def assume(self, member_id: str, owned: Iterable[Partition], at_ns: int) -> None:
        """Takes a member from before the first event for a reader of its partitions.

        Unless it is known not to read them. The time before is not counted.
        """
        self._since.setdefault(member_id, at_ns)
        for partition in owned:
            if partition not in self._reader and partition not in self._gap_of:
                self._reader[partition] = member_id
                self._reads.setdefault(member_id, set()).add(partition)

    def stop(self, member_id: str, at_ns: int, cause: str) -> None:
        """Notes that a member no longer reads."""
        at_ns = max(at_ns, self._since.get(member_id, at_ns))
        self._stop(member_id, {*self._reads.get(member_id, ())}, at_ns, cause)

    def leave(self, member_id: str, at_ns: int, stopped_ns: int, cause: str) -> None:
        """Notes that a member is gone: it has read nothing since `stopped_ns`.

        Partitions that it had paused have no reader because of `cause` from now on.
        """
        for gap in self._gaps.get(member_id, ()):
            if gap.cause == "paused":
                self._tell(gap, at_ns)
                gap.cause = cause
        self.stop(member_id, stopped_ns, cause)
        self._reads.pop(member_id, None)
        self._since.pop(member_id, None)

    def _stop(
        self, member_id: str, stopped: set[Partition], at_ns: int, cause: str
    ) -> None:
        if not stopped:
            return
        self._reads[member_id] -= stopped
        gap = _Gap(member_id, cause, at_ns, at_ns, stopped)
        self._gaps.setdefault(member_id, []).append(gap)
        for partition in stopped:
            del self._reader[partition]
            self._gap_of[partition] = gap

    def _close(self, partition: Partition) -> _Gap | None:
        """Ends a partition's gap; returns None if it had none."""
        gap = self._gap_of.pop(partition, None)
        if gap is not None:
            gap.partitions.discard(partition)
            if not gap.partitions:
                gaps = self._gaps[gap.member_id]
                gaps.remove(gap)
                if not gaps:
                    del self._gaps[gap.member_id]
        return gap

    def _open(self) -> Iterator[_Gap]:
        return chain.from_iterable(self._gaps.values())

    # -- rows

    def cut(self, at_ns: int) -> None:
        """Ends an account: the gaps go on in the next one."""
        for gap in self._open():
            if gap.empty_ns is None:
                self._tell(gap, at_ns)

    def empty(self, at_ns: int) -> None:
        """Notes that the group has no members any more."""
        self._is_empty = True
        ended_ns = _end_of_work(gap.since_ns for gap in self._open())
        for gap in self._open():
            if gap.empty_ns is None:
                self._tell(gap, ended_ns)
                gap.empty_ns = at_ns

    def resume(self) -> None:
        """Notes that a member joins: the group had been Empty, and its work goes on."""
        if not self._is_empty:
            return
        self._is_empty = False
        for gap in self._open():
            if gap.empty_ns is not None:
                self._tell(gap, gap.empty_ns)
                gap.cause, gap.empty_ns = EMPTY, None

    def end(self, at_ns: int) -> None:
        """Ends all gaps: the broker has stopped."""
        for gap in self._open():
            if gap.empty_ns is not None:
                gap.cause = WORK_ENDED
            self._tell(gap, at_ns)
        self._clear()

    def drop(self, partitions_: Iterable[Partition]) -> None:
        """Ends the gaps of partitions that are no longer assigned."""
        for partition in partitions_:
            self._close(partition)

    def revoked_since(self, at_ns: int) -> set[Partition]:
        """Partitions that cooperative members gave up and that have no reader."""
        return {
            partition
            for gap in self._open()
            if gap.cause == "revoked" and gap.since_ns >= at_ns
            for partition in gap.partitions
        }

    @property
    def unread(self) -> set[Partition]:
        """All partitions that had a reader and have none now."""
        return {*self._gap_of}

    def reader_of(self, partition: Partition) -> str | None:
        """The member that reads a partition now; None without one."""
        return self._reader.get(partition)

    def forget(self, at_ns: int) -> None:
        """Forgets the readers: events are missing from `at_ns` on."""
        self.cut(at_ns)
        self._clear()

    def _tell(self, gap: _Gap, at_ns: int) -> None:
        if at_ns > gap.told_ns:
            self._add(gap, None, at_ns, gap.partitions)
            gap.told_ns = at_ns

    def _add(
        self, gap: _Gap, reader: str | None, at_ns: int, rows: Iterable[Partition]
    ) -> None:
        if at_ns > gap.told_ns:
            key = (gap.member_id, reader, gap.cause, gap.told_ns, at_ns)
            self._rows.setdefault(key, []).extend(rows)

    def take_rows(self) -> tuple[Unread, ...]:
        """Returns the rows since the last call."""
        rows = tuple(_made(self._rows))
        self._rows = {}
        return rows

    def rows_until(self, at_ns: int) -> tuple[Unread, ...]:
        """Returns the rows since the last `take_rows`, and the gaps up to now."""
        rows = {key: [*found] for key, found in self._rows.items()}
        for gap in self._open():
            if at_ns > gap.told_ns:
                cause = gap.cause if gap.empty_ns is None else WORK_ENDED
                key = (gap.member_id, None, cause, gap.told_ns, at_ns)
                rows.setdefault(key, []).extend(gap.partitions)
        return tuple(_made(rows))


def _end_of_work(stops_ns: Iterable[int]) -> int:
    """When the last readers stopped, or began to stop one after the other."""
    ended_ns = 0
    for stop_ns in sorted(stops_ns, reverse=True):
        if ended_ns - stop_ns > TOGETHER_NS:
            break
        ended_ns = stop_ns
    return ended_ns


def _made(rows: dict[_Row, list[Partition]]) -> Iterator[Unread]:
    for (member_id, reader, cause, since_ns, until_ns), found in rows.items():
        yield Unread(
            member_id=member_id,
            reader=reader,
            cause=cause,
            since_ns=since_ns,
            until_ns=until_ns,
            count=len(found),
            parts=parts(found),
        )
