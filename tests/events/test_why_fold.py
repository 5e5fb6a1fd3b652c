"""Rebalances from events of a real coordinator: causes, waits, costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.build import SECOND, Stream, recorded

from kohort.broker.events.account.values import Holding
from kohort.control.why import Account, History, Outcome, history
from kohort.control.why.words import duration
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions, encode

EAGER = "range"
COOPERATIVE = "cooperative-sticky"


def consumer(
    context: Context, name: str, protocol: str = EAGER, **options: object
) -> Member:
    """A member that subscribes to the topic "t"."""
    protocols = [(protocol, encode(Subscription(["t"])))]
    return context.member(name, protocols=protocols, **options)


def given(*shares: tuple[Member, Sequence[int]]) -> list[tuple[str, bytes]]:
    """An assignment of partitions of "t"."""
    return [
        (
            m.member_id,
            encode(Assignment([TopicPartitions("t", [*share])] if share else [])),
        )
        for m, share in shares
    ]


def divide(*shares: tuple[Member, Sequence[int]]) -> None:
    """All sync, the first of them leading."""
    for member, _ in shares[1:]:
        member.sync()
    shares[0][0].sync(given(*shares))


def told(context: Context) -> History:
    """The history of the group "g", whose rebalances add up."""
    events = recorded(context)
    found = history(events, "g")
    for each in found.rebalances:
        assert sum(wait.duration_ns for wait in each.pieces) == each.duration_ns
        assert each.join_ns + each.sync_ns == each.duration_ns
    whole = {
        e["generation"]: e["duration_ns"]
        for e in events
        if e["kind"] == "join_completed"
    }
    for each in found.rebalances:
        if each.generation in whole:
            assert each.join_ns == whole[each.generation]
    return found


def seconds(ns: int | None) -> float | None:
    """To the millisecond: the clock is a float, and an epoch is large for those."""
    return None if ns is None else round(ns / SECOND, 3)


def pieces(rebalance: Account, found: History) -> list[tuple[str, str, float | None]]:
    """The waits: member, end, and seconds."""
    return [
        (w.what, found.names.of(w.member_id or ""), seconds(w.duration_ns))
        for w in rebalance.pieces
    ]


def stood(rebalance: Account, found: History) -> dict[str, float | None]:
    """The members that paused, with the seconds."""
    return {
        found.names.of(row.member_id): seconds(row.duration_ns)
        for row in rebalance.pauses
        if row.count
    }


@pytest.fixture
def trio(context: Context) -> list[Member]:
    """Ana, ben and cleo, stable, four partitions each."""
    members = [consumer(context, n, session_ms=30_000) for n in ("ana", "ben", "cleo")]
    context.form(members, sync=False)
    ana, ben, cleo = members
    divide((ana, range(4)), (ben, range(4, 8)), (cleo, range(8, 12)))
    return members


def test_names_of_any_length(context: Context) -> None:
    """Clients may send 32,767 characters: names are cut, and still different."""
    members = [consumer(context, "a" * 30_000) for _ in range(3)]
    context.form(members, sync=False)
    names = told(context).names
    called = {names.of(each.member_id) for each in members}
    assert len(called) == 3
    assert {len(each) for each in called} <= {*range(80, 100)}


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
    found = told(context)
    last = found.rebalances[-1]
    assert (last.cause, last.culprits) == ("session_expired", (ben.member_id,))
    assert last.silent_ns == 30 * SECOND
    assert pieces(last, found) == [
        ("join", "ana", 0.2),
        ("join", "cleo", 0.34),
        ("sync", "ana", 0.02),
    ]
    assert stood(last, found) == {"ana": 0.36, "cleo": 0.02}
    assert last.moves is not None
    assert (last.moved_count, last.kept_count) == (4, 8)
    assert {seconds(m.unread_ns) for m in last.moves or ()} == {30.56}
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
    found = told(context)
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
    found = told(context)
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
    found = told(context)
    first, second = found.rebalances[-2:]
    assert (first.outcome, second.outcome) == (Outcome.INTERRUPTED, Outcome.COMPLETED)
    assert first.ended_ns == second.started_ns
    assert pieces(first, found) == [("join", "cleo", 0.5), ("sync", "ana", 0.1)]
    assert stood(first, found) == {"ana": 0.6, "ben": 0.6, "cleo": 0.1}
    assert stood(second, found) == {"ana": 0.3, "ben": 0.3}
    assert second.cause == "member_left"
    assert "no reason given" in found.explain(second)


def test_cooperative_members_work_on(context: Context) -> None:
    """No member pauses; partitions move from one generation to the next."""
    ana, ben = (consumer(context, n, COOPERATIVE) for n in ("ana", "ben"))
    context.form([ana], sync=False)
    divide((ana, range(4)))
    context.sleep(1_000)
    ben.enter()
    context.sleep(300)
    ana.join()
    divide((ana, (0, 1)), (ben, ()))
    context.sleep(200)
    ana.join()
    context.sleep(100)
    ben.join()
    divide((ana, (0, 1)), (ben, (2, 3)))
    found = told(context)
    halfway, last = found.rebalances[-2:]
    assert (stood(halfway, found), stood(last, found)) == ({}, {})
    assert halfway.moves is not None
    assert halfway.given_up == (Holding(ana.member_id, {"t": (2, 3)}),)
    assert last.moves is not None
    assert [(m.source, m.target, seconds(m.unread_ns)) for m in last.moves] == [
        (ana.member_id, ben.member_id, 0.3)
    ]
    assert [(r.cause, r.count, seconds(r.duration_ns)) for r in last.unread] == [
        ("revoked", 2, 0.3)
    ]
    assert last.is_eager is False
    assert "2 were revoked, for the next generation" in found.explain(halfway)
    assert "2 stayed with their owner, without a pause" in found.explain(last)


def test_partitions_that_go_away_and_come_back(
    context: Context, trio: list[Member]
) -> None:
    """A restart: what went to another member is with the same process again."""
    ana, ben, cleo = trio
    ben.leave()
    ana.join()
    cleo.join()
    divide((ana, range(8)), (cleo, range(8, 12)))
    again = consumer(context, "ben")
    again.enter()
    ana.join()
    cleo.join()
    divide((ana, range(4)), (again, range(4, 8)), (cleo, range(8, 12)))
    found = told(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [(m.is_return, m.count) for m in last.moves] == [(True, 4)]
    assert "4 of them back to the process that owned them before" in found.explain(last)
    assert found.names.of(again.member_id) == found.names.of(ben.member_id) == "ben"


def test_a_static_member_that_comes_back(context: Context) -> None:
    """No rebalance: its partitions are under its new id, and nothing has moved."""
    _, ben = context.stable_group("ana", "ben", static=True)
    before = len(told(context).rebalances)
    context.sleep(1_000)
    context.member("ben", instance="i-ben").enter()
    found = told(context)
    assert len(found.rebalances) == before
    (back,) = found.facts.replacements
    assert (back.instance_id, back.old) == ("i-ben", ben.member_id)
    assert found.summary().endswith(
        "; static members rejoined without a rebalance 1 time"
    )


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
    found = told(context)
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
    found = told(context)
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
    found = told(context)
    why = "ben became the leader because the previous leader is gone"
    assert (
        f"{why}, and of the remaining members it comes first by the hash of the "
        "member id;"
    ) in found.explain(found.rebalances[-1])
    cleo.join()
    ben.join()
    divide((ben, [0, 1, 2]), (cleo, [3, 4, 5]))
    found = told(context)
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
    found = told(context)
    assert (
        "ben became the leader because the previous leader did not rejoin in time, and "
        "of the members that did, it comes first by the hash of the member id;"
    ) in found.explain(found.rebalances[-1])


def test_everybody_leaves(context: Context) -> None:
    """A rebalance that no member is left for."""
    (ana,) = context.stable_group("ana")
    ana.leave()
    found = told(context)
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
    found = told(context)
    assert found.explain(found.rebalances[-1]) == (
        "Generation 3: ben left, no reason given; waited 6 ms for ana; "
        "ana left meanwhile; the group is empty now."
    )


def test_a_coordinator_that_takes_over(context: Context, trio: list[Member]) -> None:
    """A takeover that interrupts a rebalance is named; members keep their names."""
    ana, *_ = trio
    ana.join()
    context.sleep(700)
    context.restart()
    found = told(context)
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


def test_a_rebalance_that_is_under_way(context: Context, trio: list[Member]) -> None:
    """It ends, for now, with the last event."""
    ana, ben, _ = trio
    ana.join()
    context.sleep(250)
    ben.join()
    found = told(context)
    last = found.rebalances[-1]
    assert (last.outcome, seconds(last.duration_ns)) == (Outcome.UNDER_WAY, 0.25)
    assert "still in progress" in found.explain(last)


def test_a_gap_is_told(context: Context, trio: list[Member]) -> None:
    """Events that a reader missed are reported as missing."""
    ana, *_ = trio
    ana.join()
    events = recorded(context)
    lost = {**events[-1], "kind": "events_lost", "group": None, "first": 90, "last": 99}
    found = history([*events, lost], "g")
    assert found.facts.gaps == [(90, 99)]
    assert not found.rebalances[-1].is_whole
    assert "the broker's stream is missing 10 events" in found.summary()


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


def test_names_tell_members_apart() -> None:
    """Two of one client id at the same time show where their ids differ."""
    stream = Stream()
    for number in ("1111", "2222"):
        member_id = f"rdkafka-{number}0000-0000-0000-0000-000000000000"
        fields = {"member_id": member_id, "client_id": "rdkafka", "host": "/h"}
        stream.say("member_joined", cause="new", is_first=True, **fields)
    found = history(stream.events, "g")
    assert found.names.list(found.facts.members) == "rdkafka-1111 and rdkafka-2222"


def test_other_groups_are_passed_over(context: Context, trio: list[Member]) -> None:
    """A group without events has an empty history."""
    found = history(recorded(context), "other")
    assert (found.rebalances, found.findings) == ((), ())
    assert found.text() == "group other: no events"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ms"),
        (999_999, "under 1 ms"),
        (54_400_000, "54 ms"),
        (540_000_000, "0.54 s"),
        (999_000_000, "1.0 s"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1 min"),
        (125_000_000_000, "2 min 5 s"),
        (3_599_700_000_000, "1 h"),
        (15_947_000_000_000, "4 h 26 min"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    """About two significant digits."""
    assert duration(ns) == text


@pytest.mark.parametrize("reason", ["it has given up partitions", None])
def test_the_second_half_is_told_as_such(context: Context, reason: str | None) -> None:
    """A cooperative member that gave something up: whether it says so or not."""
    ana, ben = (consumer(context, n, COOPERATIVE) for n in ("ana", "ben"))
    context.form([ana], sync=False)
    divide((ana, range(4)))
    ben.enter()
    ana.join()
    divide((ana, (0, 1)), (ben, ()))
    ana.join(reason=reason)
    found = told(context)
    first, second = found.rebalances[-2:]
    assert (first.is_second_half, second.is_second_half) == (False, True)
    assert "ana rejoined after revoking partitions" in found.explain(second)


def test_partitions_that_stay_with_a_client_under_a_new_id(
    context: Context, trio: list[Member]
) -> None:
    """A quick restart: it is back in the rebalance that its leaving began."""
    ana, ben, cleo = trio
    ben.leave()
    again = consumer(context, "ben")
    again.enter()
    ana.join()
    cleo.join()
    divide((ana, range(4)), (again, range(4, 8)), (cleo, range(8, 12)))
    found = told(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [m.is_return for m in last.moves] == [False]
    words = found.explain(last)
    assert "4 of 12 partitions moved, 4 of them from a client's old" in words


def test_partitions_that_go_to_another_process_of_the_same_name(
    context: Context,
) -> None:
    """Two members of one name at the same time: their moves are no returns."""
    one, other = consumer(context, "app"), consumer(context, "app")
    one.enter()
    other.enter()
    context.sleep(3_000)
    one.join()
    other.join()
    divide((one, range(2)), (other, range(2, 4)))
    one.leave()
    other.join()
    divide((other, range(4)))
    found = told(context)
    last = found.rebalances[-1]
    assert last.moves is not None
    assert [(m.source, m.count) for m in last.moves] == [(one.member_id, 2)]
    assert "2 of 4 partitions moved; 2 returned" in found.explain(last)
