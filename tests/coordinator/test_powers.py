"""Commands of tests: kick, expire and mute members, limit and rebalance groups."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Members, assign

from kohort.broker.coordinator.events import Credited
from kohort.broker.runtime.machine import CHECK_KEY
from kohort.protocol.errors import ErrorCode

MINUTE_MS = 60_000


@pytest.fixture
def context() -> Context:
    """A coordinator without initial delays."""
    return Context()


def joining(context: Context) -> Members:
    """A group in PreparingRebalance that waits for A; B has joined."""
    members = context.stable_group("A", "B")
    context.trigger()
    members[1].join()
    return members


def syncing(context: Context) -> Members:
    """A group in CompletingRebalance that waits for A, its leader, and for B."""
    return context.stable_group("A", "B", sync=False)


# -- kick and expire


def test_kick_of_a_stable_group(context: Context) -> None:
    """The kicked member becomes unknown, and the others rebalance without it."""
    a, b = context.stable_group("A", "B")
    assert context.kick(b.member_id, "for a test") is None
    assert b.heartbeat() == 25
    assert a.heartbeat() == 27
    assert a.join().result.error_code == 0
    assert len(a.told) == 1


@pytest.mark.parametrize("verb", ["kick", "expire"])
def test_gone_with_a_join_that_waits(context: Context, verb: str) -> None:
    """Its join is answered UNKNOWN_MEMBER_ID; the join phase goes on, with a timer."""
    a, b = joining(context)
    pending = b.join()
    getattr(context, verb)(b.member_id)
    assert pending.result.error_code == 25
    assert context.state() == "PreparingRebalance"
    assert a.join().result.error_code == 0


@pytest.mark.parametrize("verb", ["kick", "expire"])
def test_gone_that_was_waited_for(context: Context, verb: str) -> None:
    """If all others have joined, the removal ends the join phase."""
    a, b = context.stable_group("A", "B")
    context.trigger()
    pending = b.join()
    getattr(context, verb)(a.member_id)
    assert pending.result.leader == b.member_id
    assert context.state() == "CompletingRebalance"


@pytest.mark.parametrize("verb", ["kick", "expire"])
@pytest.mark.parametrize("is_helpful", [True, False])
def test_gone_with_a_sync_that_waits(verb: str, *, is_helpful: bool) -> None:
    """Its sync is answered UNKNOWN_MEMBER_ID, the leader's REBALANCE_IN_PROGRESS."""
    context = Context(is_helpful=is_helpful)
    a, b = syncing(context)
    pending = b.sync()
    getattr(context, verb)(b.member_id)
    assert pending.result.error_code == 25
    assert a.sync(assign(a)).result.error_code == 27
    assert a.join().result.error_code == 0


@pytest.mark.parametrize("verb", ["kick", "expire"])
def test_the_last_one_gone(context: Context, verb: str) -> None:
    """The group is Empty without its last member."""
    (a,) = context.stable_group("A")
    getattr(context, verb)(a.member_id)
    assert context.state() == "Empty"


@pytest.mark.parametrize("verb", ["kick", "expire"])
def test_pending_member_gone(context: Context, verb: str) -> None:
    """The pending member is removed, and its timer."""
    member = context.member("A")
    member.join()
    assert getattr(context, verb)(member.member_id) is None
    assert context.timers.keys() == {CHECK_KEY}
    assert member.join().result.error_code == 25
    assert context.state() == "Empty"


def test_gone_in_an_initial_window() -> None:
    """An expiry ends the window early if all others have joined; a kick does not."""
    context = Context(initial_rebalance_delay_ms=3_000)
    a, b = (context.member(name) for name in "AB")
    a.enter()
    b.enter()
    context.kick(b.member_id)
    assert context.state() == "PreparingRebalance"
    c = context.member("C")
    c.enter()
    context.expire(c.member_id)
    assert context.state() == "CompletingRebalance"
    assert len(a.told) == 1


def test_expiry_names_its_reason(context: Context) -> None:
    """The cause is an expired session, the reason that a test asked for it."""
    _, b = context.stable_group("A", "B")
    context.sleep(2_000)
    context.expire(b.member_id)
    started = context.event("rebalance_started")
    assert started["cause"] == "session_expired"
    assert started["reason"] == "a test asked for it"
    assert context.event("member_expired")["silent_ns"] == 2_000_000_000


@pytest.mark.parametrize("verb", ["kick", "expire", "mute", "unmute"])
def test_unknown_member(context: Context, verb: str) -> None:
    """A command about an unknown member is refused and changes nothing."""
    command = getattr(context, verb)
    assert command("nobody") == "there is no member 'nobody'"
    context.stable_group("A")
    assert command("nobody") == "there is no member 'nobody'"
    assert "commanded" not in context.kinds()


@pytest.mark.parametrize("verb", ["kick", "expire"])
def test_gone_while_it_is_credited(context: Context, verb: str) -> None:
    """Future signs of life do not count: the member was heard just now."""
    _, b = context.stable_group("A", "B")
    context.sleep(2_000)
    context.submit(Credited("g", [b.member_id], context.now + 60))
    getattr(context, verb)(b.member_id)
    kind = "member_kicked" if verb == "kick" else "member_expired"
    assert context.event(kind)["silent_ns"] == 0


# -- mute


def test_muted_in_a_stable_group(context: Context) -> None:
    """A muted member's heartbeats and commits are answered, but its session ends."""
    a, b = context.stable_group("A", "B", session_ms=10_000)
    context.sleep(4_000)
    context.mute(b.member_id)
    for _ in range(5):
        context.sleep(1_000)
        a.heartbeat()
        assert b.heartbeat() == 0
        assert b.commit("t", 1) == 0
    context.sleep(1_000)
    assert b.heartbeat() == 25
    assert context.event("member_expired")["silent_ns"] == 10_000_000_000


def test_muted_with_a_join_that_waits(context: Context) -> None:
    """A muted member's join does not count: its session ends, then the join phase."""
    a, b = context.stable_group("A", "B", session_ms=10_000)
    context.trigger()
    pending = b.join()
    context.mute(b.member_id)
    a.join()
    assert context.state() == "PreparingRebalance"
    context.sleep(10_000)
    assert pending.result.error_code == 25
    assert context.state() == "CompletingRebalance"
    assert len(a.told) == 1


def test_muted_beyond_the_rebalance_timeout(context: Context) -> None:
    """A muted member is late, like a member that did not join."""
    a, b = context.stable_group("A", "B", session_ms=30_000, rebalance_ms=5_000)
    context.trigger()
    a.join()
    context.mute(b.member_id)
    b.join()
    context.sleep(5_000)
    assert context.event("member_kicked")["cause"] == "did_not_join_in_time"
    assert len(a.told) == 1


def test_muted_after_a_long_wait(context: Context) -> None:
    """It was alive while its join waited: its session begins with the mute."""
    a, b = context.stable_group("A", "B", session_ms=10_000, rebalance_ms=60_000)
    context.trigger()
    pending = b.join()
    for _ in range(4):
        context.sleep(9_000)
        a.heartbeat()
    context.mute(b.member_id)
    context.sleep(9_000)
    a.heartbeat()
    assert not pending.answered
    context.sleep(1_000)
    assert pending.result.error_code == 25


def test_muted_static_leader(context: Context) -> None:
    """A muted static leader stays a member, but another one leads."""
    a, b = context.stable_group("A", "B", static=True, rebalance_ms=5_000)
    context.trigger()
    a.join()
    context.mute(a.member_id)
    b.join()
    context.sleep(5_000)
    assert context.event("join_completed")["leader"] == b.member_id
    assert len(b.told) == 2


def test_muted_with_a_sync_that_waits(context: Context) -> None:
    """Its session ends although its sync waits, and the others rebalance."""
    a, b = syncing(context)
    pending = b.sync()
    context.mute(b.member_id)
    for _ in range(4):
        context.sleep(7_500)
        a.heartbeat()
    assert pending.result.error_code == 25
    assert context.event("rebalance_started")["cause"] == "session_expired"


def test_muted_leader(context: Context) -> None:
    """A muted leader's assignments do not count, until it is unmuted."""
    a, b = syncing(context)
    context.mute(a.member_id)
    pending = b.sync()
    a.sync(assign(a, b))
    assert context.state() == "CompletingRebalance"
    context.unmute(a.member_id)
    assert context.state() == "Stable"
    assert pending.result.assignment == b"assigned-B"


def test_unmuted(context: Context) -> None:
    """After an unmute its session starts anew, and its waiting join counts."""
    a, b = context.stable_group("A", "B", session_ms=10_000)
    context.trigger()
    pending = b.join()
    context.mute(b.member_id)
    a.join()
    context.sleep(9_000)
    context.unmute(b.member_id)
    assert pending.result.error_code == 0
    context.sleep(9_999)
    assert b.heartbeat() == 0


def test_unmuted_after_its_assignment(context: Context) -> None:
    """It got its assignment while it was muted: it needs no sync timer."""
    a, b = context.stable_group("A", "B", sync=False, rebalance_ms=5_000)
    b.sync()
    context.mute(b.member_id)
    a.sync(assign(a, b))
    context.unmute(b.member_id)
    context.sleep(6_000)
    assert context.state() == "Stable"


def test_muted_over_a_move(context: Context) -> None:
    """The next coordinator does not hear it either; its session begins once more."""
    a, b = context.stable_group("A", "B", session_ms=10_000)
    context.mute(b.member_id)
    context.move()
    context.sleep(9_000)
    assert [a.heartbeat(), b.heartbeat()] == [0, 0]
    context.sleep(1_000)
    assert [a.heartbeat(), b.heartbeat()] == [27, 25]


def test_muted_in_a_group_that_a_move_forgets(context: Context) -> None:
    """The group's first record is not written: the mute is dropped with the group."""
    context.is_holding = True
    member = context.member("A")
    member.enter()
    context.mute(member.member_id)
    context.held.clear()
    context.move()
    assert not context.coordinator.groups
    assert not context.lasting.muted


def test_static_member_after_a_mute(context: Context) -> None:
    """The process that takes a muted static member's place is heard."""
    _, b = context.stable_group("A", "B", static=True, session_ms=10_000)
    context.mute(b.member_id)
    again = context.member("B", instance="i-B", session_ms=10_000)
    again.join()
    assert again.heartbeat() == 0
    context.sleep(9_000)
    again.heartbeat()
    context.sleep(9_000)
    assert again.heartbeat() in {0, 27}
    assert not context.lasting.muted


def test_muted_twice(context: Context) -> None:
    """A second mute, and an unneeded unmute, change nothing."""
    _, b = context.stable_group("A", "B")
    assert context.unmute(b.member_id) is None
    context.mute(b.member_id)
    context.sleep(5_000)
    assert context.mute(b.member_id) is None
    assert context.kinds().count("commanded") == 1


def test_pending_member_is_not_muted(context: Context) -> None:
    """A pending member cannot be muted: it sends only its join."""
    member = context.member("A")
    member.join()
    refusal = context.mute(member.member_id)
    assert refusal == "a pending member cannot be muted: it has no session"


# -- rebalance


@pytest.mark.parametrize("sync", [True, False])
def test_rebalance(context: Context, *, sync: bool) -> None:
    """All members rejoin; waiting syncs are answered REBALANCE_IN_PROGRESS."""
    a, b = context.stable_group("A", "B", sync=sync)
    waiting = None if sync else b.sync()
    context.trigger("to see what happens")
    assert waiting is None or waiting.result.error_code == 27
    assert context.state() == "PreparingRebalance"
    a.join()
    assert b.join().result.generation_id == 3
    assert context.lasting.rebalances["g"] == 3


def test_rebalance_that_cannot_be(context: Context) -> None:
    """A group that is rebalancing, or has no members, refuses the command."""
    none = "a group without members cannot rebalance"
    assert context.trigger() == none
    (a,) = context.stable_group("A")
    context.trigger()
    assert context.trigger() == "the group is in PreparingRebalance already"
    a.join()
    a.leave()
    assert context.trigger() == none


# -- limit


def test_limit(context: Context) -> None:
    """Members beyond the limit are refused, until it is removed."""
    context.stable_group("A", "B")
    context.limit(2)
    assert context.member("C").join().result.error_code == 81
    assert context.state() == "Stable"
    context.limit(None)
    assert context.member("C").enter().results == []


@pytest.mark.parametrize("sync", [True, False])
def test_limit_below_the_members(context: Context, *, sync: bool) -> None:
    """The group rebalances, and the last member to join is refused (KIP-389)."""
    a, b, c = context.stable_group("A", "B", "C", sync=sync)
    context.limit(2)
    assert context.event("rebalance_started")["cause"] == "group_over_max_size"
    a.join()
    b.join()
    assert c.join().result.error_code == 81
    context.sleep(30_000)
    assert len(a.told) == 2


def test_limit_below_joins_that_wait(context: Context) -> None:
    """The next generation keeps within the limit, although the joins were accepted."""
    a, b, c = context.stable_group("A", "B", "C")
    context.trigger()
    waiting = [a.join(), b.join()]
    context.limit(1)
    assert c.join().result.error_code == 81
    context.sleep(30_000)
    assert sorted(each.result.error_code for each in waiting) == [0, 81]


def test_limit_over_a_move(context: Context) -> None:
    """A limit outlives a move of the coordinator."""
    context.stable_group("A", "B")
    context.limit(2)
    context.move()
    assert context.member("C").join().result.error_code == 81
    context.limit(1)
    assert context.state() == "PreparingRebalance"


def test_limit_of_none(context: Context) -> None:
    """A limit must leave room for at least one member."""
    assert context.limit(0) == "a limit of 0 members: it must be at least 1"
    assert not context.lasting.max_sizes


def test_a_limit_that_is_lowered_while_a_record_is_written() -> None:
    """The group rebalances down to it; the generation before kept the limit then."""
    context = Context(max_size=1, is_helpful=True)
    context.limit(2)
    (a,) = context.stable_group("A", sync=False)
    context.is_holding = True
    a.sync(assign(a))
    b = context.member("B")
    b.enter()
    a.join()
    assert context.describe().members[1].member_id == b.member_id
    context.limit(None)
    context.is_holding = False
    context.flush()
    assert context.state() == "PreparingRebalance"
    a.join()
    assert b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    context.sleep(30_000)
    assert [m.member_id for m in context.describe().members] == [a.member_id]
