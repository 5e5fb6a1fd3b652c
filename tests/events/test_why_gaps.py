"""Rebalances that are cut off, or lack events, fields or the right time."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.build import Stream, recorded
from tests.events.consumers import divide, history_of, pieces, seconds

from kohort.control.why import Outcome, history


def test_a_coordinator_that_takes_over(context: Context, trio: list[Member]) -> None:
    """A takeover that interrupts a rebalance is named; members keep their names."""
    ana, *_ = trio
    ana.join()
    context.sleep(700)
    context.restart()
    found = history_of(context)
    last = found.rebalances[-1]
    assert (last.outcome, seconds(last.duration_ns)) == (Outcome.MOVED, 0.7)
    assert {life.member_id for life in found.facts.lives if life.how is None} == {
        m.member_id for m in trio
    }


def test_events_that_begin_in_the_middle(context: Context, trio: list[Member]) -> None:
    """The broker's own account has the start and the waits."""
    ana, ben, cleo = trio
    ana.join()
    context.sleep(400)
    since = len(context.notices)
    ben.join()
    context.sleep(100)
    cleo.join()
    divide((ana, range(4)), (ben, range(4, 8)), (cleo, range(8, 12)))
    found = history(recorded(context, since=since), "g")
    (only,) = found.rebalances
    assert (only.cause, only.is_whole) == ("unseen", False)
    assert seconds(only.duration_ns) == 0.5
    assert pieces(only, found) == [("join", "ben", 0.4), ("join", "cleo", 0.1)]
    assert found.explain(only).startswith(
        "Generation 3: the rebalance began before these events; waited 0.50 s for ben "
        "and cleo"
    )


def test_events_that_lack_fields() -> None:
    """A missing field counts as null, as readers are asked to do."""
    kinds = ["member_joined", "member_left", "member_replaced", "partitions_changed"]
    kinds += ["rebalance_started", "window_opened", "join_completed", "member_synced"]
    kinds += ["assignment_made", "member_refused", "commit_refused", "group_loaded"]
    events = [
        {"kind": kind, "run": "r", "node": 0, "sequence": n, "time_ns": n, "group": "g"}
        for n, kind in enumerate(kinds * 2)
    ]
    named = [event | {"member_id": "m-1"} for event in events]
    for each in (history(events, "g"), history(named, "g")):
        assert each.text()
        assert each.as_json()["events"] == len(events)


def test_a_clock_that_is_set_back() -> None:
    """Durations are never negative, and pieces still add up."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={"ben": -5.0}, sync_s=0.5)
    (only,) = history(stream.events, "g").rebalances
    assert only.duration_ns >= 0
    assert sum(w.duration_ns for w in only.pieces) == only.duration_ns


def test_a_broker_that_is_started_again() -> None:
    """A rebalance of the run before has no end; its members are gone."""
    stream = Stream()
    stream.comes("ana")
    stream.rebalance("member_joined", "ana")
    stream.rejoins("ana", "leader")
    stream.starts("leader_rejoined", "ana")
    stream.run, stream.state, stream.generation = "run-2", "Empty", 0
    stream.members.clear()
    stream.wait(5)
    stream.comes("ben")
    stream.rebalance("member_joined", "ben")
    found = history(stream.events, "g")
    assert [r.outcome for r in found.rebalances] == [
        Outcome.COMPLETED,
        Outcome.CUT,
        Outcome.COMPLETED,
    ]
    assert found.rebalances[1].duration_ns == 0
    assert [life.how is None for life in found.facts.lives] == [False, True]


@pytest.mark.parametrize(
    ("kinds", "outcome"),
    [
        ([], Outcome.UNDER_WAY),
        (["node_stopped"], Outcome.CUT),
        (["node_stopped", "node_started"], Outcome.UNDER_WAY),
    ],
)
def test_a_broker_that_is_stopped(kinds: list[str], outcome: Outcome) -> None:
    """A rebalance ends with the broker's stop, even without another start."""
    stream = Stream()
    stream.comes("ana")
    stream.rebalance("member_joined", "ana")
    stream.rejoins("ana", "leader")
    stream.starts("leader_rejoined", "ana")
    for kind in kinds:
        stream.wait(1)
        stream.say(kind, group=None, generation=None)
    found = history(stream.events, "g")
    assert [r.outcome for r in found.rebalances] == [Outcome.COMPLETED, outcome]
    assert found.rebalances[1].duration_ns == 0
    assert ("still in progress" in found.text()) == (outcome is Outcome.UNDER_WAY)
    assert ("the broker stopped" in found.text()) == (outcome is Outcome.CUT)
