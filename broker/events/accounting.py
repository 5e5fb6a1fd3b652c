"""Publishes accounts and findings, off the hot path, while a reader wants them.

1. A published event only goes into a queue here, still raw.
2. In the next turns of the event loop, a few steps of work are done per turn. A step
   renders an event and passes it to `kohort.broker.events.account`, or renders some
   rows of an account that is settled.
3. The ends of the logs are looked up: how many records were appended while partitions
   had no reader. They are those of the time in question, not of now.
4. With its last row the account becomes an event of the node that saw the rebalance
   begin, or time without a reader end. Only then is the next event handled.
5. Notes of fetches (`kohort.broker.fetch_watch`) stand in the same queue. The account
   of delivery (`kohort.broker.events.delivery`) takes both.
6. A second after that, a round of findings begins: the rules look at each group with
   new events, one rule per turn. Findings that are new or have changed become events.
   The more work a round was, the later is the next one, and a group with a long
   history is looked at less often.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.account.flow import ACCOUNTS, DERIVED, KINDS
from kohort.broker.events.account.values import Event, key_of
from kohort.broker.events.delivery.account import Deliveries, GroupDelivery
from kohort.broker.events.delivery.counted import Counted
from kohort.broker.events.delivery.notes import Note
from kohort.broker.events.delivery.values import Delivery, Open, WentBack
from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.fold import CLOCK, Folding, weigh
from kohort.broker.events.findings.fold import KINDS as KINDS_OF_FINDINGS
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.told import Told
from kohort.broker.events.remembered_transactions import KINDS as TRANSACTION_KINDS
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.events.sources import LogEnd, Sources, Watch
from kohort.broker.long_work import DONE, finish
from kohort.broker.notice import Client, Notice, Who

FINDING: Final = "finding"
_COMMITTED: Final = "offsets_committed"
_ASSIGNED: Final = frozenset({"member_synced", "partitions_changed"})
_OF_DELIVERY: Final = frozenset({"offsets_deleted", "offsets_expired"})
_NEWS_OF_DELIVERY: Final = frozenset({"delivery_account", "offsets_went_back"})
"""Published here, and read again for the findings about records."""

UNHEARD: Final = (
    BY_NAME.keys()
    - KINDS
    - KINDS_OF_FINDINGS
    - TRANSACTION_KINDS
    - _OF_DELIVERY
    - {"group_state", "node_started", "node_stopped", CLOCK}
) | (DERIVED - _NEWS_OF_DELIVERY)
"""Kinds that are not needed, such as heartbeats."""

SLICE: Final = 40
"""Steps per turn: some 25 us each, so about a millisecond."""
BEHIND: Final = 10_000
"""Queue length from which a turn does five slices."""
MOST: Final = 100_000
"""Events that may wait. If more arrive, all are dropped, and the accounts of rebalances
in progress are marked as incomplete."""

ROUND_S: Final = 1.0
"""The least time between two rounds of findings."""
SHARE: Final = 0.05
"""The largest share of the time that rounds take."""
FACT_S: Final = 10e-6
"""Time of all rules for one row of a group's accounts, or one refusal: 6 us."""
GROWTH: Final = 4
"""New events of a group that are worth a look, as a divisor of all its events: so all
looks at a growing history together take as long as five looks at the whole."""
ROUNDS: Final = 60
"""Rounds after which a group is looked at in any case."""


class Accounting:
    """Reads a stream of events; publishes accounts of its groups, and findings.

    Args:
        publish: publishes a notice of a run's node, at a time.
        soon: calls a function in the next turn of the event loop.
        later: calls a function after some seconds.
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
        later: Callable[[float, Callable[[], None]], object],
        sources: Sources | None = None,
    ) -> None:
        self._publish_to = publish
        self._soon = soon
        self._later = later
        self.sources = sources
        self.watch: Watch | None = None
        self._folding = Folding()
        self.deliveries = Deliveries(self._folding.accounts)
        self._readers: list[Callable[[], object]] = []
        self._settled: set[str] = set()
        # The run and node of the last event.
        self._origin = "", 0
        # By group: new events since the last look, and rounds without a look.
        self._fresh: dict[str, tuple[int, int]] = {}
        self._has_transactions = False
        self._told: dict[str, Told] = {}
        self._round: Iterator[None] | None = None
        self._rest_s = ROUND_S
        self._is_resting = False
        self._queue: deque[Seen | Note] = deque()
        self._work: Iterator[None] = iter(())
        self._published: set[str] = set()
        self._now = 0.0
        self._is_due = False
        self._is_closed = False
        self._is_publishing = False
        self.idle = asyncio.Event()
        self.idle.set()

    def catch_up(self, past: Iterable[Seen]) -> None:
        """Reads remembered events; accounts among them are not published again."""
        for seen in past:
            if seen.notice.kind in ACCOUNTS:
                self._published.add(key_of(seen.event))
                self._folding.take(seen.event)
            elif seen.notice.kind == FINDING:
                self._told_of(seen.event).know(seen.event)
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
        return finish(self._counted(group_id).delivery())

    def open_partitions(self, group_id: str) -> tuple[Open, ...]:
        """The partitions of a group whose new owner has not fetched yet."""
        self.settle()
        return tuple(self._counted(group_id).open())

    def _counted(self, group_id: str) -> Counted:
        assert self.sources is not None
        return self.deliveries.counted(group_id, self.sources.count_records)

    def settle(self) -> None:
        """Handles the whole queue at once.

        Does nothing in a listener of an event that this publishes: then the account is
        that of the event.
        """
        if self._is_publishing:
            return
        for _ in self._round or ():
            pass
        self._round = None
        while self._go_on(SLICE):
            pass

    def tell(self) -> None:
        """Publishes what is new in the accounts of delivery, at once."""
        self.settle()
        for _ in self._tell_news():
            pass

    def forget(self) -> None:
        """Begins the accounts of delivery anew: the groups' records are others."""
        self.settle()
        self.deliveries = Deliveries(self._folding.accounts)

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
        for _ in self._tell_news(is_end=True):
            pass
        self.settle()
        for account in self._folding.close():
            for _ in self._tell(account):
                pass
        for _ in self._look(least=1):
            pass

    def close(self) -> None:
        """Stops publishing."""
        self._is_closed = True
        self._queue.clear()
        self._work = iter(())
        self._round = None

    def _turn(self) -> None:
        self._is_due = False
        if len(self._queue) > MOST:
            self._give_up()
        if self._round is not None:
            if next(self._round, DONE) is DONE:
                self._round = None
            self._ask()
        elif self._go_on(SLICE if len(self._queue) < BEHIND else 5 * SLICE):
            self._ask()
        elif self.sources and (self.deliveries.touched or self._settled):
            self._work = self._tell_news()
            self._ask()
        else:
            self.idle.set()
            if self._is_dirty and not self._is_resting:
                self._is_resting = True
                self._later(self._rest_s, self._begin_round)
        for reader in tuple(self._readers):
            reader()

    @property
    def _is_dirty(self) -> bool:
        return bool(self._fresh) or self._has_transactions

    def _begin_round(self) -> None:
        self._is_resting = False
        if not self._is_closed:
            self._round = self._look()
            self._ask()

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
        count = len(self._queue)
        self._queue.clear()
        if last is not None:
            lost = {"kind": "events_lost", "group": None, "first": 0, "last": count - 1}
            self._folding.take({**last.event, **lost})

    def _take(self, seen: Seen | Note) -> Iterator[None]:
        if not isinstance(seen, Seen):
            self.deliveries.note(seen)
            return
        notice = seen.notice
        group = notice.group_id
        if notice.kind == _COMMITTED:
            self.deliveries.commit(seen)
            return
        if notice.kind == "group_state":
            if notice.fields["state"] == "Dead" and group is not None:
                yield from self._find(group)
                self._folding.forget(group)
            return
        event = seen.event
        if notice.kind in _OF_DELIVERY:
            self.deliveries.take(event)
            return
        settled = self._folding.take(event)
        self.deliveries.take(event)
        for account in settled:
            self._settled.add(account.group)
            yield from self._tell(account)
        if group is not None:
            fresh, rounds = self._fresh.get(group, (0, 0))
            self._fresh[group] = fresh + 1, rounds
        elif notice.kind in TRANSACTION_KINDS:
            self._has_transactions = True

    def _tell_news(self, *, is_end: bool = False) -> Iterator[None]:
        """Publishes what is new in the accounts of delivery; yields after each part.

        No event is taken meanwhile.
        """
        touched, self.deliveries.touched = self.deliveries.touched, set()
        if self.sources is None or self._is_closed:
            return
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
                yield from self._publish_delivery(group)
            yield

    def _publish_delivery(self, group: GroupDelivery) -> Generator[None, None, None]:
        accounts = self._folding.accounts.groups.get(group.group_id)
        fields = yield from self._counted(group.group_id).news()
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
        self._publish(run, node, notice)

    def _publish(self, run: str, node: int, notice: Notice) -> None:
        self._is_publishing = True
        try:
            self._publish_to(run, node, notice, self._now)
        finally:
            self._is_publishing = False

    def _tell(self, account: Account | UnreadAccount) -> Iterator[None]:
        self._folding.trim(account.group)
        if self._is_closed or account.key in self._published:
            return
        fields: dict[str, Any] = {}
        yield from account.render(fields)
        if self.sources is not None:
            for row in fields["unread"]:
                count_records(row, self.sources.log_end)
                yield
        who = None
        if isinstance(account, Account):
            fields["reason"] = account.reason
            fields["words"] = self._explain(account)
            who = _culprit(account)
        of = account.kind, account.group, account.generation, who
        notice = Notice(*of, fields, weigh(account))
        self._publish(account.run, account.node, notice)

    def _explain(self, account: Account) -> str:
        # Loaded for the first account, so that brokers with readers start sooner.
        from kohort.broker.events.findings.explain import explain

        facts = self._folding.facts(account.group)
        return explain(account, facts, Names(facts.members, facts.lives))

    def _look(self, least: int | None = None) -> Iterator[None]:
        """Publishes the findings of groups with new events; yields after each rule.

        No event is taken meanwhile.

        Args:
            least: new events of a group that are worth a look; None: see `GROWTH`.
        """
        work = 0
        if self._has_transactions:
            self._has_transactions = False
            for name in self._folding.troubled():
                if name is not None:
                    self._fresh[name] = 0, ROUNDS
                work += 1
                yield
        for name, (fresh, rounds) in [*self._fresh.items()]:
            group = self._folding.groups.get(name)
            if group is None:
                del self._fresh[name]
            elif fresh >= (least or group.count / GROWTH) or rounds >= ROUNDS:
                del self._fresh[name]
                yield from self._find(name)
                work += group.size
            else:
                self._fresh[name] = fresh, rounds + 1
        self._rest_s = max(ROUND_S, work * FACT_S / SHARE)

    def _find(self, name: str) -> Iterator[None]:
        # Loaded for the first round, so that brokers with readers start sooner.
        from kohort.broker.events.findings.rules import steps

        group = self._folding.groups.get(name)
        if group is None:
            return
        self._folding.trim(name)
        facts = self._folding.facts(name)
        found = dict[str, Finding]()
        yield from steps(facts, Names(facts.members, facts.lives), found)
        if self._is_closed:
            return
        run = group.accounts.run or ""
        for fields in self._told_of({"group": name, "run": run}).revise(found):
            weight = 1 + len(fields["evidence"])
            notice = Notice(FINDING, name, group.generation, None, fields, weight)
            self._publish(run, group.node, notice)

    def _told_of(self, event: Event) -> Told:
        """The findings of a group that were published in a run."""
        told = self._told.get(event["group"])
        if told is None or told.run != event["run"]:
            told = self._told[event["group"]] = Told(event["run"])
        return told


def _culprit(account: Account) -> Who:
    client = None
    if account.client_id is not None:
        client = Client(account.client_id, account.host or "")
    return Who(account.member_id, account.instance_id, client)


def count_records(row: dict[str, Any], log_end: LogEnd) -> None:
    """Adds the ends of the logs to an `unread` row of an event, if all are known."""
    found: list[dict[str, Any]] = []
    for part in row["parts"]:
        topic, offsets, records = part["topic"], list[int](), 0
        for partition in part["partitions"]:
            before = log_end(topic, partition, row["since_ns"])
            after = log_end(topic, partition, row["until_ns"])
            if before is None or after is None:
                return
            offsets.append(after)
            # A topic may have been deleted, and created again.
            records += max(after - before, 0)
        found.append({"topic": topic, "offsets": offsets, "records": records})
    row["log_ends"] = found
    row["records"] = sum(each["records"] for each in found)
