"""The source of event streams: the events that the broker remembers anyway.

A reader is a place among the remembered events and has no buffer, so that slow readers
cost nothing, however many there are. A reader misses the events that are forgotten
before it takes them; an `events_lost` stands in their place.

Call these methods only from the event loop's thread.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Final, Self

from kohort.broker.events.bus import NodeEvents
from kohort.broker.events.seen import Seen, Source
from kohort.broker.events.views.reading import json_of
from kohort.broker.server import Broker

Event = Mapping[str, Any]

MOST_TEXT: Final = 8 * 1024 * 1024
"""Bytes of JSON that are shared between readers: some 20,000 events."""

_ID: Final = re.compile(r"([!-~]{1,100}):([0-9]{1,10}):([0-9]{1,19})")
"""The id of an event: run, node, sequence."""


def id_of(event: Event) -> str:
    """Returns the id of an event, which is unique among all runs."""
    return f"{event['run']}:{event['node']}:{event['sequence']}"


class Feed:
    """The events of a broker, for readers that come and go.

    Args:
        broker: the broker.

    Attributes:
        count: the number of events since the first reader came.
        remembered: the latest events.
    """

    def __init__(self, broker: Broker) -> None:
        self.count = 0
        self.remembered = broker.events.remembered.latest
        self._broker = broker
        self._places: set[Place] = set()
        self._waiting: list[asyncio.Future[None]] = []
        # By id() of the event: the event, so that it keeps its id(), and its text.
        self._texts: dict[int, tuple[Event, bytes]] = {}
        self._text_size = 0

    def open(
        self,
        last: str = "",
        groups: Collection[str] | None = None,
        *,
        transactions: bool = False,
    ) -> Place:
        """Starts reading, behind an event or with the first that is remembered.

        Args:
            last: the id of the event; any other text for none.
            groups: the groups whose history comes first; empty for all groups. It
                goes back further than the latest events, leaves out the events of
                every request, as `Events.recent`, and no gap is announced behind it.
                None for the latest events only.
            transactions: whether the history includes that of transactions.

        Returns:
            A place, a context manager; its events are those of all groups.
        """
        return Place(self, last, groups, transactions=transactions)

    def older(self, groups: Collection[str], *, transactions: bool) -> list[Seen]:
        """Returns the remembered events of groups that are older than `remembered`."""
        return self._broker.events.older(groups, transactions=transactions)

    def beginning(self) -> dict[Source, int]:
        """Returns the number of the first remembered event of each node."""
        first: dict[Source, int] = {}
        for seen in self.remembered:
            first.setdefault(seen.source, seen.sequence)
        for each in self._parts():
            first.setdefault(each, each.sequence + 1)
        return first

    def find(self, last: str) -> tuple[int, dict[Source, int]]:
        """Finds the place behind an event.

        Returns:
            How many of the remembered events come before it; and by node the number
            of the next event, which is 1 for nodes that are missing.
        """
        source, sequence = self._source(last)
        if source is None:
            return 0, {}
        read = 0
        for index, seen in enumerate(self.remembered, 1):
            if seen.source is source and seen.sequence == sequence:
                read = index
        # The reader has seen everything before the first remembered event.
        following: dict[Source, int] = {}
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
        """Returns the node of an event and the event's number; (None, 0) if unknown."""
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
        """Returns an event as JSON; encoded once for all readers."""
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
        """Adds a reader; the first one starts the counting of events."""
        if not self._places:
            self._broker.events.listen(self._count)
        self._places.add(place)

    def leave(self, place: Place) -> None:
        """Removes a reader; does nothing if it was removed before."""
        self._places.discard(place)
        if not self._places:
            self._broker.events.unlisten(self._count)
            self._texts.clear()
            self._text_size = 0

    async def wait(self) -> None:
        """Waits for the next event, or for `wake`."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def wake(self) -> None:
        """Wakes all waiting readers."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _count(self, _: Seen) -> None:
        self.count += 1
        if self._waiting:
            self.wake()


class Place:
    """The place of one reader in the stream.

    Args:
        feed: the stream.
        last: as in `Feed.open`.
        groups: likewise.
        transactions: likewise.

    Attributes:
        last: the id of the last event before it; empty at the beginning.
    """

    def __init__(
        self,
        feed: Feed,
        last: str,
        groups: Collection[str] | None,
        *,
        transactions: bool,
    ) -> None:
        self._feed = feed
        feed.enter(self)
        read, self._following = feed.find(last)
        self.last = last if self._following else ""
        # Events before the counted ones.
        self._past: deque[Seen] = deque()
        if groups is not None and not self.last:
            self._past.extend(feed.older(groups, transactions=transactions))
            self._following = feed.beginning()
        self._position = feed.count - len(feed.remembered) + read
        # After `close`: the events that were not taken yet.
        self._rest: deque[Seen] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.leave(self)

    def close(self) -> None:
        """Ends the stream behind the last event so far; the rest can still be taken."""
        if self._rest is None:
            self._rest = deque(self._waiting(len(self._feed.remembered)))
            self._rest.extendleft(reversed(self._past))
            self._past.clear()
            self._feed.leave(self)
            self._feed.wake()

    @property
    def is_over(self) -> bool:
        """True if the place is closed and all events are taken."""
        return self._rest is not None and not self._rest

    @property
    def has_more(self) -> bool:
        """True if `take` has events to return."""
        if self._rest is not None:
            return bool(self._rest)
        return bool(self._past) or self._position < self._feed.count

    async def wait(self) -> None:
        """Waits until there are events to take, or the place is over."""
        while not self.has_more and not self.is_over:
            await self._feed.wait()

    def take(self, most: int) -> list[Event]:
        """Returns the next events without waiting; the list may be empty.

        An `events_lost` per node stands in place of missed events, right before the
        node's next event.

        Args:
            most: the largest number of events.
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
        """Returns the next remembered events, and moves the place behind them."""
        remembered = self._feed.remembered
        oldest = self._feed.count - len(remembered)
        self._position = max(self._position, oldest)
        first = self._position - oldest
        # By index: most readers keep up, and take the last few of thousands.
        until = min(first + most, len(remembered))
        taken = [remembered[index] for index in range(first, until)]
        self._position += len(taken)
        return taken

    def _with_gap(self, seen: Seen) -> list[Event]:
        """Returns an event, with an `events_lost` before it if others are missing."""
        source, sequence = seen.source, seen.sequence
        expected = self._following.get(source, 1)
        self._following[source] = sequence + 1
        if sequence < expected:
            # From the history of a group, which is older than the counted events.
            self._following[source] = expected
            return [seen.event]
        if sequence == expected:
            return [seen.event]
        lost = source.lost(expected, sequence - 1, seen.time, seen.wall_ns)
        return [lost, seen.event]
