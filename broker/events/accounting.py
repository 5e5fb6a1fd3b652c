"""Publishes accounts, off the hot path, while a reader wants them.

1. A published event only goes into a queue here, still raw.
2. In the next turns of the event loop, a few steps of work are done per turn. A step
   renders an event and passes it to `kohort.broker.events.account`, or renders some
   rows of an account that is settled.
3. With its last row the account becomes an event of the node that saw the rebalance
   begin. Only then is the next event in the queue handled.
4. Notes of fetches (`kohort.broker.fetch_watch`) stand in the same queue. The account
   of delivery (`kohort.broker.events.delivery`) takes both.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kohort.broker.coordinator.effects import Notice, Who
from kohort.broker.coordinator.events import Client
from kohort.broker.events.account import Account, Accounts
from kohort.broker.events.account.flow import KINDS
from kohort.broker.events.account.values import key_of
from kohort.broker.events.delivery.account import Deliveries, GroupDelivery
from kohort.broker.events.delivery.notes import Note
from kohort.broker.events.delivery.values import Delivery, WentBack
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.events.sources import Sources, Watch
from kohort.broker.long_work import DONE

KIND: Final = "rebalance_account"
_ASSIGNED: Final = frozenset({"member_synced", "partitions_changed"})

_OF_DELIVERY: Final = frozenset(
    {"offsets_committed", "commit_refused", "offsets_deleted", "offsets_expired"}
)
UNHEARD: Final = (
    BY_NAME.keys()
    - KINDS
    - _OF_DELIVERY
    - {"group_state", "node_started", "node_stopped"}
)
"""Kinds that no account needs, such as heartbeats."""

SLICE: Final = 40
"""Steps per turn: some 25 us each, so about a millisecond."""
BEHIND: Final = 10_000
"""Queue length from which a turn does five slices."""
MOST: Final = 100_000
"""Events that may wait. If more arrive, all are dropped, and the accounts of rebalances
in progress are marked as incomplete."""


class Accounting:
    """Reads a stream of events, and publishes the accounts of its groups.

    Args:
        publish: publishes a notice of a run's node, at a time.
        soon: calls a function in the next turn of the event loop.
        sources: see `Sources`; None: without the account of delivery.

    Attributes:
        sources: see Args.
        watch: notes the fetches.
        deliveries: the accounts of delivery, without what waits in the queue.
        idle: set while no event waits for a turn of the loop.
    """

    def __init__(
        self,
        publish: Callable[[str, int, Notice, float], None],
        soon: Callable[[Callable[[], None]], object],
        sources: Sources | None = None,
    ) -> None:
        self._publish = publish
        self._soon = soon
        self.sources = sources
        self.watch: Watch | None = None
        self._accounts = Accounts()
        self.deliveries = Deliveries(self._accounts)
        self._queue: deque[Seen | Note] = deque()
        self._readers: list[Callable[[], object]] = []
        self._work: Iterator[None] = iter(())
        self._published: set[str] = set()
        self._settled: set[str] = set()
        # The run and node of the last event.
        self._origin = "", 0
        self._now = 0.0
        self._is_due = False
        self._is_closed = False
        self.idle = asyncio.Event()
        self.idle.set()

    def catch_up(self, past: Iterable[Seen]) -> None:
        """Reads remembered events; accounts among them are not published again."""
        for seen in past:
            if seen.notice.kind == KIND:
                self._published.add(key_of(seen.event))
            elif seen.notice.kind not in UNHEARD:
                self.add(seen)

    def add(self, seen: Seen) -> None:
        """Queues an event; the stream calls it."""
        kind, group_id = seen.notice.kind, seen.notice.group_id
        if self.watch is not None:
            client = None if seen.notice.who is None else seen.notice.who[2]
            if client is not None:
                # Its request shows that it has read the responses before.
                self.watch.heard(client.connection or 0)
            if kind in _ASSIGNED:
                self.watch.round += 1
        header = seen.source.header
        self._origin = header["run"], header["node"]
        self._queue.append(seen)
        self._now = max(self._now, seen.time)
        if kind == "group_loaded" and self.sources is not None and group_id:
            self.deliveries.loaded(group_id, self.sources.committed(group_id))
        self._ask()

    def note(self, note: Note) -> None:
        """Queues a note of a fetch."""
        self._queue.append(note)
        self._ask()

    def delivery(self, group_id: str) -> Delivery:
        """The account of delivery of a group, with all events and notes so far."""
        self.settle()
        assert self.sources is not None
        return self.deliveries.snapshot(group_id, self.sources.count_records)

    def settle(self) -> None:
        """Handles the whole queue at once."""
        while self._go_on(SLICE):
            pass

    def listen(self, reader: Callable[[], object]) -> None:
        """Calls a function after each turn that has handled something."""
        self._readers.append(reader)

    def unlisten(self, reader: Callable[[], object]) -> None:
        """Undoes `listen`."""
        self._readers.remove(reader)

    def _ask(self) -> None:
        """Schedules the next turn of the loop, once."""
        if not self._is_due:
            self._is_due = True
            self.idle.clear()
            self._soon(self._turn)

    def finish(self) -> None:
        """Handles the whole queue at once: the stream may end here."""
        self.settle()
        self._tell_news(is_end=True)
        for account in self._accounts.close():
            for _ in self._tell(account):
                pass

    def close(self) -> None:
        """Stops publishing."""
        self._is_closed = True
        self._queue.clear()
        self._work = iter(())

    def _turn(self) -> None:
        self._is_due = False
        if len(self._queue) > MOST:
            self._give_up()
        if self._go_on(SLICE if len(self._queue) < BEHIND else 5 * SLICE):
            self._ask()
        else:
            self._tell_news()
            self.idle.set()
        for reader in tuple(self._readers):
            reader()

    def _go_on(self, steps: int) -> bool:
        """Does some steps of the work; returns whether any is left."""
        for _ in range(steps):
            if next(self._work, DONE) is DONE:
                if not self._queue:
                    return False
                self._work = self._take(self._queue.popleft())
        return True

    def _give_up(self) -> None:
        last = next((s for s in reversed(self._queue) if isinstance(s, Seen)), None)
        self._queue.clear()
        if last is not None:
            self._accounts.take({**last.event, "kind": "events_lost", "group": None})

    def _take(self, seen: Seen | Note) -> Iterator[None]:
        if not isinstance(seen, Seen):
            self.deliveries.note(seen)
            return
        notice = seen.notice
        if notice.kind == "group_state":
            if notice.fields["state"] == "Dead" and notice.group_id is not None:
                self._accounts.forget(notice.group_id)
            return
        event = seen.event
        settled = () if notice.kind in _OF_DELIVERY else self._accounts.take(event)
        self.deliveries.take(event)
        for account in settled:
            self._settled.add(account.group)
            yield from self._tell(account)

    def _tell_news(self, *, is_end: bool = False) -> None:
        """Publishes what is new in the accounts of delivery."""
        if self.sources is None or self._is_closed:
            return
        touched, self.deliveries.touched = self.deliveries.touched, set()
        if is_end:
            touched = {*self.deliveries.groups}
        settled, self._settled = self._settled, set()
        for group_id in sorted(touched | settled):
            group = self.deliveries.groups.get(group_id)
            if group is None:
                continue
            rewound, group.rewound = group.rewound, []
            for row in rewound:
                self._publish_rewind(group_id, row)
            if is_end or group_id in settled or group.has_news:
                self._publish_delivery(group)

    def _publish_delivery(self, group: GroupDelivery) -> None:
        assert self.sources is not None
        accounts = self._accounts.groups.get(group.group_id)
        fields = group.news(accounts, self.sources.count_records)
        before, group.told_uncommitted = group.told_uncommitted, fields["uncommitted"]
        if (
            fields["received"]
            or fields["again"]
            or fields["skips"]
            or fields["uncommitted"] != before
        ):
            weight = 1 + len(fields["again"]) + len(fields["skips"])
            last = None if accounts is None else accounts.last
            generation = None if last is None else last.generation
            name = group.group_id
            self._publish_own(
                Notice("delivery_account", name, generation, None, fields, weight)
            )

    def _publish_rewind(self, group_id: str, row: WentBack) -> None:
        client = Client(row.client_id, row.host) if row.client_id else None
        who = Who(row.member_id or None, None, client)
        rewind = {
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "previous_offset": row.previous,
        }
        fields = {"cause": row.reason, "rewinds": [rewind]}
        self._publish_own(
            Notice("offsets_went_back", group_id, row.generation, who, fields)
        )

    def _publish_own(self, notice: Notice) -> None:
        run, node = self._origin
        self._publish(run, node, notice, self._now)

    def _tell(self, account: Account) -> Iterator[None]:
        self._accounts.trim(account.group)
        if self._is_closed or account.key in self._published:
            return
        client = None
        if account.client_id is not None:
            client = Client(account.client_id, account.host or "")
        who = Who(account.member_id, account.instance_id, client)
        fields = {"reason": account.reason}
        yield from account.render(fields)
        notice = Notice(
            KIND, account.group, account.generation, who, fields, _weight(account)
        )
        self._publish(account.run, account.node, notice, self._now)


def _weight(account: Account) -> int:
    rows = (account.members, account.waits, account.pauses, account.unread)
    more = (account.returns, account.moves or (), account.kept or ())
    return 1 + sum(map(len, rows)) + sum(map(len, more))
