"""Where streams of events read from: what the broker remembers of them anyway.

A reader is a place among the remembered events, and has no buffer of its own: one that
is slow, or never reads, costs nothing, however many there are. What is forgotten
before it has come there it has missed, and is told so.

Nothing here may be called from other threads than the event loop's.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from kohort.broker.events.bus import NodeEvents, Seen
from kohort.broker.events.views.reading import json_of
from kohort.broker.server import Broker

Event = Mapping[str, Any]

MOST_TEXT: Final = 8 * 1024 * 1024
"""Bytes of JSON that are kept for other readers: of some 20,000 events."""

_ID: Final = re.compile(r"([!-~]{1,100}):([0-9]{1,10}):([0-9]{1,19})")
"""The id of an event: run, node, sequence."""


def id_of(event: Event) -> str:
    """The id of an event among all that there ever are."""
    return f"{event['run']}:{event['node']}:{event['sequence']}"


class Feed:
    """The events of a broker, for readers that come and go.

    Args:
        broker: the broker.

    Attributes:
        count: how many events there were since somebody reads.
        remembered: the latest of them.
    """

    def __init__(self, broker: Broker) -> None:
        self.count = 0
        self.remembered = broker.events.remembered.latest
        self._broker = broker
        self._places: set[Place] = set()
        self._waiting: list[asyncio.Future[None]] = []
        # By its id(): an event, which is kept for that, and its text.
        self._texts: dict[int, tuple[Event, bytes]] = {}
        self._text_size = 0

    def open(self, last: str = "", groups: Collection[str] | None = None) -> Place:
        """Begins to read, behind an event or with the first that is remembered.

        Args:
            last: the id of the event; any other text for none.
            groups: those whose history is wanted, none for all: what is remembered
                of them goes back further, without what comes with every request, as
                `Events.recent` has it; no gap is announced before the latest events.
                None: the latest events only.

        Returns:
            A place, to be used by ``with``; it has events of other groups, too.
        """
        return Place(self, last, groups)

    def older(self, groups: Collection[str]) -> list[Seen]:
        """What is remembered of groups besides the latest events, in order."""
        return self._broker.events.older(groups)

    def beginning(self) -> dict[NodeEvents, int]:
        """The number of the first event that is remembered of each part."""
        first: dict[NodeEvents, int] = {}
        for seen in self.remembered:
            first.setdefault(seen.source, seen.sequence)
        for each in self._parts():
            first.setdefault(each, each.sequence + 1)
        return first

    def find(self, last: str) -> tuple[int, dict[NodeEvents, int]]:
        """Where to begin behind an event.

        Returns:
            How many of the remembered events were read; and the number that the
            next event of each part of the stream has, 1 where none is named.
        """
        source, sequence = self._source(last)
        if source is None:
            return 0, {}
        read = 0
        for index, seen in enumerate(self.remembered, 1):
            if seen.source is source and seen.sequence == sequence:
                read = index
        # Of what came before the first that is remembered everything was read.
        following: dict[NodeEvents, int] = {}
        for index, seen in enumerate(self.remembered, 1):
            if index <= read:
                following[seen.source] = seen.sequence + 1
            else:
                following.setdefault(seen.source, seen.sequence)
        for each in self._parts():
            following.setdefault(each, each.sequence + 1)
        following[source] = sequence + 1
        return read, following

    def _source(self, last: str) -> tuple[NodeEvents | None, int]:
        """The part of the stream that an event was in, if it was; and its number."""
        found = _ID.fullmatch(last)
        if found is not None:
            run, node, sequence = found[1], int(found[2]), int(found[3])
            for each in self._parts():
                header = each.header
                if (header["run"], header["node"]) == (run, node):
                    if 0 < sequence <= each.sequence:
                        return each, sequence
                    break
        return None, 0

    def _parts(self) -> list[NodeEvents]:
        return [self._broker.events.of(node) for node in self._broker.cluster.nodes]

    def text_of(self, event: Event) -> bytes:
        """An event as JSON: made once, where there are several readers."""
        found = self._texts.get(id(event))
        if found is not None:
            return found[1]
        text = json_of(event)
        if len(self._places) > 1:
            self._texts[id(event)] = event, text
            self._text_size += len(text)
            while self._text_size > MOST_TEXT:
                _, dropped = self._texts.pop(next(iter(self._texts)))
                self._text_size -= len(dropped)
        return text

    # -- places

    def enter(self, place: Place) -> None:
        """Counts events from now on, if nobody did."""
        if not self._places:
            self._broker.events.listen(self._look)
        self._places.add(place)

    def leave(self, place: Place) -> None:
        """Undoes `enter`; fine if it has been undone."""
        self._places.discard(place)
        if not self._places:
            self._broker.events.unlisten(self._look)
            self._texts.clear()
            self._text_size = 0

    async def wait(self) -> None:
        """Returns with the next event, or after `wake`."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def wake(self) -> None:
        """Has all who wait look again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _look(self, _: Seen) -> None:
        self.count += 1
        if self._waiting:
            self.wake()


class Place:
    """Somebody's place in the stream.

    Args:
        feed: the stream.
        last: as in `Feed.open`.
        groups: likewise.

    Attributes:
        last: the id of the last event before it; empty at the beginning.
    """

    def __init__(self, feed: Feed, last: str, groups: Collection[str] | None) -> None:
        self._feed = feed
        feed.enter(self)
        read, self._following = feed.find(last)
        self.last = last if self._following else ""
        # What comes before all that is counted.
        self._past: deque[Seen] = deque()
        if groups is not None and not self.last:
            self._past.extend(feed.older(groups))
            self._following = feed.beginning()
        self._position = feed.count - len(feed.remembered) + read
        # Once it is closed: what has come until then, and was not taken yet.
        self._rest: deque[Seen] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.leave(self)

    def close(self) -> None:
        """Ends it behind the last event that has come until now, which is kept."""
        if self._rest is None:
            self._rest = deque(self._waiting(len(self._feed.remembered)))
            self._rest.extendleft(reversed(self._past))
            self._past.clear()
            self._feed.leave(self)
            self._feed.wake()

    @property
    def is_over(self) -> bool:
        """Whether it was closed, and everything was taken."""
        return self._rest is not None and not self._rest

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        if self._rest is not None:
            return bool(self._rest)
        return bool(self._past) or self._position < self._feed.count

    async def wait(self) -> None:
        """Returns as soon as there is something to take, or it is over."""
        while not self.has_more and not self.is_over:
            await self._feed.wait()

    def take(self, most: int) -> list[Event]:
        """The next events, without waiting; there may be none.

        What was missed is announced by an `events_lost`, one per node, right before
        the next event of the node.

        Args:
            most: how many events.
        """
        kept = self._past if self._rest is None else self._rest
        if kept or self._rest is not None:
            taken = [kept.popleft() for _ in range(min(most, len(kept)))]
        else:
            taken = self._waiting(most)
        events = [event for seen in taken for event in self._with_gap(seen)]
        if events:
            self.last = id_of(events[-1])
        return events

    def _waiting(self, most: int) -> list[Seen]:
        """The next events that are remembered; the place is behind them then."""
        remembered = self._feed.remembered
        oldest = self._feed.count - len(remembered)
        self._position = max(self._position, oldest)
        first = self._position - oldest
        # By index: whoever keeps up wants the last few of thousands.
        until = min(first + most, len(remembered))
        taken = [remembered[index] for index in range(first, until)]
        self._position += len(taken)
        return taken

    def _with_gap(self, seen: Seen) -> list[Event]:
        """An event, behind the announcement of those that are missing before it."""
        source, sequence = seen.source, seen.sequence
        expected = self._following.get(source, 1)
        self._following[source] = sequence + 1
        if sequence < expected:
            # Older than what is counted: of a group that is asked for.
            self._following[source] = expected
            return [seen.event]
        if sequence == expected:
            return [seen.event]
        lost = source.lost(expected, sequence - 1, seen.time, seen.wall_ns)
        return [lost, seen.event]
