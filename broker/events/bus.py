"""The one stream of events, in order, and its readers.

1. The coordinators and the broker publish raw notices (`NodeEvents.publish`). Without a
   reader, a notice costs about half a microsecond and some memory, which is bounded.
2. Listeners are called with each notice at once; readers get it in their buffers. Log
   lines, files, pages and metrics are readers of this stream.
3. A notice is rendered as an event when it is first read, once for all readers.
4. A reader never slows the broker down. A slow reader misses events, and gets one
   `events_lost` per node in their place.

Only the event loop's thread may call anything here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Self

from kohort.broker.clock import wall_ns
from kohort.broker.events import SCHEMA_VERSION
from kohort.broker.events.remembered import (
    APART,
    CLOCK,
    FREE_ROWS,
    FREQUENT,
    REMEMBERED,
    ROWS_PER_EVENT,
    Remembered,
)
from kohort.broker.events.remembered_transactions import KINDS as TRANSACTION_KINDS
from kohort.broker.events.seen import Seen, Source
from kohort.broker.long_work import soon
from kohort.broker.notice import Notice, make

if TYPE_CHECKING:
    from kohort.broker.events.accounting import Accounting
    from kohort.broker.events.sources import Sources
    from kohort.broker.events.types import Event

Listener = Callable[[Seen], object]


class Reader:
    """A reader of the stream, at its own pace: an async iterator of events.

        with broker.events.subscribe() as reader:
            async for event in reader:
                print(event["kind"])

    Each event is a dict that all readers share: do not change it. After `close`, events
    that have arrived can still be read; then the iteration ends.

    Attributes:
        events: events that wait to be read; the latest stays, however large it is.
        rows: the number of their rows.
        size: maximum events that may wait.
        most_rows: maximum rows that may wait.
        is_closed: whether it was closed.
        lost: the number of events missed so far.
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
        # By node's part of the stream: the first missed event and the last.
        self._gaps: dict[Source, tuple[int, Seen]] = {}
        self._leave = leave
        self._wake: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of events that wait to be read, with announcements of gaps."""
        return len(self.events) + len(self._gaps)

    def __bool__(self) -> bool:
        """True, even if no event waits."""
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self.events:
            if self.is_closed:
                raise StopAsyncIteration
            await self.wait()
        return self._next()

    async def wait(self) -> None:
        """Returns as soon as there is something to `take`, or the reader is closed.

        Only one task at a time may wait.
        """
        if self.events or self.is_closed:
            return
        assert self._wake is None, "another reader waits already"
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def take(self, most: int | None = None) -> list[Event]:
        """Returns events that have arrived, perhaps none, without waiting.

        Args:
            most: maximum number; None for all.
        """
        count = len(self) if most is None else min(most, len(self))
        return [self._next() for _ in range(count)]

    def _next(self) -> Event:
        if self._gaps:
            return self._gap()
        seen = self.events.popleft()
        self.rows -= seen.notice.weight
        return seen.event

    def close(self) -> None:
        """Closes the reader; nothing is added any more. May be called again."""
        if not self.is_closed:
            self.is_closed = True
            self._leave(self)
            self._notify()

    def add(self, seen: Seen) -> None:
        """Adds an event; the stream calls it."""
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

    def _gap(self) -> Event:
        """Makes one `events_lost`, with the number of the last missing event."""
        source = next(iter(self._gaps))
        first, last = self._gaps.pop(source)
        return source.lost(first, last.sequence, last.time, last.wall_ns)


class NodeEvents:
    """One node's part of the stream: numbers its events.

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
        """Publishes a notice.

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
            if kind in APART:
                if kind not in FREQUENT:
                    stream.remembered.set_apart(seen)
            elif group_id is not None:
                try:
                    self._by_group[group_id].append(seen)
                except KeyError:
                    stream.remembered.of(group_id).append(seen)
            for listener, unheard in stream.listeners:
                if kind not in unheard:
                    listener(seen)
            if weight > FREE_ROWS:
                stream.remembered.weigh(seen)
            if not sequence & self._mask:
                stream.remembered.tidy()

    def lost(self, first: int, last: int, time: float, wall_ns: int) -> Event:
        """The `events_lost` for a reader that misses the events `first` to `last`.

        Only that reader gets it. Its sequence number is the last missing one, so that
        the next event follows on.
        """
        notice = Notice("events_lost", None, None, None, {"first": first, "last": last})
        return Seen(self, last, time, wall_ns, notice).event

    def tell(self, kind: str, now: float, /, **fields: object) -> None:
        """Publishes an event that is about no group."""
        self.publish(Notice(kind, None, None, None, fields), now)


class Events:
    """The stream of all nodes of a broker.

    Args:
        labels: the user's labels of this run: its name, settings, seed.
        remembered: number of events kept for later readers.
        wall: the machine's clock, ns since the epoch; tests replace it.

    Attributes:
        run: unique to a start of the broker; empty before the first.
        labels: see above.
        listening: whether events are made at all. Set it before the start.
        heartbeats: whether heartbeats are events, too. Set it before the start.
        wall_ns: see `wall`.
        remembered: the latest events, and older ones of groups, with their times.
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
        self.remembered = Remembered(remembered)
        self._nodes: dict[int, NodeEvents] = {}
        self._accounting: Accounting | None = None
        self._account_readers = 0
        self._sources: Sources | None = None
        # Replaced, never changed: a reader may leave while a loop calls the others.
        self.listeners: tuple[tuple[Listener, AbstractSet[str]], ...] = ()

    # -- accounts of rebalances

    def hold_accounts(self) -> None:
        """Publishes accounts and findings from now on, of remembered events, too.

        On the running loop; each call needs a `release_accounts`.
        """
        self._account_readers += 1
        if self._accounting is None:
            from kohort.broker.events.accounting import UNHEARD, Accounting

            later = asyncio.get_running_loop().call_later
            self._accounting = Accounting(self._publish_of, soon, later, self._sources)
            self._accounting.catch_up([*self.older(()), *self.remembered.latest])
            self.listen(self._accounting.add, UNHEARD)
            self._watch()

    def watch(self, sources: Sources, *, is_empty: bool) -> None:
        """Gives the accounts what events do not have, at a start of the broker.

        Args:
            sources: see `Sources`.
            is_empty: whether its topics and groups are new ones, whatever their names.
        """
        self._sources = sources
        if self._accounting is not None:
            self._accounting.sources = sources
            if is_empty:
                self._accounting.forget()
            self._watch()

    def _watch(self) -> None:
        if self._sources is not None:
            add = None if self._accounting is None else self._accounting.note
            watch = self._sources.watch(add)
            if self._accounting is not None:
                self._accounting.watch = watch

    @property
    def accounting(self) -> Accounting | None:
        """The accounts of the stream; None while no reader wants them."""
        return self._accounting

    def finish_accounts(self) -> None:
        """Publishes accounts and findings of all that has happened, at once."""
        if self._accounting is not None:
            self._accounting.finish()

    async def accounts_made(self) -> None:
        """Returns once all events so far have their accounts, as far as settled."""
        if self._accounting is not None:
            await self._accounting.idle.wait()

    def release_accounts(self) -> None:
        """Undoes `hold_accounts`: the last one ends it."""
        self._account_readers -= 1
        if self._accounting is not None and not self._account_readers:
            self.unlisten(self._accounting.add)
            self._accounting.close()
            self._accounting = None
            self._watch()

    def _publish_of(self, run: str, node: int, notice: Notice, now: float) -> None:
        if run == self.run:
            latest = self.remembered.latest
            # Later commits do not matter: they change nothing here.
            time = max(now, latest[-1].time) if latest else now
            self.of(node).publish(notice, time)

    def begin(self, run: str) -> None:
        """Begins a run, at a start of the broker: all nodes count from 1 again."""
        self.run = run
        self._nodes = {}
        self.remembered.transactions.begin()

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
            size: number of events that may wait to be read; if more arrive, the oldest
                are dropped, and an `events_lost` says which.
            past: whether to begin with the remembered events.
            accounts: whether to publish ``rebalance_account`` and ``finding`` while
                reading.

        Returns:
            A reader; close it in the end.

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
        """Calls a function with each event at once, raw: it must be quick.

        Args:
            listener: the function.
            unheard: kinds that it is not called with; the set may change.
        """
        self.listeners = (*self.listeners, (listener, unheard))

    def unlisten(self, listener: Listener) -> None:
        """Undoes `listen`; may be called again."""
        self.listeners = tuple(each for each in self.listeners if each[0] != listener)

    def recent(
        self, group: str | None = None, *, transactions: bool = False
    ) -> Sequence[Event]:
        """Returns the remembered events, oldest first.

        Args:
            group: a group's id: the events of that group, which go back further, and
                the advances of the clock. The
                older ones lack the frequent kinds (heartbeats, accepted commits), so
                the sequence numbers have gaps. None: the latest events of all
                groups, without gaps.
            transactions: whether to add a group's those of transactions, which may
                hold back its records or offsets.
        """
        found = self.seen(group, transactions=transactions)
        return [seen.event for seen in found]

    def seen(
        self, group: str | None = None, *, transactions: bool = False
    ) -> list[Seen]:
        """The same as `recent`, not rendered yet: another thread may render them."""
        latest: Iterable[Seen] = self.remembered.latest
        if group is None:
            return [*latest]
        kinds = {CLOCK, *(TRANSACTION_KINDS if transactions else ())}
        latest = [
            seen
            for seen in latest
            if seen.notice.group_id == group or seen.notice.kind in kinds
        ]
        return [*self.older([group], transactions=transactions), *latest]

    def older(
        self, groups: Collection[str], *, transactions: bool = False
    ) -> list[Seen]:
        """Remembered events of groups (none: all groups) older than `latest`.

        Not rendered yet; one group's in order, several groups' by the clock.

        Args:
            groups: their ids.
            transactions: whether to add those of transactions: of open ones, and of
                those that did not end well.
        """
        return self.remembered.older(groups, transactions=transactions)

    def lost(self, node: int, first: int, last: int) -> Event:
        """Makes the `events_lost` for a reader of events that are no longer remembered.

        Args:
            node: the node of the missing events.
            first: the number of the first missing event.
            last: the number of the last one.
        """
        for seen in self.remembered.latest:
            if seen.source is self._nodes.get(node) and seen.sequence > last:
                return seen.source.lost(first, last, seen.time, seen.wall_ns)
        now_ns = self.wall_ns()
        return self.of(node).lost(first, last, now_ns / 1e9, now_ns)
