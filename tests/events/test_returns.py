"""Processes that come back: which earlier member they were, and after how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.coordinator.context import Context
from tests.events.build import SECOND, Stream, recorded
from tests.events.consumers import consumer, divide
from tests.events.findings import quiet

from kohort.broker.events.account import Accounts, membership
from kohort.broker.events.account.processes import RESTART_NS
from kohort.broker.events.account.values import Event, Gone
from kohort.control.why import history

Back = tuple[str, str, str, float, bool]
"""Old member, new member, how the old one went, seconds away, is_restart."""


def returns(events: Sequence[Event]) -> list[list[Back]]:
    """Those of the account of each rebalance, the last of which may be under way."""
    accounts = Accounts()
    found = [a for event in events for a in accounts.take(event)]
    under_way = accounts.under_way("g")
    return [
        [
            (
                row.previous_id,
                row.member_id,
                row.how.value,
                row.duration_ns / SECOND,
                row.is_restart,
            )
            for row in account.returns
        ]
        for account in (*found, *([under_way] if under_way else []))
    ]


def leaves(stream: Stream, name: str, away_s: float) -> None:
    """A member leaves; time goes by."""
    stream.leaves(name)
    stream.rebalance("member_left", name)
    stream.wait(away_s)


def back(stream: Stream, name: str, **fields: Any) -> str:
    """A member joins; its id."""
    stream.comes(name, **fields)
    stream.rebalance("member_joined", name)
    return stream.ids[name]


@pytest.mark.parametrize("away_s", [8, 400, RESTART_NS / SECOND])
def test_the_rebalance_of_the_return_has_it(away_s: float) -> None:
    """The rebalance in which the member left is another one, and has nothing."""
    stream = quiet("ana", "ben")
    leaves(stream, "ana", away_s)
    old, new = stream.ids["ana"], back(stream, "ana")
    *before, last = returns(stream.events)
    assert last == [(old, new, "left", away_s, True)]
    assert not any(before)


def test_the_sentence_has_all_that_are_back() -> None:
    """With the longest absence."""
    stream = quiet("ana", "ben", "cleo")
    leaves(stream, "ana", 5)
    leaves(stream, "ben", 2)
    for name in ("ana", "ben"):
        stream.comes(name)
    stream.rebalance("member_joined", "ana", "ben")
    sentence = "; ana and ben were back after at most 7.0 s;"
    assert sentence in history(stream.events, "g").text()


def test_what_is_away_for_longer_was_not_restarted() -> None:
    """And is taken for nothing later on."""
    stream = quiet("ana", "ben")
    leaves(stream, "ana", RESTART_NS / SECOND + 1)
    back(stream, "ana")
    assert not any(returns(stream.events))


def test_a_rejoin_on_the_same_connection_is_no_restart() -> None:
    """However long it took: the process never stopped."""
    stream = Stream()
    old = back(stream, "ana", connection=7)
    leaves(stream, "ana", 5_000)
    new = back(stream, "ana", connection=7)
    assert returns(stream.events)[-1] == [(old, new, "left", 5_000, False)]


def test_a_guess_is_put_right_by_the_connection() -> None:
    """The later of two rows about one departed member counts."""
    stream = quiet("ben")
    alike = {"client_id": "app", "host": "/h"}
    old = back(stream, "ana", connection=7, **alike)
    leaves(stream, "ana", 10)
    other = back(stream, "cleo", connection=8, **alike)
    stream.wait(10)
    new = back(stream, "ana", connection=7, **alike)
    first, second = returns(stream.events)[-2:]
    assert first == [(old, other, "left", 10, True)]
    assert second == [(old, new, "left", 20, False)]


def test_a_crash_counts_from_the_last_sign_of_life() -> None:
    """45 s of silence, and 20 s until the process is back."""
    stream = quiet("ana", "ben")
    old = stream.ids["ana"]
    stream.wait(100)
    stream.expires("ana", 45)
    stream.rebalance("session_expired", "ana")
    stream.wait(20)
    new = back(stream, "ana")
    assert returns(stream.events)[-1] == [(old, new, "expired", 65, True)]


def test_a_process_that_is_back_before_its_session_expires(context: Context) -> None:
    """The account that has the end of the old member has the return as well."""
    ana, ben = (consumer(context, name, session_ms=10_000) for name in ("ana", "ben"))
    context.form([ana, ben], sync=False)
    divide((ana, (0, 1)), (ben, (2, 3)))
    context.sleep(4_000)
    ana.heartbeat()
    again = consumer(context, "ben")
    again.enter()
    for _ in range(6):
        context.sleep(1_000)
        ana.heartbeat()
    ana.join()
    divide((ana, (0, 1)), (again, (2, 3)))
    assert returns(recorded(context))[-1] == [
        (ben.member_id, again.member_id, "expired", 4, True)
    ]


@pytest.mark.parametrize("host", ["/h", "/elsewhere"])
def test_processes_that_look_the_same(host: str) -> None:
    """The first that went is the first back. Another host is another process."""
    stream = Stream()
    old = [back(stream, name) for name in ("ana", "ben", "cleo")]
    for name in ("ana", "ben"):
        leaves(stream, name, 5)
    new = [back(stream, name) for name in ("dora", "emil", "fay")]
    for event in stream.events:
        event |= {
            "client_id": "app",
            "host": host if event["member_id"] in new else "/h",
        }
    found = returns(stream.events)[-3:]
    restarts = [
        [(old[0], new[0], "left", 10, True)],
        [(old[1], new[1], "left", 5, True)],
        [],
    ]
    assert found == (restarts if host == "/h" else [[], [], []])


def test_a_static_member(context: Context) -> None:
    """By its instance id. A member that takes its old place is no new member."""
    ana, ben = (
        consumer(context, name, instance=f"i-{name}", session_ms=10_000)
        for name in ("ana", "ben")
    )
    context.form([ana, ben], sync=False)
    divide((ana, (0, 1)), (ben, (2, 3)))
    again = consumer(context, "elsewhere", instance="i-ben", session_ms=10_000)
    again.join()
    assert not any(returns(recorded(context)))
    context.leave(("", "i-ben"))
    context.sleep(2_000)
    third = consumer(context, "third", instance="i-ben")
    third.enter()
    (last,) = returns(recorded(context))[-1]
    assert last[2:] == ("removed", 2, True)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that are forgotten are found no more, and nothing of them is left."""
    monkeypatch.setattr(membership, "MOST_GONE", 2)
    accounts, stream = Accounts(), Stream()
    for number in range(40):
        back(stream, f"m{number}")
        leaves(stream, f"m{number}", 1)
    for event in stream.events:
        accounts.take(event)
        accounts.trim("g")
    processes = accounts.groups["g"].processes
    known = accounts.groups["g"].membership.members.keys()
    assert len(known) <= 5
    assert {m for away in processes.away.values() for m in away} <= known
    assert {m for new in processes.new.values() for _, m in new} <= known


def test_gone_is_as_in_the_table() -> None:
    """A member that was kicked may be back, too."""
    stream = quiet("ana", "ben")
    old = stream.ids["ana"]
    fields = {"cause": "did_not_join_in_time", "was_pending": False}
    stream.starts("leader_rejoined", "ben")
    stream.say("member_kicked", "ana", silent_ns=3 * SECOND, **fields)
    stream.wait(5)
    stream.comes("ana")
    (row,) = returns(stream.events)[-1]
    assert row == (old, stream.ids["ana"], Gone.KICKED, 8, True)
