"""Rebalances from events of a real coordinator: causes, waits, leaders."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.build import SECOND, recorded
from tests.events.consumers import consumer, divide, history_of, paused, pieces, seconds

from kohort.control.why import Outcome, history


def test_an_expired_session(context: Context, trio: list[Member]) -> None:
    """The expired member, the waits for the others, moves and returns."""
    ana, ben, cleo = trio
    ana.heartbeat()
    cleo.heartbeat()
    context.sleep(29_000)
    ana.heartbeat()
    cleo.heartbeat()
    context.sleep(1_000)
    context.sleep(200)
    ana.join()
    context.sleep(340)
    cleo.join()
    context.sleep(20)
    divide((ana, range(6)), (cleo, range(6, 12)))
    found = history_of(context)
    last = found.rebalances[-1]
    assert (last.cause, last.culprits) == ("session_expired", (ben.member_id,))
    assert last.silent_ns == 30 * SECOND
    assert pieces(last, found) == [
        ("join", "ana", 0.2),
        ("join", "cleo", 0.34),
        ("sync", "ana", 0.02),
    ]
    assert paused(last, found) == {"ana": 0.36, "cleo": 0.02}
    assert last.moves is not None
    assert (last.moved_count, last.kept_count) == (4, 8)
    assert {seconds(m.gap_ns) for m in last.moves or ()} == {30.56}
    assert found.explain(last) == (
        "Generation 3: ben's session expired 30.0 s after it was last heard of; "
        "waited 0.54 s for ana and cleo, 0.34 s of it for cleo; all joined; "
        "ana computed the assignment in 20 ms (range); 4 of 12 partitions moved; 8 "
        "returned to their owner; ana paused for 0.36 s, cleo 20 ms; 12 partitions had "
        "no reader for up to 30.6 s (last owner ben), 123.8 partition-seconds in total."
    )


def test_a_first_member_of_an_empty_group() -> None:
    """The initial delay is a piece of the duration; a joining member extends it."""
    context = Context(initial_rebalance_delay_ms=3_000)
    ana, ben = consumer(context, "ana"), consumer(context, "ben")
    ana.enter()
    context.sleep(1_000)
    ben.enter()
    context.sleep(5_000)
    divide((ana, range(6)), (ben, range(6, 12)))
    found = history_of(context)
    (first,) = found.rebalances
    assert (first.cause, first.previous_state) == ("member_joined", "Empty")
    assert [w.ended_by for w in first.pieces] == ["extended", "initial_delay"]
    assert found.explain(first) == (
        "Generation 1: ana was the first to join; waited 6.0 s for more "
        "members (initial delay, 2 windows); ben joined as well; ana computed the "
        "assignment in 0 ms (range); 12 partitions were assigned for the first time."
    )


def test_a_member_that_does_not_come(context: Context, trio: list[Member]) -> None:
    """The rebalance timeout ends the wait and removes the member."""
    ana, ben, cleo = trio
    ana.join()
    context.sleep(10_000)
    cleo.join()
    for _ in range(2):
        context.sleep(10_000)
        ben.heartbeat()
    divide((ana, range(6)), (cleo, range(6, 12)))
    found = history_of(context)
    last = found.rebalances[-1]
    assert (last.cause, last.join_ended_by) == ("leader_rejoined", "rebalance_timeout")
    assert last.latecomers == (ben.member_id,)
    assert [(w.member_id, w.missing) for w in last.pieces] == [
        (cleo.member_id, ()),
        (None, (ben.member_id,)),
    ]
    assert (
        "the rebalance timeout ended the wait: ben did not rejoin in time and was "
        "removed" in found.explain(last)
    )


def test_a_rebalance_that_interrupts_another(
    context: Context, trio: list[Member]
) -> None:
    """A pause continues in the next rebalance; nothing is counted twice."""
    ana, ben, cleo = trio
    ana.join()
    ben.join()
    context.sleep(500)
    cleo.join()
    context.sleep(100)
    cleo.leave()
    context.sleep(300)
    ana.join()
    ben.join()
    divide((ana, range(6)), (ben, range(6, 12)))
    found = history_of(context)
    first, second = found.rebalances[-2:]
    assert (first.outcome, second.outcome) == (Outcome.INTERRUPTED, Outcome.COMPLETED)
    assert first.ended_ns == second.started_ns
    assert pieces(first, found) == [("join", "cleo", 0.5), ("sync", "ana", 0.1)]
    assert paused(first, found) == {"ana": 0.6, "ben": 0.6, "cleo": 0.1}
    assert paused(second, found) == {"ana": 0.3, "ben": 0.3}
    assert second.cause == "member_left"
    assert "no reason given" in found.explain(second)


def test_an_id_that_nobody_uses_is_waited_for(
    context: Context, trio: list[Member]
) -> None:
    """The piece that it took bears its id."""
    ana, ben, cleo = trio
    dora = consumer(context, "dora", session_ms=10_000)
    dora.join()
    ana.join()
    ben.join()
    cleo.join()
    context.sleep(10_000)
    found = history_of(context)
    last = found.rebalances[-1]
    assert pieces(last, found) == [("join", "dora", 10.0)]
    assert last.pieces[0].ended_by == "gone"
    assert "pending member dora did not join" in found.explain(last)


def test_a_pending_member_of_a_group_that_was_empty(context: Context) -> None:
    """The group has been Empty since dora got its id, and still waits for dora."""
    ana, ben = consumer(context, "ana"), consumer(context, "ben")
    ana.enter()
    dora = consumer(context, "dora", session_ms=10_000)
    dora.join()
    ana.leave()
    ben.enter()
    divide((ben, range(4)))
    context.sleep(4_000)
    ana.member_id = ""
    ana.enter()
    ben.join()
    context.sleep(6_000)
    found = history_of(context)
    last = found.rebalances[-1]
    assert pieces(last, found) == [("join", "dora", 6.0)]
    assert "waited 6.0 s for dora; pending member dora did" in found.explain(last)


def test_why_another_member_leads(context: Context, trio: list[Member]) -> None:
    """The first that joined of the others, as the leader has left."""
    ana, ben, cleo = trio
    ana.leave()
    cleo.join()
    ben.join()
    divide((ben, [0, 1, 2]), (cleo, [3, 4, 5]))
    found = history_of(context)
    why = "ben became the leader because the previous leader is gone"
    assert (
        f"{why}, and of the remaining members it comes first by the hash of the "
        "member id;"
    ) in found.explain(found.rebalances[-1])
    cleo.join()
    ben.join()
    divide((ben, [0, 1, 2]), (cleo, [3, 4, 5]))
    found = history_of(context)
    assert "leads now" not in found.explain(found.rebalances[-1])


def test_why_another_member_leads_than_a_late_one(context: Context) -> None:
    """A static leader that has not joined stays a member, and another one leads."""
    ana = consumer(context, "ana", instance="i-ana", rebalance_ms=5_000)
    ben, cleo = (consumer(context, n, rebalance_ms=5_000) for n in ("ben", "cleo"))
    context.form([ana, ben], sync=False)
    divide((ana, [0]), (ben, [1]))
    cleo.enter()
    ben.join()
    context.sleep(5_000)
    found = history_of(context)
    assert (
        "ben became the leader because the previous leader did not rejoin in time, and "
        "of the members that did, it comes first by the hash of the member id;"
    ) in found.explain(found.rebalances[-1])


def test_everybody_leaves(context: Context) -> None:
    """A rebalance that no member is left for."""
    (ana,) = context.stable_group("ana")
    ana.leave()
    found = history_of(context)
    last = found.rebalances[-1]
    assert (last.outcome, last.members) == (Outcome.EMPTIED, ())
    assert found.explain(last) == (
        "Generation 2: ana left, no reason given; no wait was necessary; "
        "the group is empty now."
    )


def test_everybody_leaves_one_after_the_other(context: Context) -> None:
    """The last one is waited for, and goes as well."""
    ana, ben = context.stable_group("ana", "ben")
    ben.leave()
    context.sleep(6)
    ana.leave()
    found = history_of(context)
    assert found.explain(found.rebalances[-1]) == (
        "Generation 3: ben left, no reason given; waited 6 ms for ana; "
        "ana left meanwhile; the group is empty now."
    )


def test_other_groups_are_passed_over(context: Context, trio: list[Member]) -> None:
    """A group without events has an empty history."""
    found = history(recorded(context), "other")
    assert (found.rebalances, found.findings) == ((), ())
    assert found.text() == "group other: no events"
