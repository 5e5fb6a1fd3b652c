"""Heartbeats, and sessions that end without them."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.coordinator.member import assign

from kohort.broker.coordinator.events import CommitOffsets, Event, Heartbeat, Offsets
from kohort.broker.runtime.effects import Append, Arm, Reply
from kohort.broker.runtime.events import Appended, Expired


@pytest.fixture
def context() -> Context:
    """Short sessions are allowed here."""
    return Context(initial_rebalance_delay_ms=0, min_session_timeout_ms=100)


def test_sole_member_expires(context: Context) -> None:
    """The group is Empty exactly when the session of its only member ends."""
    (a,) = context.stable_group("A", session_ms=1_000)
    context.sleep(999)
    assert context.state() == "Stable"
    context.sleep(1)
    assert context.state() == "Empty"
    assert (a.heartbeat(), a.join().result.error_code) == (25, 25)


def test_follower_expires(context: Context) -> None:
    """The others learn of a rebalance, and continue without the follower."""
    a = context.member("A")
    b = context.member("B", session_ms=1_500)
    context.form([a, b])
    context.sleep(1_500)
    assert a.heartbeat() == 27
    assert context.event("member_expired")["member_id"] == b.member_id
    assert context.event("member_expired")["silent_ns"] == 1_500_000_000
    assert context.notice("rebalance_started").fields["cause"] == "session_expired"
    assert len(a.join().result.members) == 1


def test_heartbeats_keep_a_session(context: Context) -> None:
    """The session runs from the latest heartbeat on, also in rebalances."""
    a = context.member("A", rebalance_ms=60_000)
    b = context.member("B", session_ms=1_500, rebalance_ms=60_000)
    context.form([a, b])
    b.keep_alive(4_000)
    joining = a.join()
    b.keep_alive(4_000)
    assert b.heartbeat() == 27
    assert not joining.answered
    context.sleep(1_499)
    assert not joining.answered
    context.sleep(1)
    assert len(joining.result.members) == 1


def test_waiting_requests_keep_their_member(context: Context) -> None:
    """No member expires while its join or sync waits; then its session starts anew."""
    a = context.member("A", session_ms=60_000, rebalance_ms=20_000)
    b = context.member("B", session_ms=1_000, rebalance_ms=20_000)
    context.form([a, b])
    joining = b.join(protocols=a.protocols)
    context.sleep(10_000)
    a.join()
    assert joining.result.error_code == 0
    context.sleep(500)
    syncing = b.sync()
    context.sleep(10_000)
    a.sync(assign(a, b))
    assert syncing.result.assignment == b"assigned-B"
    context.sleep(999)
    assert b.heartbeat() == 0


def test_session_starts_with_the_join_response(context: Context) -> None:
    """A silent member expires, counted from its join response."""
    a = context.member("A", session_ms=1_500, rebalance_ms=60_000)
    a.enter()
    context.sleep(1_499)
    assert context.state() == "CompletingRebalance"
    context.sleep(1)
    assert context.state() == "Empty"


def test_pending_member_expires(context: Context) -> None:
    """A pending member that does not join within the session timeout is removed."""
    (a,) = context.stable_group("A")
    b = context.member("B", session_ms=1_000)
    b.join()
    joining = a.join()
    context.sleep(1_000)
    assert joining.answered
    assert b.join().result.error_code == 25
    assert context.event("pending_member_expired")["client_id"] == "B"


def test_new_member_that_waits_too_long() -> None:
    """A new member's join waits for at most five minutes."""
    context = Context(max_session_timeout_ms=3_600_000)
    context.stable_group("A", rebalance_ms=3_600_000, session_ms=3_600_000)
    b = context.member("B", requires_id=False, session_ms=6_000)
    joining = b.join()
    context.sleep(299_999)
    assert not joining.answered
    context.sleep(1)
    assert (joining.result.error_code, joining.result.member_id) == (25, "")


def test_heartbeats_cost_no_timer(context: Context) -> None:
    """Heartbeats and commits only note the time; the timer checks it when it fires."""
    (a,) = context.stable_group("A", session_ms=10_000)
    context.sleep(4_000)
    beat = Heartbeat(object(), "g", 1, a.member_id, None)
    offsets = Offsets.of([("t", 0, 1, -1, "", None)])
    commit = CommitOffsets(
        object(), "g", 1, a.member_id, None, a.client, False, offsets
    )
    (reply,) = context.coordinator.handle(beat, context.now)
    assert isinstance(reply, Reply)
    (append,) = context.coordinator.handle(commit, context.now)
    assert isinstance(append, Append)
    key = ("session", "g", a.member_id)
    (arm,) = context.coordinator.handle(Expired(key), context.now + 6)
    assert arm == Arm(key, context.now + 10)


def test_answers_without_data_are_shared(context: Context) -> None:
    """The same result object answers every heartbeat, and every commit."""
    (a,) = context.stable_group("A")

    def result(event: Event) -> object:
        effects = context.coordinator.handle(event, context.now)
        last = effects[-1]
        if isinstance(last, Append):
            written = Appended(last.append_id)
            last = context.coordinator.handle(written, context.now)[-1]
        assert isinstance(last, Reply)
        return last.result

    beat = Heartbeat(Pending("beat"), "g", 1, a.member_id, None)
    assert result(beat) is result(beat)
    offsets = Offsets.of([("t", 0, 1, -1, "", None)])
    member = ("g", 1, a.member_id, None, a.client)
    commit = CommitOffsets(Pending("commit"), *member, False, offsets)
    assert result(commit) is result(commit)


def test_stale_timers_find_nothing_to_do(context: Context) -> None:
    """Timers of deleted groups, members and phases are ignored."""
    (a,) = context.stable_group("A")
    for key in (
        ("join", "g"),
        ("sync", "g"),
        ("session", "g", "gone"),
        ("join", "gone"),
    ):
        assert context.coordinator.handle(Expired(key), context.now) == []
    assert a.heartbeat() == 0


def test_timers_that_fire_early_are_armed_again(context: Context) -> None:
    """A driver may fire early: the deadline of the phase counts, not the timer."""
    a, _ = context.stable_group("A", "B", sync=False, rebalance_ms=5_000)
    early, deadline = context.now + 1, context.now + 5
    key = ("sync", "g")
    assert context.coordinator.handle(Expired(key), early) == [Arm(key, deadline)]
    a.join(protocols=[("range", b"new")])
    key = ("join", "g")
    assert context.coordinator.handle(Expired(key), early) == [Arm(key, deadline)]


def test_events_say_how_long_a_member_was_silent(context: Context) -> None:
    """Silence counts from the last heartbeat; it is 0 while the member's join waits."""
    a, b = context.stable_group("A", "B", static=True)
    context.sleep(1_000)
    b.heartbeat()
    context.sleep(2_000)
    back = context.member("B2", instance="i-B")
    back.join()
    assert context.event("member_replaced")["silent_ns"] == 2_000_000_000
    back.join(protocols=[("range", b"new")])
    context.sleep(3_000)
    context.member("B3", instance="i-B").join()
    assert context.event("member_replaced")["silent_ns"] == 0
    c, d = context.form(
        [context.member(n, group="h", rebalance_ms=4_000) for n in "CD"]
    )
    c.join()
    context.sleep(1_500)
    d.heartbeat()
    context.sleep(2_500)
    kicked = context.event("member_kicked")
    assert (kicked["member_id"], kicked["silent_ns"]) == (d.member_id, 2_500_000_000)
    assert a.heartbeat() == 27
