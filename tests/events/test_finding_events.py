"""Findings in the stream: the latest revision is the one that `kohort why` finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.events.checks import check
from tests.events.consumers import consumer, divide
from tests.events.test_accounting import Told
from tests.events.test_why_pieces import SEEDS, turmoil

from kohort.broker.events import accounting
from kohort.broker.events.account.flow import DERIVED
from kohort.broker.events.account.values import Event
from kohort.broker.events.accounting import FINDING, Accounting
from kohort.broker.events.findings import fold
from kohort.broker.events.findings.finding import MOST_EVIDENCE
from kohort.control.why import Finding, history


class Books(Told):
    """A coordinator whose stream has findings, a turn or a round at a time.

    Attributes:
        due: the rounds that will begin.
        rests: the time from each round to the next, in seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []
        self.ana = consumer(self, "ana")
        self._turns: list[Callable[[], None]] = []
        self.due: list[Callable[[], None]] = []
        self.accounting = self.begin()

    def begin(self) -> Accounting:
        """Begins to publish; a second time, as a second reader does."""
        self.accounting = Accounting(
            lambda _run, node, notice, now: self.stream.of(node).publish(notice, now),
            self._turns.append,
            self._later,
        )
        self.accounting.catch_up(self.stream.remembered.latest)
        self.stream.listen(self.accounting.add, accounting.UNHEARD)
        return self.accounting

    def _later(self, seconds: float, begin: Callable[[], None]) -> None:
        self.rests.append(seconds)
        self.due.append(begin)

    def turn(self) -> None:
        """All turns of the loop."""
        self.publish()
        while self._turns:
            self._turns.pop(0)()

    def round(self) -> None:
        """The next round of findings, and all its turns."""
        self.turn()
        if self.due:
            self.due.pop(0)()
        self.turn()

    def commit_from_outside(self, times: int = 1) -> None:
        """A client that is no member tries to commit."""
        for _ in range(times):
            self.commit([("t", 0, 5, -1, "")])

    def told(self) -> list[Event]:
        """All events ``finding`` so far."""
        found = [each for each in self.stream.recent() if each["kind"] == FINDING]
        for each in found:
            check(each)
        return [dict(each) for each in found]

    def recent(self) -> list[Event]:
        """All events so far."""
        return [dict(each) for each in self.stream.recent()]


@pytest.fixture
def books() -> Books:
    """A group with one member that stays."""
    context = Books()
    context.ana.enter()
    divide((context.ana, [0]))
    return context


def revisions(told: list[Event]) -> list[tuple[str, int, bool]]:
    """Key, revision, and whether it is withdrawn, of each event."""
    return [(e["finding"], e["revision"], e["is_withdrawn"]) for e in told]


def test_a_finding_is_published_in_the_next_round(books: Books) -> None:
    """Once; again when it changes; and not while nothing happens."""
    books.commit_from_outside()
    books.turn()
    assert not books.told()
    books.round()
    (told,) = books.told()
    (found,) = history(books.recent(), "g").findings
    assert told["title"] == found.title
    assert told["evidence_count"] == 1
    assert told["evidence"][0]["sequence"] == found.evidence[0].sequence
    books.turn()
    assert not books.due
    books.commit_from_outside(30)
    books.round()
    first, last = books.told()
    assert revisions([first, last]) == [
        ("commit-from-outside", 1, False),
        ("commit-from-outside", 2, False),
    ]
    assert (len(last["evidence"]), last["evidence_count"]) == (MOST_EVIDENCE, 31)


def test_a_finding_that_is_none_any_more_is_withdrawn(books: Books) -> None:
    """More members than partitions, until one of them leaves."""
    ben = consumer(books, "ben")
    ben.enter()
    books.ana.join()
    divide((books.ana, [0]), (ben, []))
    books.round()
    assert revisions(books.told()) == [("idle-members", 1, False)]
    assert books.told()[0]["members"] == ["ben"]
    ben.leave()
    books.ana.join()
    divide((books.ana, [0]))
    books.round()
    assert revisions(books.told())[1:] == [("idle-members", 2, True)]
    assert not history(books.recent(), "g").findings


def test_the_last_round_comes_at_the_end(books: Books) -> None:
    """A reader that ends gets the findings of all that has happened."""
    books.commit_from_outside()
    books.publish()
    books.accounting.finish()
    assert revisions(books.told()) == [("commit-from-outside", 1, False)]


def test_a_second_reader_does_not_get_them_again(books: Books) -> None:
    """Findings that are remembered count; their revisions go on."""
    books.commit_from_outside()
    books.round()
    books.stream.unlisten(books.accounting.add)
    books.accounting.close()
    books.begin()
    books.round()
    assert len(books.told()) == 1
    books.commit_from_outside(9)
    books.round()
    assert [each["revision"] for each in books.told()] == [1, 2]


def test_a_long_history_is_looked_at_less_often(books: Books) -> None:
    """With a quarter more events, or after 60 rounds: all looks together are linear."""
    books.commit_from_outside(400)
    books.round()
    for _ in range(accounting.ROUNDS):
        books.commit_from_outside(0 if books.due else 1)
        books.round()
        books.commit_from_outside()
    looks = len(books.told())
    assert looks <= 4
    books.commit_from_outside(200)
    books.round()
    assert len(books.told()) == looks + 1


def test_rounds_take_a_twentieth_of_the_time_at_most(
    monkeypatch: pytest.MonkeyPatch, books: Books
) -> None:
    """The more there was to look at, the longer is the pause before the next round."""
    monkeypatch.setattr(accounting, "FACT_S", 0.01)
    books.commit_from_outside(100)
    books.round()
    books.commit_from_outside()
    books.turn()
    first, second = books.rests
    assert first == accounting.ROUND_S
    assert second >= 100 * 0.01 / accounting.SHARE


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, books: Books) -> None:
    """The latest refusals and rebalances count; the others are forgotten."""
    monkeypatch.setattr(fold, "MOST", 10)
    books.commit_from_outside(50)
    books.round()
    assert books.told()[-1]["evidence_count"] == 10


def test_carried_findings_count_where_events_are_missing(books: Books) -> None:
    """The broker knew more: its findings are those of the rest of its stream."""
    books.commit_from_outside(3)
    books.round()
    whole = history(books.recent(), "g").findings
    late = [e for e in books.recent() if e["kind"] in {FINDING, "member_synced"}]
    (found,) = [f for f in history(late, "g").findings if f.code == whole[0].code]
    assert shown(found) == shown(whole[0])


def shown(finding: Finding) -> dict[str, Any]:
    """A finding as views show it."""
    return finding.as_json(MOST_EVIDENCE)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_stream_carries_what_is_computed_from_it(seed: int) -> None:
    """The latest revisions, after rounds at any time, are those of the events."""
    books, context = Books(), Context()
    dice = random.Random(seed)
    turmoil(context, seed)
    for notice, now in context.noticed():
        books.stream.of(1).publish(notice, now)
        if dice.random() < 0.1:
            books.round()
    books.accounting.finish()
    latest = {each["finding"]: each for each in books.told()}
    raw = [each for each in books.recent() if each["kind"] not in DERIVED]
    found = history(raw, "g").findings
    assert found
    current = [each for each in latest.values() if not each["is_withdrawn"]]
    assert sorted(each["finding"] for each in current) == sorted(f.key for f in found)
    for each in found:
        carried = Finding.of(latest[each.key])
        assert shown(carried) == shown(each)
