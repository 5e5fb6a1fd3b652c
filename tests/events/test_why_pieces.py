"""Whatever is missing of a stream: nothing raises, waits add up, nothing is made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.context import Context
from tests.coordinator.member import Member, assign
from tests.events.build import BEGIN, SECOND, Stream, recorded
from tests.events.consumers import EAGER, consumer, divide
from tests.events.consumers import given as shares

from kohort.broker.events.account.values import Event, Partition, count
from kohort.control.why import Account, History, Outcome, history

SEEDS = 12
"""Turmoils that pieces are cut from."""


def turmoil(context: Context, seed: int) -> None:
    """Members come, go, fall silent and work on, in an order that a seed decides."""
    dice = random.Random(seed)
    members: list[Member] = []
    for _ in range(dice.randint(20, 120)):
        context.sleep(dice.choice([0, 1, 50, 700, 4_000]))
        if not members or dice.random() < 0.15:
            number = dice.randint(0, 5)
            instance = f"i-{number}" if dice.random() < 0.3 else None
            members.append(
                context.member(
                    f"m{number}",
                    instance=instance,
                    session_ms=dice.choice([6_000, 30_000]),
                    rebalance_ms=dice.choice([3_000, 30_000]),
                )
            )
        member = dice.choice(members)
        if member.heartbeat() == 25:
            member.member_id = ""
        act = dice.random()
        if act < 0.6:
            member.enter()
        elif act < 0.9:
            member.sync(assign(*members))
        elif act < 0.95:
            member.leave()
        else:
            members.remove(member)
    context.sleep(60_000)


@cache
def whole(seed: int) -> tuple[Event, ...]:
    """All events of a turmoil, with one or another initial delay."""
    context = Context(initial_rebalance_delay_ms=3_000 * (seed % 2))
    turmoil(context, seed)
    return tuple(recorded(context))


def check(events: Sequence[Event]) -> History:
    """Checks the invariants."""
    found = history(events, "g")
    for each in found.rebalances:
        assert each.started_ns <= each.ended_ns
        at_ns = each.started_ns
        for wait in each.pieces:
            assert wait.since_ns == at_ns < wait.until_ns
            at_ns = wait.until_ns
        assert at_ns == each.ended_ns
        for row in each.pauses:
            assert each.started_ns <= row.since_ns <= row.until_ns
            assert row.until_ns <= (found.facts.until_ns or 0)
        if each.moves is not None:
            assert all(m.gap_ns is None or m.gap_ns >= 0 for m in each.moves)
        for gap in each.unread:
            assert gap.since_ns < gap.until_ns <= each.settled_ns
            assert gap.count == count(gap.parts)
    for life in found.facts.lives:
        assert life.until_ns is None or (life.since_ns or 0) <= life.until_ns
    assert found.text()
    assert found.as_json()["events"] == len(
        [e for e in events if e.get("group") == "g"]
    )
    return found


def moved(account: Account) -> set[Partition]:
    """The partitions that went from one member to another."""
    return {
        (topic, number)
        for move in account.moves or ()
        if move.source is not None
        for topic, numbers in move.parts.items()
        for number in numbers
    }


def lost(event: Event, first: int, last: int) -> Event:
    """A gap, as an event to a reader."""
    gap = {"kind": "events_lost", "group": None, "first": first, "last": last}
    return {**event, "sequence": last, **gap}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, SEEDS - 1), data=st.data())
def test_any_part_of_a_stream(seed: int, data: st.DataObject) -> None:
    """Events that are left out, anywhere and without a word."""
    events = whole(seed)
    share = data.draw(st.sampled_from([0.02, 0.2, 0.5, 0.9]))
    dice = random.Random(data.draw(st.integers(0, 10_000)))
    check([event for event in events if dice.random() >= share])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, SEEDS - 1), data=st.data())
def test_a_gap_that_is_announced(seed: int, data: st.DataObject) -> None:
    """The story before and after the gap is the same as without it."""
    events = whole(seed)
    first = data.draw(st.integers(0, len(events) - 1))
    last = data.draw(st.integers(first, len(events) - 1))
    gap = lost(events[last], first + 1, last + 1)
    found = check([*events[:first], gap, *events[last + 1 :]])
    assert found.facts.gaps == [(first + 1, last + 1)]
    if found.facts.events:
        missing = f"the broker's stream is missing {last - first + 1} event"
        assert missing in found.summary()
    truth = {each.started_sequence: each for each in history(events, "g").rebalances}
    for each in found.rebalances:
        same = truth.get(each.started_sequence)
        if each.is_whole and same is not None and each.outcome == same.outcome:
            assert each.pieces == same.pieces
            assert (each.cause, each.culprits) == (same.cause, same.culprits)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, SEEDS - 1), data=st.data())
def test_a_stream_that_is_cut(seed: int, data: st.DataObject) -> None:
    """Whole accounts stay the same; no partition gets a first owner from nowhere."""
    events = whole(seed)
    begin = data.draw(st.integers(0, len(events) - 1))
    end = data.draw(st.integers(begin, len(events)))
    found = check(events[begin:end])
    truth = {each.started_sequence: each for each in history(events, "g").rebalances}
    for each in found.rebalances:
        same = truth.get(each.started_sequence)
        if each.is_whole and same is not None and each.outcome == same.outcome:
            assert each.pieces == same.pieces
            if each.moves is not None and same.moves is not None:
                assert moved(each) <= moved(same)
    if begin < end and (events[begin]["generation"] or 0) > 0:
        assert "are missing" in found.summary()


def test_a_start_that_was_forgotten() -> None:
    """Members from before have given up an unknown number of partitions."""
    context = Context()
    ana, ben = (consumer(context, name, EAGER) for name in ("ana", "ben"))
    context.form([ana, ben], sync=False)
    divide((ana, range(6)), (ben, range(6, 12)))
    since = len(context.notices)
    context.sleep(1_000)
    ben.leave()
    context.sleep(200)
    ana.join()
    context.sleep(300)
    ana.sync(shares((ana, range(12))))
    found = history(recorded(context, since=since), "g")
    (only,) = found.rebalances
    assert only.moves is not None
    assert not only.is_ownership_whole
    assert found.facts.owned == {ana.member_id: 12}
    (row,) = only.pauses
    assert row.count is None
    assert only.paused_ns > 0
    words = found.explain(only)
    assert "first time" not in words
    assert "6 of the partitions moved" in words
    assert "at least 6 returned" in words
    assert "ana paused for 0.30 s" in words


def test_a_rebalance_whose_end_is_missing() -> None:
    """Two generations later it is another one: the first has no end that is known."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(10)
    stream.starts("leader_rejoined", "ana")
    stream.wait(1)
    stream.rejoins("ana")
    seen = len(stream.events)
    stream.joined("all_joined", stream.now - SECOND)
    stream.wait(100)
    stream.starts("leader_rejoined", "ana")
    began = stream.now
    stream.wait(2)
    missing = len(stream.events) - seen
    stream.rejoins("ben")
    stream.joined("all_joined", began)
    stream.divided({})
    gap = lost(stream.events[seen + missing - 1], seen + 1, seen + missing)
    events = [*stream.events[:seen], gap, *stream.events[seen + missing :]]
    found = check(events)
    _, halfway, last = found.rebalances
    assert (halfway.outcome, halfway.duration_ns) == (Outcome.UNSEEN, SECOND)
    assert "its end is unknown" in found.explain(halfway)
    assert (last.cause, last.is_whole) == ("unseen", False)
    assert last.duration_ns == 2 * SECOND


def test_the_end_of_a_join_phase_that_is_missing() -> None:
    """The assignment says how long ago it was."""
    stream = Stream()
    stream.comes("ana")
    stream.rebalance("member_joined", "ana", joins={}, sync_s=4.0)
    made = {"kind": "assignment_made", "duration_ns": 4 * SECOND, "protocol": "range"}
    events = [
        {**e, **made} if e["kind"] == "assignment_made" else e
        for e in stream.events
        if e["kind"] != "join_completed"
    ]
    (only,) = check(events).rebalances
    assert (only.outcome, only.generation) == (Outcome.COMPLETED, 1)
    assert only.sync_ns == 4 * SECOND
    assert not only.is_whole


def test_nobody_stands_still_while_the_broker_is_away() -> None:
    """A pause ends with the last event: its real end is unknown."""
    stream = Stream()
    stream.comes("ana")
    stream.rebalance("member_joined", "ana", joins={}, owned={"ana": range(4)})
    stream.wait(10)
    stream.rejoins("ana", "leader")
    stream.starts("leader_rejoined", "ana")
    stream.wait(1)
    stream.say("heartbeat", "ana")
    stream.run, stream.state, stream.generation = "run-2", "Empty", 0
    stream.members.clear()
    stream.wait(3600)
    stream.comes("ana")
    stream.rebalance("member_joined", "ana", joins={})
    found = check(stream.events)
    (row,) = found.rebalances[1].pauses
    assert (row.ended_by, row.duration_ns) == ("unseen", SECOND)
    assert "ana paused for at least 1.0 s" in found.explain(found.rebalances[1])


def test_a_rebalance_that_hangs() -> None:
    """On a live broker it lasts until now and names the missing member."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(10)
    stream.starts("leader_rejoined", "ana")
    found = history(stream.events, "g", stream.now + 20 * SECOND)
    last = found.rebalances[-1]
    assert (last.outcome, last.duration_ns) == (Outcome.UNDER_WAY, 20 * SECOND)
    words = found.explain(last)
    assert "waited 20.0 s for ben; still in progress, waiting for ben" in words
    stream.wait(1)
    stream.rejoins("ben")
    stream.joined("all_joined", stream.now - SECOND)
    words = history(stream.events, "g").text()
    assert "still in progress, waiting for ana to send the assignment" in words


def test_a_clock_that_was_set_back_is_told() -> None:
    """Durations around that time are too short, and the summary says so."""
    stream = Stream()
    stream.comes("ana")
    stream.wait(-5)
    stream.rebalance("member_joined", "ana", joins={})
    assert stream.now < BEGIN
    summary = history(stream.events, "g").summary()
    assert "the clock was set back by 5.0 s" in summary


@pytest.mark.parametrize("kind", ["offsets_committed", "heartbeat", "group_state"])
def test_events_that_go_first(kind: str) -> None:
    """A broker forgets commits before the rest: nothing is concluded from that."""
    for seed in range(SEEDS):
        events = whole(seed)
        left = [event for event in events if event["kind"] != kind]
        assert history(left, "g").rebalances == history(events, "g").rebalances
