"""Groups that tests hold in PreparingRebalance or CompletingRebalance."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Members, assign

HOUR_MS = 3_600_000
PREPARING = "PreparingRebalance"
COMPLETING = "CompletingRebalance"


@pytest.fixture
def context() -> Context:
    """A coordinator without initial delays."""
    return Context()


def held_joining(context: Context) -> Members:
    """A group held in PreparingRebalance whose members have all joined."""
    members = context.stable_group("A", "B")
    context.hold()
    context.trigger()
    for member in members:
        member.join()
    return members


# -- PreparingRebalance


def test_joins_wait(context: Context) -> None:
    """In a hold joins wait, however long it lasts; then all are answered at once."""
    held_joining(context)
    waiting = [*context.waiting]
    context.sleep(HOUR_MS)
    assert context.state() == PREPARING
    assert not any(each.answered for each in waiting)
    context.release()
    assert [each.result.error_code for each in waiting] == [0, 0]
    assert context.state() == COMPLETING


def test_members_that_have_not_joined_are_told_to(context: Context) -> None:
    """Heartbeats are answered REBALANCE_IN_PROGRESS, and sessions continue."""
    a, b = context.stable_group("A", "B", session_ms=10_000)
    context.hold()
    context.trigger()
    assert a.heartbeat() == 27
    b.join()
    context.sleep(10_000)
    assert a.heartbeat() == 25
    assert context.state() == PREPARING
    context.release()
    assert (b.generation_id, len(b.told)) == (3, 1)


def test_the_rest_of_the_rebalance_timeout(context: Context) -> None:
    """The rebalance timeout stands still during a hold, and continues after it."""
    a, b = context.stable_group("A", "B", rebalance_ms=10_000, session_ms=60_000)
    context.trigger()
    pending = a.join()
    context.sleep(4_000)
    context.hold()
    context.sleep(30_000)
    context.release()
    context.sleep(5_999)
    assert not pending.answered
    context.sleep(1)
    assert pending.answered
    assert b.heartbeat() == 25


def test_the_rest_of_an_initial_window() -> None:
    """If a group is held before it exists, its window begins with the release."""
    context = Context(initial_rebalance_delay_ms=3_000)
    context.hold()
    a = context.member("A")
    pending = a.enter()
    context.sleep(HOUR_MS)
    context.release()
    context.sleep(2_999)
    assert not pending.answered
    context.sleep(1)
    assert pending.result.error_code == 0


def test_new_members_do_not_expire(context: Context) -> None:
    """After the release, new members get their whole time again."""
    (a,) = context.stable_group("A", session_ms=1_800_000, rebalance_ms=HOUR_MS)
    context.hold()
    pending = context.member("B").enter()
    context.sleep(1_000_000)
    context.release()
    context.sleep(299_999)
    assert not pending.answered
    a.heartbeat()
    context.sleep(1)
    assert pending.result.error_code == 25


def test_expiry_of_a_member_whose_join_waits(context: Context) -> None:
    """The command works during a hold; the group keeps its state."""
    _, b = held_joining(context)
    context.expire(b.member_id)
    assert context.state() == PREPARING
    context.release()
    assert context.event("join_completed")["members"] == ["A-1"]


def test_muted_member_of_a_held_group(context: Context) -> None:
    """A hold does not keep a muted member's session: it counts as gone."""
    a, b = held_joining(context)
    context.mute(b.member_id)
    context.sleep(HOUR_MS)
    assert b.heartbeat() == 25
    assert a.heartbeat() == 27


def test_held_group_that_all_members_leave(context: Context) -> None:
    """A held group without members becomes Empty, as it has no waiting requests."""
    a, b = held_joining(context)
    a.leave()
    b.leave()
    assert context.state() == "Empty"
    c = context.member("C")
    pending = c.enter()
    assert context.state() == PREPARING
    context.release()
    assert pending.result.error_code == 0


@pytest.mark.parametrize("verb", ["leave", "kick", "expire"])
def test_held_window_that_the_last_member_leaves(verb: str) -> None:
    """The group becomes Empty at once, as its window stands still and never ends."""
    context = Context(initial_rebalance_delay_ms=3_000)
    context.hold()
    a = context.member("A")
    a.enter()
    if verb == "leave":
        a.leave()
    else:
        getattr(context, verb)(a.member_id)
    assert context.state() == "Empty"
    b = context.member("B")
    pending = b.enter()
    context.release()
    context.sleep(3_000)
    assert pending.result.error_code == 0


def test_hold_of_a_window_that_all_members_have_left() -> None:
    """As in Kafka the window stays open; a hold makes the group Empty."""
    context = Context(initial_rebalance_delay_ms=3_000)
    a = context.member("A")
    a.enter()
    a.leave()
    assert context.state() == PREPARING
    context.hold()
    assert context.state() == "Empty"


# -- CompletingRebalance


def test_syncs_wait(context: Context) -> None:
    """In a hold all syncs wait, even the leader's; heartbeats succeed."""
    a, b = context.stable_group("A", "B", sync=False)
    context.hold()
    waiting = [b.sync(), a.sync(assign(a, b))]
    context.sleep(HOUR_MS)
    assert context.state() == COMPLETING
    assert [a.heartbeat(), b.heartbeat()] == [0, 0]
    assert context.group_records()[-1].generation_id == 0, "not in the log yet"
    context.release()
    results = [each.result.assignment for each in waiting]
    assert results == [b"assigned-B", b"assigned-A"]
    assert context.state() == "Stable"


def test_the_rest_of_the_sync_time(context: Context) -> None:
    """The time for syncs stands still during a hold; then the leader has the rest."""
    a, b = context.stable_group(
        "A", "B", sync=False, rebalance_ms=10_000, session_ms=60_000
    )
    b.sync()
    context.sleep(4_000)
    context.hold()
    context.sleep(30_000)
    context.release()
    context.sleep(5_999)
    assert a.heartbeat() == 0
    context.sleep(1)
    assert a.heartbeat() == 25


def test_leader_that_syncs_again(context: Context) -> None:
    """A leader that syncs again during a hold replaces its assignments."""
    (a,) = context.stable_group("A", sync=False)
    context.hold()
    first = a.sync([(a.member_id, b"old")])
    second = a.sync([(a.member_id, b"new")])
    context.release()
    assert (first.answered, second.result.assignment) == (False, b"new")


def test_leader_that_is_muted_after_its_sync(context: Context) -> None:
    """After the hold the group waits for the muted leader for a whole sync phase."""
    a, b = context.stable_group("A", "B", sync=False, rebalance_ms=5_000)
    context.hold()
    waiting = [b.sync(), a.sync(assign(a, b))]
    context.mute(a.member_id)
    context.release()
    context.sleep(4_999)
    assert context.state() == COMPLETING
    context.sleep(1)
    assert [each.result.error_code for each in waiting] == [27, 25]


def test_newcomer_of_a_held_group(context: Context) -> None:
    """As in Kafka, a newcomer begins the next join phase and voids assignments."""
    a, b = context.stable_group("A", "B", sync=False)
    context.hold()
    waiting = a.sync(assign(a, b))
    c = context.member("C")
    c.enter()
    assert waiting.result.error_code == 27
    assert context.state() == PREPARING
    a.join()
    b.join()
    assert context.state() == COMPLETING
    context.sync_all((a, b, c))
    assert context.state() == COMPLETING
    context.release()
    assert context.state() == "Stable"


def test_hold_while_the_record_is_written(context: Context) -> None:
    """The group stays in CompletingRebalance, and rewrites the record on release."""
    a, b = context.stable_group("A", "B", sync=False)
    waiting = b.sync()
    context.is_holding = True
    a.sync(assign(a, b))
    context.hold()
    context.flush()
    context.is_holding = False
    assert context.state() == COMPLETING
    context.release()
    assert waiting.result.assignment == b"assigned-B"


# -- from state to state


def test_hold_of_a_stable_group(context: Context) -> None:
    """A hold of a Stable group takes effect in the next rebalance."""
    a, b = context.stable_group("A", "B")
    context.hold(COMPLETING)
    assert [a.heartbeat(), b.heartbeat()] == [0, 0]
    context.trigger()
    a.join()
    b.join()
    context.sync_all((a, b))
    assert context.state() == COMPLETING


def test_step_by_step(context: Context) -> None:
    """A hold in another state replaces the first: the group goes on to that state."""
    a, b = held_joining(context)
    context.hold(COMPLETING)
    assert context.state() == COMPLETING
    context.sync_all((a, b))
    assert context.state() == COMPLETING
    context.hold(PREPARING)
    assert context.state() == "Stable"
    context.trigger()
    assert [a.join().answered, b.join().answered] == [False, False]


def test_hold_over_a_move(context: Context) -> None:
    """Joins are answered NOT_COORDINATOR; the next coordinator holds the group, too."""
    a, b = held_joining(context)
    waiting = [*context.waiting]
    context.move()
    assert [each.result.error_code for each in waiting] == [16, 16]
    assert context.state() == "Stable"
    a.join()
    b.join(protocols=[("range", b"other")])
    assert context.state() == PREPARING
    context.sleep(HOUR_MS)
    assert context.state() == PREPARING
    context.release()
    assert context.state() == COMPLETING


def test_hold_that_cannot_be(context: Context) -> None:
    """A hold in a state without waits, and an unneeded release, are refused."""
    refusal = (
        "a group can be held in PreparingRebalance or CompletingRebalance, not in "
    )
    assert context.hold("Stable") == f"{refusal}Stable"
    assert context.release() == "the group is not held"
    assert not context.lasting.holds
