"""Publishes accounts, off the hot path, while a reader wants them.

1. A published event only goes into a queue here, still raw.
2. In the next turns of the event loop, a few steps of work are done per turn. A step
   renders an event and passes it to `kohort.broker.events.account`, or renders some
   rows of an account that is settled.
3. The ends of the logs are looked up: how many records were appended while partitions
   had no reader. They are those of the time in question, not of now.
4. With its last row the account becomes an event of the node that saw the rebalance
   begin, or time without a reader end. Only then is the next event handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kohort.broker.coordinator.effects import Notice, Who
from kohort.broker.coordinator.events import Client
from kohort.broker.events.account import Account, Accounts, UnreadAccount
from kohort.broker.events.account.flow import ACCOUNTS, KINDS
from kohort.broker.events.account.values import key_of
from kohort.broker.events.schema import BY_NAME
from kohort.broker.events.seen import Seen
from kohort.broker.long_work import DONE

UNHEARD: Final = (
    BY_NAME.keys() - KINDS - {"group_state", "node_started", "node_stopped"}
)
"""Kinds that no account needs, such as heartbeats and commits."""

LogEnd = Callable[[str, int, int], int | None]
"""The end of a partition's log at a time, in ns since the epoch: see
`Cluster.log_end`."""

SLICE: Final = 40
"""Steps per turn: some 25 us each, so about a millisecond."""
BEHIND: Final = 10_000
"""Queue length from which a turn does five slices."""
MOST: Final = 100_000
"""Events that may wait. If more arrive, all are dropped, and the accounts of rebalances
in progress are marked as incomplete."""


class Accounting:
    """Reads a stream of events, and publishes the accounts of its rebalances.

    Args:
        publish: publishes a notice of a run's node, at a time.
        soon: calls a function in the next turn of the event loop.
        log_end: see `LogEnd`.

    Attributes:
        idle: set while no event waits for a turn of the loop.
    """

    def __init__(
        self,
        publish: Callable[[str, int, Notice, float], None],
        soon: Callable[[Callable[[], None]], object],
        log_end: LogEnd,
    ) -> None:
        self._publish = publish
        self._soon = soon
        self._log_end = log_end
        self._accounts = Accounts()
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
            if seen.notice.kind in ACCOUNTS:
                self._published.add(key_of(seen.event))
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
        while self._go_on(SLICE):
            pass
        for account in self._accounts.close_all():
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
            self.idle.set()

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
        self._queue.clear()
        self._accounts.take({**last, "kind": "events_lost", "group": None})

    def _take(self, seen: Seen) -> Iterator[None]:
        notice = seen.notice
        if notice.kind == "group_state":
            if notice.fields["state"] == "Dead" and notice.group_id is not None:
                self._accounts.forget(notice.group_id)
            return
        for account in self._accounts.take_all(seen.event):
            yield from self._tell(account)

    def _tell(self, account: Account | UnreadAccount) -> Iterator[None]:
        self._accounts.trim(account.group)
        if self._is_closed or account.key in self._published:
            return
        fields: dict[str, Any] = {}
        yield from account.render(fields)
        for row in fields["unread"]:
            count_records(row, self._log_end)
            yield
        who = None
        if isinstance(account, Account):
            fields["reason"] = account.reason
            who = _culprit(account)
        of = account.kind, account.group, account.generation, who
        notice = Notice(*of, fields, _weight(account))
        self._publish(account.run, account.node, notice, self._now)


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


def _weight(account: Account | UnreadAccount) -> int:
    if isinstance(account, UnreadAccount):
        return 1 + len(account.unread)
    rows = (account.members, account.waits, account.pauses, account.unread)
    more = (account.returns, account.moves or (), account.kept or ())
    return 1 + sum(map(len, rows)) + sum(map(len, more))
