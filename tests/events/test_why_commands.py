"""Commands of tests in words: one is named as the cause, and a hold as the wait."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member, assign
from tests.events.build import SECOND, recorded

from kohort.broker.events.account.values import Gone
from kohort.control.why import Account, history


def told(context: Context) -> tuple[Account, str]:
    """The last rebalance, and its explanation."""
    found = history(recorded(context), "g")
    assert not found.findings, "no advice about a command"
    last = found.rebalances[-1]
    assert sum(piece.duration_ns for piece in last.pieces) == last.duration_ns
    return last, found.explain(last)


@pytest.fixture
def ana_and_ben(context: Context) -> list[Member]:
    """A Stable group of ana, the leader, and ben."""
    return [*context.stable_group("ana", "ben")]


def test_kick(context: Context, ana_and_ben: list[Member]) -> None:
    """The test's reason is given, and no finding blames the member."""
    ana, ben = ana_and_ben
    context.kick(ben.member_id, "its pod is replaced")
    ana.join()
    last, words = told(context)
    assert (last.cause, last.culprits) == ("member_kicked", (ben.member_id,))
    assert [each.how for each in last.departures] == [Gone.COMMANDED]
    assert ": a test kicked ben: its pod is replaced; " in words


def test_expiry(context: Context, ana_and_ben: list[Member]) -> None:
    """It is not taken for a crash, or for a session timeout that is too short."""
    ana, ben = ana_and_ben
    context.expire(ben.member_id)
    ben.member_id = ""
    ben.enter()
    ana.join()
    last, words = told(context)
    assert (last.cause, last.departures[0].how) == ("session_expired", Gone.COMMANDED)
    assert ": ben's session expired because a test asked for it; " in words


def test_mute(context: Context) -> None:
    """The mute is the cause of the session's end."""
    ana, ben = context.stable_group("ana", "ben", session_ms=6_000)
    context.mute(ben.member_id)
    ana.keep_alive(6_000)
    _, words = told(context)
    assert ": ben's session expired because a test had muted it; " in words


def test_mute_of_a_member_that_has_joined(context: Context) -> None:
    """The join phase waits for it again, until its session ends."""
    ana, ben = context.stable_group("ana", "ben", session_ms=6_000)
    context.trigger()
    context.sleep(1_000)
    ben.join()
    context.mute(ben.member_id)
    ana.join()
    context.sleep(6_000)
    last, words = told(context)
    assert [(p.member_id, p.ended_by) for p in last.pieces] == [
        (ben.member_id, "joined"),
        (ben.member_id, "gone"),
    ]
    assert "waited 7.0 s for ben" in words
    assert "ben was removed by a test meanwhile" in words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, ": a test asked for a rebalance; "),
        ("new rules", ": a test asked for a rebalance: new rules; "),
    ],
)
def test_rebalance(
    context: Context, ana_and_ben: list[Member], reason: str | None, words: str
) -> None:
    """With or without a reason."""
    context.trigger(reason)
    for member in ana_and_ben:
        member.join()
    assert words in told(context)[1]


def test_limit(context: Context) -> None:
    """The limit is the cause; no log was loaded."""
    context.stable_group("ana", "ben", "cleo")
    context.limit(2)
    assert ": a test limited the group to 2 members; " in told(context)[1]


def test_hold_of_both_phases(context: Context, ana_and_ben: list[Member]) -> None:
    """The time of the hold is not the members', or the leader's."""
    context.trigger()
    context.sleep(1_000)
    context.hold()
    for member in ana_and_ben:
        context.sleep(1_000)
        member.join()
    context.hold("CompletingRebalance")
    context.sleep(3_000)
    _, words = told(context)
    assert "still in progress, held by a test" in words
    ana, ben = ana_and_ben
    ben.sync()
    ana.sync(assign(ana, ben))
    context.release()
    last, words = told(context)
    pieces = [(p.what, p.duration_ns // SECOND, p.ended_by) for p in last.pieces]
    assert pieces == [
        ("join", 1, "held"),
        ("held", 2, "released"),
        ("held", 3, "released"),
    ]
    assert "a test held the group in PreparingRebalance for 2.0 s; " in words
    assert "a test held the group in CompletingRebalance for 3.0 s; " in words
    assert "ana computed the assignment in 0 ms" in words


def test_hold_over_a_move(context: Context, ana_and_ben: list[Member]) -> None:
    """The next rebalance is held from its beginning."""
    context.hold()
    context.trigger()
    context.move()
    ana, ben = ana_and_ben
    ana.join()
    context.sleep(2_000)
    ben.join()
    last, words = told(context)
    assert [piece.what for piece in last.pieces] == ["held"]
    assert "a test held the group in PreparingRebalance for 2.0 s; " in words
