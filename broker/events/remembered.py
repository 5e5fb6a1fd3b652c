"""The events that a broker remembers for later readers.

Both the events and their rows are limited: the latest events of all groups, and older
ones of each group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heapreplace, merge
from itertools import islice
from typing import Final

from kohort.broker.events import remembered_transactions
from kohort.broker.events.remembered_transactions import RememberedTransactions
from kohort.broker.events.seen import Seen

REMEMBERED: Final = 10_000
"""Events kept for later readers: some minutes of a busy broker."""

ROWS_PER_EVENT: Final = 10
"""Rows (offsets of a commit, members of a rebalance) that a buffer holds per event of
its size. One commit can have 100,000 offsets, so a limit on events alone is none."""

FREQUENT: Final = frozenset({"heartbeat", "offsets_committed"})
"""Kinds of which only the latest are remembered: every request may make one."""

_MANY: Final = "fault_struck"
"""The other kind that every request may make; it is remembered for explanations."""

CLOCK: Final = "clock_advanced"
"""A kind of no group that explanations of every group need."""

APART: Final = FREQUENT | {_MANY, CLOCK} | remembered_transactions.KINDS
"""Kinds that are not simply remembered with the latest of their group."""

_TRANSACTIONS: Final = 8
"""Share of the events, as a divisor, of open transactions, and of those in trouble."""

FREE_ROWS: Final = 16
"""Rows per event that are not counted: the buffer has room for this many rows of each
event, so only events with more rows are tracked."""

_ROOM: Final = 7 / 8
"""Share of the groups' events that remains after `tidy` has removed some."""

_ADVANCES: Final = 1_000
"""Advances of the clock that are remembered: a test that steps it makes hundreds."""

_FEW: Final = 50
"""Events of a group that are worth keeping together: a rebalance of 20 members."""


class Remembered:
    """The latest events, and older events of each group, without the frequent kinds.

    An event of another kind is in both. Removal does not look at the removed events:
    they have left the processor's caches, so that would cost more than keeping them.

    Attributes:
        latest: of all groups, without gaps, oldest first.
        by_group: by group id, without the frequent kinds. All groups together have as
            many as there are latest ones, and a few more until the next `tidy`. If
            there are more, the groups with the most lose their oldest events, so that
            a busy group does not push out the events of a quiet one.
        transactions: events of transactions that are open or did not end well.
        clock: the latest advances of the clock.
        mask: `tidy` is due when a sequence number has none of these bits.
    """

    __slots__ = (
        "_heavy",
        "_heavy_of_groups",
        "_size",
        "_struck",
        "by_group",
        "clock",
        "latest",
        "mask",
        "transactions",
    )

    def __init__(self, size: int) -> None:
        self.latest: deque[Seen] = deque(maxlen=size)
        self.by_group: dict[str, deque[Seen]] = {}
        self.transactions = RememberedTransactions(max(1, size // _TRANSACTIONS))
        self.clock: deque[Seen] = deque(maxlen=min(size, _ADVANCES))
        self.mask = 255 if size >= REMEMBERED else 0
        self._size = size
        # Groups that may remember strikes of faults.
        self._struck: set[str] = set()
        self._heavy = _Heavy(size * ROWS_PER_EVENT)
        self._heavy_of_groups = _Heavy(size * ROWS_PER_EVENT)

    def of(self, group_id: str) -> deque[Seen]:
        """The group's buffer of events, without the frequent kinds; made if missing."""
        kept = self.by_group.get(group_id)
        if kept is None:
            kept = self.by_group[group_id] = deque()
        return kept

    def set_apart(self, seen: Seen) -> None:
        """Takes an event of one of the kinds `APART`, except `FREQUENT`."""
        group_id = seen.notice.group_id
        if seen.notice.kind in remembered_transactions.KINDS:
            self.transactions.add(seen)
        elif seen.notice.kind == CLOCK:
            self.clock.append(seen)
        elif group_id is not None and seen.notice.kind == _MANY:
            self._struck.add(group_id)
            self.of(group_id).append(seen)

    def older(
        self, groups: Collection[str], *, transactions: bool = False
    ) -> list[Seen]:
        """Events of groups (none: all groups) that are older than `latest`.

        One group's in order, several groups' by the clock, with advances of the clock.

        Args:
            groups: their ids.
            transactions: whether to add those of transactions.
        """
        by_group = self.by_group
        kept: list[Iterable[Seen]] = [by_group.get(g, ()) for g in groups or by_group]
        kept.append(self.clock)
        if transactions:
            kept.append(sorted(self.transactions.all(), key=_when))
        latest = set(map(id, self.latest))
        found = ([seen for seen in each if id(seen) not in latest] for each in kept)
        return list(merge(*found, key=_when))

    def tidy(self) -> None:
        """Makes room where groups have too much, enough that it is seldom needed."""
        by_group = self.by_group
        count = sum(map(len, by_group.values()))
        if count <= self._size:
            return
        most = self._size * _ROOM
        heap = [(-len(kept), name) for name, kept in by_group.items()]
        heapify(heap)
        while count > most and -heap[0][0] > _FEW:
            name = heap[0][1]
            left = _halved(by_group[name], has_strikes=name in self._struck)
            count -= len(by_group[name]) - len(left)
            by_group[name] = left
            heapreplace(heap, (-len(left), name))
        # If no group has many, the groups that have been silent longest lose theirs.
        for name in sorted(by_group, key=self._last_heard):
            if count <= most:
                return
            count -= len(by_group.pop(name))
            self._struck.discard(name)

    def _last_heard(self, name: str) -> float:
        kept = self.by_group[name]
        return kept[-1].time if kept else 0.0

    def weigh(self, seen: Seen) -> None:
        """Counts an event of many rows; over the limit, removes the oldest of them."""
        for gone in self._heavy.add(seen):
            _forget(self.latest, gone)
        kept = self.by_group.get(seen.notice.group_id or "")
        if kept and kept[-1] is seen:
            for gone in self._heavy_of_groups.add(seen):
                name = gone.notice.group_id or ""
                others = self.by_group.get(name)
                _forget(others, gone)
                if not others:
                    self.by_group.pop(name, None)
                    self._struck.discard(name)


class _Heavy:
    """Events of many rows, up to a number of rows.

    Args:
        most: maximum rows; the latest event stays, however large it is.
    """

    __slots__ = ("_events", "_most", "_rows")

    def __init__(self, most: int) -> None:
        self._events: deque[Seen] = deque()
        self._rows = 0
        self._most = most

    def add(self, seen: Seen) -> Iterator[Seen]:
        """Adds an event, and yields those that have to go."""
        self._events.append(seen)
        self._rows += seen.notice.weight
        while self._rows > self._most and len(self._events) > 1:
            gone = self._events.popleft()
            self._rows -= gone.notice.weight
            yield gone


def _halved(kept: deque[Seen], *, has_strikes: bool) -> deque[Seen]:
    """Returns the later half of a group's events; strikes of faults go first.

    So a rule that strikes each heartbeat does not push out the events before it.
    """
    half = len(kept) // 2
    if not has_strikes or sum(seen.notice.kind == _MANY for seen in kept) <= half:
        return deque(islice(kept, half, None))
    left = half
    found: deque[Seen] = deque()
    for seen in kept:
        if left and seen.notice.kind == _MANY:
            left -= 1
        else:
            found.append(seen)
    return found


def _forget(events: deque[Seen] | None, gone: Seen) -> None:
    """Removes an event, if it is still there, and those before it."""
    first = next((seen for seen in events or () if seen.source is gone.source), None)
    if events and first is not None and first.sequence <= gone.sequence:
        while events.popleft() is not gone:
            pass


def _when(seen: Seen) -> tuple[float, int, int]:
    """Sort key of an event among those of all nodes."""
    return seen.time, seen.source.header["node"], seen.sequence
