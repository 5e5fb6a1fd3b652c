"""The one stream of events, in order, and its readers.

The coordinators and the broker publish raw notices. A notice is rendered as an event
when it is first read: without a reader it costs about half a microsecond and some
memory, which is bounded. Log lines, files, pages and metrics are readers of this
stream.

A reader never slows the broker down. A slow reader misses events, and gets one
`events_lost` per node in their place.

Nothing here may be called from other threads than the event loop's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from functools import cached_property
from heapq import heapify, heapreplace, merge
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kohort.broker.clock import wall_ns
from kohort.broker.coordinator.effects import Notice, make
from kohort.broker.events import SCHEMA_VERSION
from kohort.broker.events.render import render
from kohort.broker.long_work import soon

if TYPE_CHECKING:
    from kohort.broker.events.accounting import Accounting

REMEMBERED: Final = 10_000
"""Events kept for later readers: some minutes of a busy broker."""

ROWS_PER_EVENT: Final = 10
"""Rows (offsets of a commit, members of a rebalance) that a buffer holds per event of
its size. One commit can have 100,000 offsets: a limit on events alone is none."""

_FREQUENT: Final = frozenset({"heartbeat", "offsets_committed"})
"""Kinds of which the latest are remembered, and no more: they come per request."""

_FREE: Final = 16
"""Rows of an event that are not counted: the buffer has room for this many rows of
each event, so that only events with more rows are tracked."""

_ROOM: Final = 7 / 8
"""Share of the groups' events that is left after `tidy` has removed some."""

_FEW: Final = 50
"""Events of a group's that are worth keeping together: a rebalance of 20 members."""

Listener = Callable[["Seen"], object]


class _Seen(NamedTuple):
    source: NodeEvents
    sequence: int
    time: float
    wall_ns: int
    notice: Notice


class Seen(_Seen):
    """One event: its raw notice and, from the first read on, its rendered form.

    A tuple for the same reason as `Notice`.

    Attributes:
        source: the node's part of the stream.
        sequence: its number there.
        time: the broker's clock, seconds since the epoch.
        wall_ns: the machine's clock.
        notice: the raw event.
    """

    @cached_property
    def event(self) -> dict[str, Any]:
        """The event, as in `kohort.broker.events.schema`; made once, for all."""
        return {
            **self.source.header,
            "sequence": self.sequence,
            "wall_ns": self.wall_ns,
            **render(self.notice, self.time),
        }


class _Remembered:
    """The latest events, and older events of each group, without the frequent kinds.

    An event of another kind is in both. Removal does not look at the removed events:
    they have left the processor's caches, so that would cost more than keeping them.

    Attributes:
        latest: of all groups, without gaps, the oldest first.
        by_group: by group id, without the frequent kinds. All groups together have as
            many as there are latest ones, and a few more until the next `tidy`. If
            there are more, the groups with the most give up their oldest, so that a
            busy group does not push out the events of a quiet one.
        mask: `tidy` is due when no bit of a sequence is set that is set here.
    """

    __slots__ = (
        "_heavy",
        "_heavy_of_groups",
        "_size",
        "by_group",
        "latest",
        "mask",
    )

    def __init__(self, size: int) -> None:
        self.latest: deque[Seen] = deque(maxlen=size)
        self.by_group: dict[str, deque[Seen]] = {}
        self.mask = 255 if size >= REMEMBERED else 0
        self._size = size
        self._heavy = _Heavy(size * ROWS_PER_EVENT)
        self._heavy_of_groups = _Heavy(size * ROWS_PER_EVENT)

    def of(self, group_id: str) -> deque[Seen]:
        """The group's buffer of events, without the frequent kinds; made if missing."""
        kept = self.by_group.get(group_id)
        if kept is None:
            kept = self.by_group[group_id] = deque()
        return kept

    def tidy(self) -> None:
        """Makes some room where groups have too much, so that this is seldom done."""
        by_group = self.by_group
        count = sum(map(len, by_group.values()))
        if count <= self._size:
            return
        most = self._size * _ROOM
        heap = [(-len(kept), name) for name, kept in by_group.items()]
        heapify(heap)
        while count > most and -heap[0][0] > _FEW:
            name = heap[0][1]
            kept = by_group[name]
            for _ in range(len(kept) // 2):
                kept.popleft()
                count -= 1
            heapreplace(heap, (-len(kept), name))
        # If all have little, those go of which nothing was heard for longest.
        for name in sorted(by_group, key=self._last_heard):
            if count <= most:
                return
            count -= len(by_group.pop(name))

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


class _Heavy:
    """Events of many rows, up to a number of rows.

    Args:
        most: how many; the latest event stays, however large it is.
    """

    __slots__ = ("_events", "_most", "_rows")

    def __init__(self, most: int) -> None:
        self._events: deque[Seen] = deque()
        self._rows = 0
        self._most = most

    def add(self, seen: Seen) -> Iterator[Seen]:
        """Takes one, and gives those that have to go."""
        self._events.append(seen)
        self._rows += seen.notice.weight
        while self._rows > self._most and len(self._events) > 1:
            gone = self._events.popleft()
            self._rows -= gone.notice.weight
            yield gone


def _forget(events: deque[Seen] | None, gone: Seen) -> None:
    """An event goes, if it has not gone yet, and those before it."""
    first = next((seen for seen in events or () if seen.source is gone.source), None)
    if events and first is not None and first.sequence <= gone.sequence:
        while events.popleft() is not gone:
            pass


def _when(seen: Seen) -> tuple[float, int, int]:
    """Sort key of an event among those of all nodes."""
    return seen.time, seen.source.header["node"], seen.sequence


class Reader:
    """Reader of the stream, at its own pace: an async iterator of events.

        with broker.events.subscribe() as reader:
            async for event in reader:
                print(event["kind"])

    Each event is a dict that all readers share: it is not to be changed. After
    `close` those that have come are still given, and then the iteration ends.

    Attributes:
        events: those that wait to be read; the latest stays, however large it is.
        rows: how many rows they have.
        size: how many of them may wait.
        most_rows: how many rows may wait.
        is_closed: whether it was closed.
        lost: how many events it has missed so far.
    """

    __slots__ = (
        "_gaps",
        "_leave",
        "_wake",
        "events",
        "is_closed",
        "lost",
        "most_rows",
        "rows",
        "size",
    )

    def __init__(self, size: int, leave: Callable[[Reader], object]) -> None:
        if size < 1:
            raise ValueError(f"a buffer for {size} events: there must be room for 1")
        self.size = size
        self.events: deque[Seen] = deque()
        self.rows = 0
        self.most_rows = size * ROWS_PER_EVENT
        self.lost = 0
        self.is_closed = False
        # By node's part of the stream: the first that was missed and the last.
        self._gaps: dict[NodeEvents, tuple[int, Seen]] = {}
        self._leave = leave
        self._wake: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """How many events wait to be read, the announcements of gaps included."""
        return len(self.events) + len(self._gaps)

    def __bool__(self) -> bool:
        """A reader is one even if nothing waits."""
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self.events:
            if self.is_closed:
                raise StopAsyncIteration
            await self.wait()
        return self._next()

    async def wait(self) -> None:
        """Returns as soon as there is something to `take`, or it is closed.

        One task at a time may wait.
        """
        if self.events or self.is_closed:
            return
        assert self._wake is None, "another reader waits already"
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def take(self, most: int | None = None) -> list[dict[str, Any]]:
        """Events that have come, without waiting; there may be none.

        Args:
            most: how many; None for all of them.
        """
        count = len(self) if most is None else min(most, len(self))
        return [self._next() for _ in range(count)]

    def _next(self) -> dict[str, Any]:
        if self._gaps:
            return self._gap()
        seen = self.events.popleft()
        self.rows -= seen.notice.weight
        return seen.event

    def close(self) -> None:
        """Nothing is added any more; fine if it is closed."""
        if not self.is_closed:
            self.is_closed = True
            self._leave(self)
            self._notify()

    def add(self, seen: Seen) -> None:
        """Takes an event; the stream calls it."""
        events = self.events
        events.append(seen)
        self.rows += seen.notice.weight
        while len(events) > 1 and (
            len(events) > self.size or self.rows > self.most_rows
        ):
            self._give_up(events.popleft())
        if self._wake is not None:
            self._notify()

    def _give_up(self, seen: Seen) -> None:
        """Counts an event as lost: the buffer is full of later ones."""
        self.rows -= seen.notice.weight
        self.lost += 1
        first, _ = self._gaps.get(seen.source, (seen.sequence, seen))
        self._gaps[seen.source] = (first, seen)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _gap(self) -> dict[str, Any]:
        """One `events_lost`, which bears the number of the last that is missing."""
        source = next(iter(self._gaps))
        first, last = self._gaps.pop(source)
        return source.lost(first, last.sequence, last.time, last.wall_ns)


class NodeEvents:
    """One node's part of the stream: gives its events their numbers.

    Attributes:
        header: the fields that all its events share.
        sequence: the number of its last event; 0 before the first.
    """

    __slots__ = (
        "_append",
        "_by_group",
        "_mask",
        "_stream",
        "_wall_ns",
        "header",
        "sequence",
    )

    def __init__(self, stream: Events, node: int) -> None:
        self._stream = stream
        self._append = stream.remembered.latest.append
        self._by_group = stream.remembered.by_group
        self._mask = stream.remembered.mask
        self._wall_ns = stream.wall_ns
        self.sequence = 0
        self.header: Mapping[str, Any] = {
            "schema": SCHEMA_VERSION,
            "run": stream.run,
            "labels": stream.labels,
            "node": node,
        }

    def publish(self, notice: Notice, now: float) -> None:
        """Something happened.

        Args:
            notice: the raw event.
            now: the broker's clock, seconds since the epoch.
        """
        stream = self._stream
        if stream.listening:
            self.sequence = sequence = self.sequence + 1
            seen = make(Seen, (self, sequence, now, self._wall_ns(), notice))
            self._append(seen)
            kind, group_id, _, _, _, weight = notice
            if kind not in _FREQUENT and group_id is not None:
                try:
                    self._by_group[group_id].append(seen)
                except KeyError:
                    stream.remembered.of(group_id).append(seen)
            for listener, unheard in stream.listeners:
                if kind not in unheard:
                    listener(seen)
            if weight > _FREE:
                stream.remembered.weigh(seen)
            if not sequence & self._mask:
                stream.remembered.tidy()

    def lost(self, first: int, last: int, time: float, wall_ns: int) -> dict[str, Any]:
        """The `events_lost` for a reader that misses the events `first` to `last`.

        Only that reader gets it. Its sequence number is the last missing one, so that
        the next event follows on.
        """
        notice = Notice("events_lost", None, None, None, {"first": first, "last": last})
        return Seen(self, last, time, wall_ns, notice).event

    def tell(self, kind: str, now: float, /, **fields: object) -> None:
        """Something happened that is about no group."""
        self.publish(Notice(kind, None, None, None, fields), now)


class Events:
    """The stream of all nodes of a broker.

    Args:
        labels: the user's labels of this run: its name, settings, seed.
        remembered: how many events to keep for those who come later.
        wall: the machine's clock, ns since the epoch; virtual in a simulation.

    Attributes:
        run: unique to a start of the broker; empty before the first.
        labels: see above.
        listening: whether events are made at all. To be set before the start.
        heartbeats: whether heartbeats are events, too. To be set before the start.
        wall_ns: see `wall`.
        remembered: the latest events, and older ones of groups, as they were seen.
        listeners: see `listen`.
    """

    def __init__(
        self,
        labels: Mapping[str, str] | None = None,
        *,
        remembered: int = REMEMBERED,
        wall: Callable[[], int] = wall_ns,
    ) -> None:
        self.run = ""
        self.labels: Mapping[str, str] = dict(labels or {})
        self.listening = True
        self.heartbeats = False
        self.wall_ns = wall
        self.remembered = _Remembered(remembered)
        self._nodes: dict[int, NodeEvents] = {}
        self._accounting: Accounting | None = None
        self._account_readers = 0
        # Replaced, never changed: a reader may leave while a loop calls the others.
        self.listeners: tuple[tuple[Listener, AbstractSet[str]], ...] = ()

    # -- accounts of rebalances

    def hold_accounts(self) -> None:
        """Publishes ``rebalance_account`` from now on, for remembered events, too.

        On the running loop; each call has to be undone by `release_accounts`.
        """
        self._account_readers += 1
        if self._accounting is None:
            from kohort.broker.events.accounting import UNHEARD, Accounting

            self._accounting = Accounting(self._publish_of, soon)
            self._accounting.catch_up([*self.older(()), *self.remembered.latest])
            self.listen(self._accounting.add, UNHEARD)

    def finish_accounts(self) -> None:
        """Publishes the accounts of all that has happened, at once."""
        if self._accounting is not None:
            self._accounting.finish()

    def release_accounts(self) -> None:
        """Undoes `hold_accounts`: the last one ends it."""
        self._account_readers -= 1
        if self._accounting is not None and not self._account_readers:
            self.unlisten(self._accounting.add)
            self._accounting.close()
            self._accounting = None

    def _publish_of(self, run: str, node: int, notice: Notice, now: float) -> None:
        if run == self.run:
            latest = self.remembered.latest
            # Commits may be later: they change no account.
            time = max(now, latest[-1].time) if latest else now
            self.of(node).publish(notice, time)

    def begin(self, run: str) -> None:
        """A start of the broker: all nodes count from 1 again."""
        self.run = run
        self._nodes = {}

    def of(self, node: int) -> NodeEvents:
        """A node's part of the stream."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = NodeEvents(self, node)
        return found

    # -- reading

    def subscribe(
        self, *, size: int = 10_000, past: bool = False, accounts: bool = False
    ) -> Reader:
        """Begins to read.

        Args:
            size: how many events may wait to be read; when more come, the oldest
                are given up, and an `events_lost` says which.
            past: whether to begin with the remembered events.
            accounts: whether to have ``rebalance_account`` published meanwhile.

        Returns:
            A reader, to be closed.

        Raises:
            ValueError: `size` is less than 1.
        """
        reader = Reader(size, self._left_with_accounts if accounts else self._left)
        if accounts:
            self.hold_accounts()
        if past:
            for seen in self.remembered.latest:
                reader.add(seen)
        self.listen(reader.add)
        return reader

    def _left(self, reader: Reader) -> None:
        self.unlisten(reader.add)

    def _left_with_accounts(self, reader: Reader) -> None:
        self.unlisten(reader.add)
        self.release_accounts()

    def listen(
        self, listener: Listener, unheard: AbstractSet[str] = frozenset()
    ) -> None:
        """Has each event handed to a function at once, raw: it must be quick.

        Args:
            listener: the function.
            unheard: kinds that it is not called with; the set may change.
        """
        self.listeners = (*self.listeners, (listener, unheard))

    def unlisten(self, listener: Listener) -> None:
        """Undoes `listen`; fine if it has been undone."""
        self.listeners = tuple(each for each in self.listeners if each[0] != listener)

    def recent(self, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        """The remembered events, the oldest first.

        Args:
            group: a group's id: the events of that group, which go back further. The
                older ones lack the frequent kinds (heartbeats, accepted commits), so
                the sequence numbers have gaps. None: the latest events of all
                groups, without gaps.
        """
        return [seen.event for seen in self.seen(group)]

    def seen(self, group: str | None = None) -> list[Seen]:
        """The same, as it was seen: another thread may render it."""
        latest: Iterable[Seen] = self.remembered.latest
        if group is None:
            return [*latest]
        latest = [seen for seen in latest if seen.notice.group_id == group]
        return [*self.older([group]), *latest]

    def older(self, groups: Collection[str]) -> list[Seen]:
        """Remembered events of groups (none: all groups) older than `latest`.

        Not rendered yet; those of one group in order, of several by the clock.
        """
        by_group = self.remembered.by_group
        latest = set(map(id, self.remembered.latest))
        found = (
            [seen for seen in by_group.get(group, ()) if id(seen) not in latest]
            for group in groups or by_group
        )
        return list(merge(*found, key=_when))

    def lost(self, node: int, first: int, last: int) -> dict[str, Any]:
        """The `events_lost` for a reader of events that are no longer remembered.

        Args:
            node: whose events are missing.
            first: the number of the first one that is missing.
            last: the number of the last one.
        """
        for seen in self.remembered.latest:
            if seen.source is self._nodes.get(node) and seen.sequence > last:
                return seen.source.lost(first, last, seen.time, seen.wall_ns)
        now_ns = self.wall_ns()
        return self.of(node).lost(first, last, now_ns / 1e9, now_ns)
