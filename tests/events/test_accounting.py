"""Accounts in the stream: only while a reader wants them, and each of them once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.events.checks import check
from tests.events.consumers import consumer, divide
from tests.groups.test_reasons import join, sync
from tests.wire.client import connected

from kohort.broker.events import accounting
from kohort.broker.events.account import Account
from kohort.broker.events.account.values import ROWS
from kohort.broker.events.accounting import Accounting
from kohort.broker.events.bus import Events
from kohort.broker.events.seen import Seen
from kohort.broker.events.views.jsonl import EventsFile
from kohort.broker.notice import Notice
from kohort.broker.server import Broker
from kohort.control.why import history

FAST = {"group.initial.rebalance.delay.ms": 0}


class Told(Context):
    """A coordinator whose notices are published to a stream.

    Attributes:
        stream: receives the events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stream = Events(wall=lambda: 1)
        self.stream.begin("r")
        self._published = 0

    def publish(self) -> None:
        """Publishes the events since the last call."""
        for notice, now in self.noticed(self._published):
            self.stream.of(1).publish(notice, now)
        self._published = len(self.notices)

    def rebalance(self) -> None:
        """Ana joins a group, alone, and leaves it: two rebalances."""
        ana = consumer(self, "ana")
        ana.enter()
        divide((ana, range(4)))
        ana.leave()
        self.publish()


def causes(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those of the accounts among events."""
    found = [event for event in events if event["kind"] == Account.kind]
    for event in found:
        check(event)
    return [event["cause"] for event in found]


def never(_seconds: float, _round: Callable[[], None]) -> None:
    """No round of findings begins."""


async def turns() -> None:
    """All that is due in the next turns of the loop is done."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_without_a_reader_that_wants_them_there_are_none() -> None:
    """Others read the stream as it is; one that wants them has those of the past."""
    context = Told()
    with context.stream.subscribe() as other:
        context.rebalance()
        await turns()
        assert causes(other.take()) == []
        with context.stream.subscribe(accounts=True) as reader:
            await turns()
            both = ["member_joined", "member_left"]
            assert causes(reader.take()) == both
            assert causes(other.take()) == both
            context.rebalance()
            assert causes(reader.take()) == []
            await turns()
            assert causes(reader.take()) == both
        context.rebalance()
        await turns()
        other.take()
        with context.stream.subscribe(accounts=True) as again:
            await turns()
            assert causes(again.take()) == both, "the others are remembered"
    numbers = [event["sequence"] for event in context.stream.recent()]
    assert numbers == [*range(1, len(numbers) + 1)]


async def test_several_readers_share_them() -> None:
    """The last one that goes ends it."""
    context = Told()
    stream = context.stream
    with stream.subscribe(accounts=True):
        with stream.subscribe(accounts=True) as reader:
            pass
        reader.close()
        context.rebalance()
        await turns()
    events = [dict(event) for event in stream.recent()]
    assert Counter(causes(events)) == {"member_joined": 1, "member_left": 1}
    assert not stream.listeners


async def test_time_does_not_go_back() -> None:
    """An account may follow a commit, of which accounts are not told."""
    context = Told()
    with context.stream.subscribe(accounts=True) as reader:
        context.rebalance()
        context.sleep(1_000)
        context.commit([("t", 0, 5, -1, "")])
        context.publish()
        await turns()
        events = reader.take()
    kinds = [event["kind"] for event in events]
    assert kinds.index("offsets_committed") < kinds.index("rebalance_account")
    times = [event["time_ns"] for event in events]
    assert times == sorted(times)


async def test_times_never_run_back() -> None:
    """A commit, which no account needs, comes before the account is published."""
    context = Told()
    with context.stream.subscribe(accounts=True) as reader:
        context.rebalance()
        later = Notice("offsets_committed", "g", 1, None, {"offsets": ()})
        context.stream.of(1).publish(later, context.now + 5)
        await turns()
        events = reader.take()
    assert len(causes(events)) == 2
    times = [event["time_ns"] for event in events]
    assert times == sorted(times)


async def test_a_turn_has_an_end() -> None:
    """A large queue is worked off in slices, so that others get their turns."""
    context = Told()
    for _ in range(20):
        context.rebalance()
    with context.stream.subscribe(accounts=True) as reader:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first = len(causes(reader.take()))
        while len(reader) or first < 40:
            await asyncio.sleep(0)
            news = len(causes(reader.take()))
            assert news < accounting.SLICE
            first += news
    assert first == 40


def test_a_queue_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance that was under way is not whole then; later ones are."""
    monkeypatch.setattr(accounting, "MOST", 12)
    found: list[Notice] = []
    due: list[Any] = []
    books = Accounting(
        lambda _run, _node, notice, _now: found.append(notice), due.append, never
    )
    context = Told()
    context.stream.listen(books.add, accounting.UNHEARD)
    ana = consumer(context, "ana")
    ana.join()
    ana.join()
    context.publish()
    due.pop()()
    divide((ana, range(4)))
    for _ in range(3):
        ana.join()
        divide((ana, range(4)))
    context.publish()
    due.pop()()
    ana.leave()
    context.publish()
    books.finish()
    kind = "rebalance_account"
    first, *_, last = [each.fields for each in found if each.kind == kind]
    assert (first["cause"], first["is_whole"]) == ("member_joined", False)
    assert (last["cause"], last["is_whole"]) == ("member_left", True)


def test_a_listener_of_an_account_may_read_the_accounts() -> None:
    """The queue is not handled anew in the middle of that."""
    found: list[Notice] = []

    def publish(_run: str, _node: int, notice: Notice, _now: float) -> None:
        books.settle()
        found.append(notice)

    books = Accounting(publish, list[Any]().append, never)
    context = Told()
    context.stream.listen(books.add, accounting.UNHEARD)
    context.rebalance()
    books.settle()
    assert [each.kind for each in found] == 2 * ["rebalance_account"]


def test_a_large_account_takes_several_turns() -> None:
    """It is rendered some rows at a time, and published with the last one."""
    found: list[Notice] = []
    due: list[Any] = []
    books = Accounting(
        lambda _run, _node, notice, _now: found.append(notice), due.append, never
    )
    context = Told()
    heard: list[Seen] = []
    context.stream.listen(heard.append, accounting.UNHEARD)
    context.stream.listen(books.add, accounting.UNHEARD)
    members = [consumer(context, f"m{number}") for number in range(200)]
    context.form(members, sync=False)
    divide(*((member, [number]) for number, member in enumerate(members)))
    context.publish()
    turns = 0
    while due:
        assert len(found) < 2
        due.pop()()
        turns += 1
    _, last = found
    rows = sum(len(last.fields[name]) for name in ("pauses", "moves", "waits"))
    assert rows == 599
    assert turns * accounting.SLICE > len(heard) + rows / ROWS


async def test_a_file_has_them_and_why_takes_them(tmp_path: Path) -> None:
    """Also that of a rebalance that the broker's stop has cut; sentences agree."""
    path = tmp_path / "events.jsonl"
    broker = Broker(FAST)
    view = EventsFile(path, broker.events)
    async with broker:
        view.start()
        async with connected(broker, 1) as ana, connected(broker, 1) as ben:
            await sync(ana, await join(ana, "starting"))
            with broker.events.subscribe() as reader:
                waiting = asyncio.create_task(join(ben, "while ana does not rejoin"))
                async for event in reader:
                    if event["kind"] == "rebalance_started":
                        break
            await broker.stop()
            await asyncio.gather(waiting, return_exceptions=True)
    await view.close()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(causes(events)) == 2
    outcomes = [e["outcome"] for e in events if e["kind"] == Account.kind]
    assert outcomes == ["completed", "cut"]
    raw = [event for event in events if event["kind"] != Account.kind]
    told, computed = history(events, "g"), history(raw, "g")
    assert told.rebalances == computed.rebalances
    assert told.as_json()["rebalances"] == computed.as_json()["rebalances"]
    for place, event in enumerate(events):
        if event["kind"] == Account.kind:
            so_far = history(events[:place], "g")
            assert event["words"] == so_far.explain(Account.of(event))
    # Without the raw events, the accounts alone tell as much of the rebalances.
    alone = [event for event in events if event["kind"] == Account.kind]
    assert history(alone, "g").rebalances == computed.rebalances
