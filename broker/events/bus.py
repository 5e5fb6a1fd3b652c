"""The one stream of events: what happened, in order, to whoever listens.

The coordinators and the broker hand in what they saw, raw. Nothing is made of it
until somebody reads it: with nobody listening an event costs about half a
microsecond and some memory, and that is bounded. Everything else that tells what
happened (log lines, files, pages, metrics) is a reader of this stream.

A reader never slows the broker down. What a slow one misses is announced to it, by
one `events_lost` per node.

Nothing here may be called from other threads than the event loop's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from kohort.broker.clock import wall_ns
from kohort.broker.coordinator.effects import Notice
from kohort.broker.events import SCHEMA_VERSION
from kohort.broker.events.render import render

REMEMBERED: Final = 10_000
"""Events that are kept for who comes later: some minutes of a busy broker."""

ROWS_PER_EVENT: Final = 10
"""Of rows (offsets of a commit, members of a rebalance) a buffer takes so many times
its size. One commit can have 100,000 offsets: counting events alone bounds nothing."""


class Seen:
    """One event as it was seen, and, once somebody has read it, as it reads.

    Attributes:
        source: the node's part of the stream.
        sequence: its number there.
        time: the broker's clock, seconds since the epoch.
        wall_ns: the machine's clock.
        notice: what happened.
    """

    __slots__ = ("_event", "notice", "sequence", "source", "time", "wall_ns")

    def __init__(
        self,
        source: NodeEvents,
        sequence: int,
        time: float,
        wall_ns: int,
        notice: Notice,
    ) -> None:
        self.source = source
        self.sequence = sequence
        self.time = time
        self.wall_ns = wall_ns
        self.notice = notice

    @property
    def event(self) -> dict[str, Any]:
        """The event, as in `kohort.broker.events.schema`; made once, for all."""
        try:
            return self._event
        except AttributeError:
            pass  # not set yet: that would cost 5 % of what an event costs
        self._event: dict[str, Any] = {
            **self.source.header,
            "sequence": self.sequence,
            "wall_ns": self.wall_ns,
            **render(self.notice, self.time),
        }
        return self._event


class _Buffer:
    """The latest events, up to a number of them and of their rows."""

    __slots__ = ("events", "most_rows", "rows", "size")

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a buffer for {size} events: there must be room for 1")
        self.size = size
        self.events: deque[Seen] = deque()
        self.rows = 0
        self.most_rows = size * ROWS_PER_EVENT

    def add(self, seen: Seen) -> None:
        events = self.events
        events.append(seen)
        self.rows += seen.notice.weight
        if len(events) > self.size or self.rows > self.most_rows:
            self.shrink()

    def shrink(self) -> None:
        """Drops the oldest; the latest stays, however large it is."""
        events = self.events
        while len(events) > 1 and (
            len(events) > self.size or self.rows > self.most_rows
        ):
            self.drop(events.popleft())

    def drop(self, seen: Seen) -> None:
        self.rows -= seen.notice.weight


class Reader(_Buffer):
    """Somebody who reads the stream, at its own pace: an async iterator of events.

        with broker.events.subscribe() as reader:
            async for event in reader:
                print(event["kind"])

    Each event is a dict that all readers share: it is not to be changed. After
    `close` those that have come are still given, and then the iteration ends.

    Attributes:
        lost: how many events it has missed so far.
    """

    __slots__ = ("_gaps", "_leave", "_wake", "is_closed", "lost")

    def __init__(self, size: int, leave: Callable[[Reader], object]) -> None:
        super().__init__(size)
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
        assert self._wake is None, "somebody waits already"  # noqa: S101 - a mistake
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
        _Buffer.drop(self, seen)
        return seen.event

    def close(self) -> None:
        """Nothing is added any more."""
        self.is_closed = True
        self._leave(self)
        self._notify()

    def add(self, seen: Seen) -> None:
        """Takes an event; the stream calls it."""
        super().add(seen)
        if self._wake is not None:
            self._notify()

    def drop(self, seen: Seen) -> None:
        """An event is given up: others have come before it was read."""
        super().drop(seen)
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

    __slots__ = ("_stream", "header", "sequence")

    def __init__(self, stream: Events, node: int) -> None:
        self._stream = stream
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
            notice: what.
            now: the broker's clock, seconds since the epoch.
        """
        stream = self._stream
        if stream.listening:
            self.sequence = sequence = self.sequence + 1
            seen = Seen(self, sequence, now, stream.wall_ns(), notice)
            # As `_Buffer.add`: a call less, and where it is full one out, one in.
            recent = stream.remembered
            events = recent.events
            if len(events) == recent.size:
                recent.rows -= events.popleft().notice.weight
            events.append(seen)
            recent.rows += notice.weight
            if recent.rows > recent.most_rows:
                recent.shrink()
            for listener in stream.listeners:
                listener(seen)

    def lost(self, first: int, last: int, time: float, wall_ns: int) -> dict[str, Any]:
        """The `events_lost` of somebody who misses the events `first` to `last`.

        It is an event of that reader's alone, and has no number of its own: it bears
        the last one that is missing, so that the next event goes on from there.
        """
        notice = Notice("events_lost", None, None, None, {"first": first, "last": last})
        return Seen(self, last, time, wall_ns, notice).event

    def tell(self, kind: str, now: float, /, **fields: object) -> None:
        """Something happened that is about no group."""
        self.publish(Notice(kind, None, None, None, fields), now)


class Events:
    """The stream of all nodes of a broker.

    Args:
        labels: what the user calls this run, its settings, its seed.
        remembered: how many events to keep for those who come later.
        wall: the machine's clock, ns since the epoch; virtual in a simulation.

    Attributes:
        run: unique to a start of the broker; empty before the first.
        labels: see above.
        listening: whether events are made at all. To be set before the start.
        heartbeats: whether heartbeats are events, too. To be set before the start.
        wall_ns: see `wall`.
        remembered: the latest events, as they were seen.
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
        self.remembered = _Buffer(remembered)
        self._nodes: dict[int, NodeEvents] = {}
        # Replaced, never changed: a reader may leave while others are told.
        self.listeners: tuple[Callable[[Seen], object], ...] = ()

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

    def subscribe(self, *, size: int = 10_000, past: bool = False) -> Reader:
        """Begins to read.

        Args:
            size: how many events may wait to be read; when more come, the oldest
                are given up, and an `events_lost` says which.
            past: whether to begin with what is remembered.

        Returns:
            A reader, to be closed.

        Raises:
            ValueError: `size` is less than 1.
        """
        reader = Reader(size, lambda gone: self.unlisten(gone.add))
        if past:
            for seen in self.remembered.events:
                reader.add(seen)
        self.listen(reader.add)
        return reader

    def listen(self, listener: Callable[[Seen], object]) -> None:
        """Has each event handed to a function at once, raw: it must be quick."""
        self.listeners = (*self.listeners, listener)

    def unlisten(self, listener: Callable[[Seen], object]) -> None:
        """Undoes `listen`; fine if it has been undone."""
        self.listeners = tuple(each for each in self.listeners if each != listener)

    def recent(self, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        """What is remembered, the oldest first: of one group, or everything."""
        return [seen.event for seen in self._remembered(group)]

    def lost(self, node: int, first: int, last: int) -> dict[str, Any]:
        """The `events_lost` of somebody who wants more than is remembered.

        Args:
            node: whose events are missing.
            first: the number of the first one that is missing.
            last: the number of the last one.
        """
        for seen in self.remembered.events:
            if seen.source is self._nodes.get(node) and seen.sequence > last:
                return seen.source.lost(first, last, seen.time, seen.wall_ns)
        now_ns = self.wall_ns()
        return self.of(node).lost(first, last, now_ns / 1e9, now_ns)

    def _remembered(self, group: str | None) -> Iterator[Seen]:
        for seen in self.remembered.events:
            if group is None or seen.notice.group_id == group:
                yield seen
