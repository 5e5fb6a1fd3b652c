"""Publishes accounts of rebalances, and findings, while a reader wants them.

1. A published event only goes into a queue here, still raw.
2. In the next turns of the event loop, a few steps of work are done per turn. A step
   renders an event and passes it to `kohort.broker.events.account`, or renders some
   rows of an account that is settled.
3. With its last row the account becomes an event of the node that saw the rebalance
   begin. Only then is the next event in the queue handled.
4. A second after that, a round of findings begins: the rules look at each group with
   new events, one rule per turn. Findings that are new or have changed become events.
   The more work a round was, the later is the next one, and a group with a long
   history is looked at less often.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kohort.broker.coordinator.effects import Notice, Who
from kohort.broker.coordinator.events import Client
from kohort.broker.events.account import Account
from kohort.broker.events.account.flow import KINDS
from kohort.broker.events.account.values import Event, key_of
from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.fold import CLOCK, Folding, weigh
from kohort.broker.events.findings.fold import KINDS as KINDS_OF_FINDINGS
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules import steps
from kohort.broker.events.findings.told import Told
from kohort.broker.events.open_transactions import KINDS as TRANSACTION_KINDS
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.long_work import DONE

KIND: Final = "rebalance_account"

FINDING: Final = "finding"

UNHEARD: Final = (
    BY_NAME.keys()
    - KINDS
    - KINDS_OF_FINDINGS
    - TRANSACTION_KINDS
    - {"group_state", "node_started", "node_stopped", CLOCK}
) | {KIND, FINDING, "offsets_committed"}
"""Kinds that are not needed, such as heartbeats; commits would cost too much."""

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
    """Reads a stream of events; publishes the accounts of its rebalances, and findings.

    Args:
        publish: publishes a notice of a run's node, at a time.
        soon: calls a function in the next turn of the event loop.
        later: calls a function after some seconds.

    Attributes:
        idle: set while no event waits for a turn of the loop.
    """

    def __init__(
        self,
        publish: Callable[[str, int, Notice, float], None],
        soon: Callable[[Callable[[], None]], object],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._publish = publish
        self._soon = soon
        self._later = later
        self._folding = Folding()
        # By group: new events since the last look, and rounds without a look.
        self._fresh: dict[str, tuple[int, int]] = {}
        self._has_transactions = False
        self._told: dict[str, Told] = {}
        self._round: Iterator[None] | None = None
        self._rest_s = ROUND_S
        self._is_resting = False
        self._queue: deque[Seen] = deque()
        self._work: Iterator[None] = iter(())
        self._published: set[str] = set()
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
                self._folding.take(seen.event)
            elif seen.notice.kind == FINDING:
                self._told_of(seen.event).know(seen.event)
            elif seen.notice.kind not in UNHEARD:
                self.add(seen)

    def add(self, seen: Seen) -> None:
        """Queues an event; the stream calls it."""
        self._queue.append(seen)
        self._now = max(self._now, seen.time)
        self._ask()

    def _ask(self) -> None:
        """Schedules the next turn of the loop, once."""
        if not self._is_due:
            self._is_due = True
            self.idle.clear()
            self._soon(self._turn)

    def finish(self) -> None:
        """Handles the whole queue at once: the stream may end here."""
        for _ in self._round or ():
            pass
        self._round = None
        while self._go_on(SLICE):
            pass
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
        else:
            self.idle.set()
            if self._is_dirty and not self._is_resting:
                self._is_resting = True
                self._later(self._rest_s, self._begin_round)

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
        last = self._queue[-1].event
        count = len(self._queue)
        self._queue.clear()
        lost = {"kind": "events_lost", "group": None, "first": 0, "last": count - 1}
        self._folding.take({**last, **lost})

    def _take(self, seen: Seen) -> Iterator[None]:
        notice = seen.notice
        group = notice.group_id
        if notice.kind == "group_state":
            if notice.fields["state"] == "Dead" and group is not None:
                yield from self._find(group)
                self._folding.forget(group)
            return
        for account in self._folding.take(seen.event):
            yield from self._tell(account)
        if group is not None:
            fresh, rounds = self._fresh.get(group, (0, 0))
            self._fresh[group] = fresh + 1, rounds
        elif notice.kind in TRANSACTION_KINDS:
            self._has_transactions = True

    def _tell(self, account: Account) -> Iterator[None]:
        self._folding.trim(account.group)
        if self._is_closed or account.key in self._published:
            return
        client = None
        if account.client_id is not None:
            client = Client(account.client_id, account.host or "")
        who = Who(account.member_id, account.instance_id, client)
        fields = {"reason": account.reason}
        yield from account.render(fields)
        notice = Notice(
            KIND, account.group, account.generation, who, fields, weigh(account)
        )
        self._publish(account.run, account.node, notice, self._now)

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
            self._publish(run, group.node, notice, self._now)

    def _told_of(self, event: Event) -> Told:
        """The findings of a group that were published in a run."""
        told = self._told.get(event["group"])
        if told is None or told.run != event["run"]:
            told = self._told[event["group"]] = Told(event["run"])
        return told
