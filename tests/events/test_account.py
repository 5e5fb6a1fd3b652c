"""The account of a rebalance: how long partitions had no reader, and whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import takewhile

import pytest
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending
from tests.coordinator.member import Member
from tests.events.build import SECOND, accounted, recorded
from tests.events.checks import check
from tests.events.consumers import COOPERATIVE, EAGER, consumer, divide, given

from kohort.broker.coordinator.effects import LeaveResult
from kohort.broker.coordinator.events import Leave, LeavingMember
from kohort.broker.events.account import (
    Account,
    Accounts,
    Outcome,
    UnreadAccount,
    membership,
)
from kohort.broker.events.account.readers import Readers
from kohort.broker.events.account.values import Event, Partition, Parts
from kohort.control.why import history

Gaps = list[tuple[str, int, float]]
"""Cause, partitions, seconds."""


def accounts(context: Context) -> list[Account]:
    """The accounts that are settled."""
    found = Accounts()
    return [a for event in recorded(context) for a in found.take(event)]


def gaps(account: Account | UnreadAccount) -> Gaps:
    """Its partitions without a reader, to the millisecond."""
    return sorted(
        (row.cause, row.count, round(row.duration_ns / SECOND, 3))
        for row in account.unread
    )


def pair(context: Context, protocol: str, **options: object) -> tuple[Member, Member]:
    """Ana and ben, stable, two partitions each."""
    ana, ben = (
        consumer(context, name, protocol, session_ms=10_000, **options)
        for name in ("ana", "ben")
    )
    context.form([ana, ben], sync=False)
    divide((ana, (0, 1)), (ben, (2, 3)))
    return ana, ben


def silent_for(context: Context, seconds: int, *others: Member) -> None:
    """Only the others heartbeat."""
    for _ in range(seconds):
        context.sleep(1_000)
        for member in others:
            member.heartbeat()


@pytest.mark.parametrize("command", [Context.kick, Context.expire])
def test_a_member_removed_by_a_command_has_read_until_then(
    context: Context, command: Callable[[Context, str], object]
) -> None:
    """The 3 s for which the broker has not heard of it do not count: it was alive."""
    ana, ben = pair(context, COOPERATIVE)
    silent_for(context, 3, ana)
    command(context, ben.member_id)
    context.sleep(700)
    ana.join()
    divide((ana, range(4)))
    assert gaps(accounts(context)[-1]) == [("commanded", 2, 0.7)]
    check_accounts(context)


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_a_crash_counts_from_when_the_member_was_last_heard_of(
    context: Context, protocol: str
) -> None:
    """A session of 10 s, 0.7 s to rejoin: 10.7 s for each partition of the member."""
    ana, _ = pair(context, protocol)
    silent_for(context, 10, ana)
    context.sleep(700)
    ana.join()
    context.sleep(20)
    divide((ana, (0, 1, 2, 3)))
    last = accounts(context)[-1]
    assert last.cause == "session_expired"
    mine: Gaps = [("paused", 2, 0.02)] if protocol == EAGER else []
    assert gaps(last) == [("expired", 2, 10.72), *mine]
    assert last.unread_ns == pytest.approx(
        (21.44 + sum(count * s for _, count, s in mine)) * SECOND, abs=SECOND / 1000
    )
    (moved,) = last.moves or ()
    assert moved.gap_ns == pytest.approx(10.72 * SECOND, abs=SECOND / 1000)


def test_a_cooperative_member_that_leaves_and_returns(context: Context) -> None:
    """Its partitions wait for the rebalance; then those that are given back do."""
    ana, ben = pair(context, COOPERATIVE)
    ben.leave()
    context.sleep(3_000)
    ana.join()
    divide((ana, (0, 1, 2, 3)))
    assert gaps(accounts(context)[-1]) == [("left", 2, 3.0)]
    again = consumer(context, "ben", COOPERATIVE)
    again.enter()
    context.sleep(2_000)
    ana.join()
    divide((ana, (0, 1)), (again, ()))
    half = accounts(context)[-1]
    assert (gaps(half), half.given_up_count) == ([], 2)
    context.sleep(500)
    ana.join()
    context.sleep(1_000)
    again.join()
    divide((ana, (0, 1)), (again, (2, 3)))
    assert gaps(accounts(context)[-1]) == [("revoked", 2, 1.5)]


def test_a_gap_over_two_rebalances_is_counted_once(context: Context) -> None:
    """Each account has its part, and the move has all of it."""
    ana, ben = pair(context, EAGER)
    ben.leave()
    context.sleep(1_000)
    ana.join()
    context.sleep(500)
    cleo = consumer(context, "cleo")
    cleo.enter()
    context.sleep(2_000)
    ana.join()
    divide((ana, (0, 1)), (cleo, (2, 3)))
    first, second = accounts(context)[-2:]
    assert first.outcome is Outcome.INTERRUPTED
    assert gaps(first) == [("left", 2, 1.5), ("paused", 2, 0.5)]
    assert gaps(second) == [("left", 2, 2.0), ("paused", 2, 2.0)]
    assert first.settled_ns == second.started_ns
    (moved,) = second.moves or ()
    assert moved.gap_ns == pytest.approx(3.5 * SECOND, abs=SECOND / 1000)


def test_a_quiet_return_has_an_account_of_its_own(context: Context) -> None:
    """A static member's restart without a rebalance; the next account has no part."""
    ana, ben = _static(context)
    before = len(accounts(context))
    silent_for(context, 4, ana)
    again = consumer(context, "ben", instance="i-ben", session_ms=10_000)
    again.enter()
    context.sleep(700)
    again.sync()
    assert len(accounts(context)) == before
    (quiet,) = outside(recorded(context))
    assert (quiet.cause, gaps(quiet)) == ("read_again", [("replaced", 2, 4.7)])
    events = recorded(context)
    silent_ns = next(e["silent_ns"] for e in events if e["kind"] == "member_replaced")
    assert quiet.unread_ns == pytest.approx(2 * (silent_ns + 0.7 * SECOND), abs=1000)
    for stream in (events, accounted(events)):
        found = history(stream, "g")
        assert found.unread_ns == quiet.unread_ns
        assert "partitions had no reader for 9.4 partition-seconds" in found.summary()
    ana.join()
    again.join()
    divide((ana, (0, 1)), (again, (2, 3)))
    settled = Accounts()
    all_ = [a for event in recorded(context) for a in settled.take_all(event)]
    assert sum(each.unread_ns for each in all_) == quiet.unread_ns
    assert {row.member_id for row in quiet.unread} == {ben.member_id}


def disconnects(
    events: list[Event],
    member: Member,
    after: int,
    cause: str,
    at_ns: int | None = None,
) -> None:
    """Adds the event that a member's connection is closed, after so many others."""
    before = events[after - 1]
    names = {"kind": "member_disconnected", "cause": cause, "reason": None}
    names |= {"member_id": member.member_id, "group": "g"}
    time_ns = before["time_ns"] if at_ns is None else at_ns
    events.insert(after, {**before, **names, "time_ns": time_ns})


def test_a_member_has_read_until_its_connection_was_closed(context: Context) -> None:
    """0.4 s after its last heartbeat; not if it sends heartbeats on another one."""
    ana, ben = _static(context)
    silent_for(context, 1, ana, ben)
    closed_after = len(context.events())
    ben.heartbeat()
    context.sleep(400)
    closed_ns = round(context.now * SECOND)
    silent_for(context, 3, ana)
    again = consumer(context, "ben", instance="i-ben", session_ms=10_000)
    again.enter()
    again.sync()
    for at_ns, gap_s in ((closed_ns, 3.0), (closed_ns - SECOND, 3.4)):
        events = recorded(context)
        disconnects(events, ben, closed_after, "closed", at_ns)
        (quiet,) = outside(events)
        assert gaps(quiet) == [("replaced", 2, gap_s)]


def outside(events: list[Event]) -> list[UnreadAccount]:
    """The accounts of no rebalance, and of the end of the stream."""
    found = Accounts()
    all_ = [a for event in events for a in found.take_all(event)]
    return [a for a in (*all_, *found.close_all()) if isinstance(a, UnreadAccount)]


def stopped(events: list[Event]) -> list[Event]:
    """The events, and the stop of their node a second after the last one."""
    at_ns = events[-1]["time_ns"] + SECOND
    names = {"kind": "node_stopped", "group": None, "member_id": None}
    return [*events, {**events[-1], **names, "time_ns": at_ns}]


def test_gaps_are_closed_when_the_broker_stops(context: Context) -> None:
    """One member is away, and the other reads until the end."""
    ana, ben = _static(context)
    ben.heartbeat()
    events = recorded(context)
    disconnects(events, ben, len(events), "closed")
    assert outside(stopped(events)) == []
    silent_for(context, 4, ana)
    ana.commit("t", 1)
    later = recorded(context)
    later.insert(len(events) - 1, events[-1])
    disconnects(later, ben, len(later), "away")
    (quiet,) = outside(stopped(later))
    assert quiet.cause == "broker_stopped"
    assert gaps(quiet) == [("disconnected", 2, 5.0)]


def test_a_static_member_that_comes_back_into_a_rebalance_pauses(
    context: Context,
) -> None:
    """From its own JoinGroup on, with the partitions of its old id."""
    ana, _ = _static(context)
    ana.join()
    context.sleep(1_000)
    again = consumer(context, "ben", instance="i-ben", session_ms=10_000)
    again.enter()
    context.sleep(2_000)
    again.join()
    divide((ana, (0, 1)), (again, (2, 3)))
    last = accounts(context)[-1]
    assert {row.member_id: (row.count, row.duration_ns) for row in last.pauses} == {
        ana.member_id: (2, 3 * SECOND),
        again.member_id: (2, 2 * SECOND),
    }
    assert last.moved_count == 0


def _static(context: Context) -> tuple[Member, Member]:
    ana, ben = (
        consumer(context, name, instance=f"i-{name}", session_ms=10_000)
        for name in ("ana", "ben")
    )
    context.form([ana, ben], sync=False)
    divide((ana, (0, 1)), (ben, (2, 3)))
    return ana, ben


def test_a_slow_poller_holds_its_partitions(context: Context) -> None:
    """It rejoins after 8 s; with 3 s a member may only have waited to heartbeat."""
    ana, ben = pair(context, COOPERATIVE)
    for slow_s, held_s in ((8, 16), (3, 0)):
        ana.join()
        silent_for(context, slow_s, ben)
        ben.join()
        divide((ana, (0, 1)), (ben, (2, 3)))
        last = accounts(context)[-1]
        assert (last.unprocessed_ns, last.unread_ns) == (held_s * SECOND, 0)


@pytest.mark.parametrize(
    ("reason", "worked_s", "held_s"),
    [
        ("consumer poll timeout has expired.", 60, 60),
        ("the consumer is being closed", 60, 0),
        (None, 60, 60),  # librdkafka gives none, but joins on the same connection
        (None, 20, 0),  # it had not had its partitions for 30 s
    ],
)
def test_a_member_that_did_not_poll_held_its_partitions(
    context: Context, reason: str | None, worked_s: int, held_s: int
) -> None:
    """For its max.poll.interval.ms, 30 s, before it left with two partitions."""
    ana, ben = pair(context, COOPERATIVE)
    silent_for(context, worked_s, ana, ben)
    leaving = LeavingMember(ben.member_id, None, reason)
    pending: Pending[LeaveResult] = Pending("leave")
    context.ask(Leave(pending, "g", [leaving]), pending)
    ana.join()
    divide((ana, (0, 1, 2, 3)))
    ben.member_id = ""
    ben.enter()
    ana.join()
    divide((ana, (0, 1)), (ben, ()))
    held = sum(each.unprocessed_ns for each in accounts(context))
    assert held == held_s * SECOND


def test_an_empty_group_has_a_cause_of_its_own(context: Context) -> None:
    """All members left; the one that comes back much later reads everything again."""
    ana, ben = pair(context, EAGER)
    ana.commit("t", 1)
    ben.leave()
    ana.leave()
    emptied = accounts(context)[-1]
    assert (emptied.outcome, gaps(emptied)) == (Outcome.EMPTIED, [])
    context.sleep(60_000)
    again = consumer(context, "ana")
    again.enter()
    divide((again, range(4)))
    last = accounts(context)[-1]
    assert {row.cause for row in last.unread} == {"group_empty"}
    assert last.unread_ns == 0
    assert last.unread_empty_ns == pytest.approx(240 * SECOND, rel=0.001)
    words = history(recorded(context), "g").explain(last)
    assert "4 partitions had no reader for 1 min because the group was empty" in words


def after_the_work(events: list[Event]) -> tuple[float, float]:
    """Downtime, and what followed the end of the work: partition-seconds."""
    found = Accounts()
    all_ = [a for event in stopped(events) for a in found.take_all(event)]
    all_ += found.close_all()
    rows = [row for account in all_ for row in account.unread]
    ended = sum(r.duration_ns * r.count for r in rows if r.cause == "work_ended")
    down = sum(account.unread_ns for account in all_)
    history_ns = history(stopped(events), "g").unread_ns
    assert history_ns == history(accounted(stopped(events)), "g").unread_ns == down
    return round(down / SECOND, 3), round(ended / SECOND, 3)


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
@pytest.mark.parametrize(("apart_s", "cost"), [(2, (0, 6)), (6, (12, 2))])
def test_members_that_leave_at_the_end_cost_nothing(
    context: Context, protocol: str, apart_s: int, cost: tuple[float, float]
) -> None:
    """Unless they leave further apart: then the others were still at work."""
    ana, ben = pair(context, protocol)
    ben.leave()
    context.sleep(apart_s * 1_000)
    ana.leave()
    down, ended = after_the_work(recorded(context))
    # The broker stops a second later; each has two partitions.
    assert (down, ended) == (cost[0], cost[1] + 2)


def test_static_members_that_close_at_the_end_cost_nothing(context: Context) -> None:
    """Nobody comes back: their sessions expire, 10 s after each was last heard of."""
    ana, ben = _static(context)
    silent_for(context, 2, ana, ben)
    silent_for(context, 2, ana)
    context.sleep(30_000)
    # The broker stops a second after the last session's end.
    assert after_the_work(recorded(context)) == (0, 2 * 13 + 2 * 11)


def test_a_crash_before_the_end_costs_what_it_cost(context: Context) -> None:
    """The other one works on for 7 s; then nobody is left, and both expire."""
    ana, ben = _static(context)
    silent_for(context, 2, ana, ben)
    silent_for(context, 7, ana)
    context.sleep(20_000)
    assert after_the_work(recorded(context)) == (14, 4 * 11)


def test_a_group_that_goes_on_later_has_not_ended(context: Context) -> None:
    """One comes back after 20 s: it was downtime until the group was empty."""
    ana, ben = _static(context)
    silent_for(context, 2, ana, ben)
    context.sleep(20_000)
    assert after_the_work(recorded(context)) == (0, 4 * 11)
    again = consumer(context, "ana")
    again.enter()
    divide((again, range(4)))
    down, ended = after_the_work(recorded(context))
    assert (down, ended) == (4 * 10, 0)
    (row,) = [r for r in accounts(context)[-1].unread if r.cause == "group_empty"][:1]
    assert row.duration_ns == 10 * SECOND


def test_members_that_are_away_when_the_broker_stops(context: Context) -> None:
    """All have closed their connections: no session has expired yet."""
    ana, ben = _static(context)
    context.sleep(1_000)
    ana.commit("t", 1)
    events = recorded(context)
    for cause in ("closed", "away"):
        for member in (ana, ben):
            disconnects(events, member, len(events), cause)
    assert after_the_work(events) == (0, 4)


def test_partitions_that_are_not_assigned_any_more_are_dropped(
    context: Context,
) -> None:
    """A completed assignment leaves two out: later accounts do not wait for them."""
    ana, ben = pair(context, EAGER)
    ben.leave()
    context.sleep(1_000)
    ana.join()
    divide((ana, (0, 1)))
    silent_for(context, 60, ana)
    ana.join()
    divide((ana, (0, 1)))
    left, last = accounts(context)[-2:]
    assert ("left", 2, 1.0) in gaps(left)
    assert gaps(last) == []


def test_a_crash_costs_only_what_the_member_still_had(context: Context) -> None:
    """Ben gave his partitions up before he crashed."""
    ana, ben = pair(context, EAGER)
    ana.join()
    ben.join()
    divide((ana, range(4)), (ben, ()))
    silent_for(context, 10, ana)
    ana.join()
    divide((ana, range(4)))
    last = accounts(context)[-1]
    assert last.cause == "session_expired"
    assert {row.cause for row in last.unread} <= {"paused"}


def test_an_assignor_that_moves_more_than_it_has_to(context: Context) -> None:
    """Shares of 2 and 2 become 3 and 1, then 2 and 2 of others: one had to move."""
    ana, ben = pair(context, EAGER)
    for mine, others, moved in (((1, 2, 3), (0,), 3), ((0, 1), (2, 3), 3)):
        ana.join()
        ben.join()
        divide((ana, mine), (ben, others))
        last = accounts(context)[-1]
        assert (last.moved_count, last.least_moved_count) == (moved, 1)
    ben.leave()
    ana.join()
    divide((ana, (0, 1, 2, 5)))
    last = accounts(context)[-1]
    # Partition 5 had no owner before; 2 had to move, as ben is gone.
    assert (last.moved_count, last.least_moved_count) == (1, 1)


def test_a_member_that_leaves_while_others_are_to_sync(context: Context) -> None:
    """The rebalance before is settled by that; its partitions wait for the next one."""
    ana, ben = pair(context, EAGER)
    cleo = consumer(context, "cleo")
    cleo.enter()
    ana.join()
    ben.join()
    ana.sync(given((ana, (0, 1)), (ben, (2, 3)), (cleo, (4,))))
    ben.sync()
    context.sleep(1_000)
    ben.leave()
    context.sleep(2_000)
    ana.join()
    cleo.join()
    divide((ana, (0, 1)), (cleo, (2, 3, 4)))
    last = accounts(context)[-1]
    assert ("left", 2, 2.0) in gaps(last)


def test_the_same_events_make_the_same_rows() -> None:
    """In the order of partitions: that of a set differs from process to process."""
    readers = Readers()
    for name in "abcdefgh":
        readers.start(name, {(name, 0)}, 1)
        readers.stop(name, 2, "expired")
    readers.start("next", {(name, 0) for name in "abcdefgh"}, 3)
    assert "".join(row.member_id for row in readers.take_rows()) == "abcdefgh"


def test_memory_of_members_that_are_gone_has_a_bound(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounts are the same as without it."""
    monkeypatch.setattr(membership, "MOST_GONE", 3)
    ana = consumer(context, "ana")
    ana.enter()
    divide((ana, range(4)))
    for number in range(20):
        other = consumer(context, f"m{number}")
        other.enter()
        ana.join()
        divide((ana, (0, 1)), (other, (2, 3)))
        other.leave()
        ana.join()
        divide((ana, range(4)))
    found = Accounts()
    trimmed = []
    for event in recorded(context):
        trimmed += found.take(event)
        found.trim("g")
    assert trimmed == accounts(context)
    known = found.groups["g"].membership
    assert len(known.members) == len(known.lives) <= 2 * 3 + 1
    assert known.present == [ana.member_id]


# -- whatever happens


class Timeline:
    """The reader of each partition at each moment: the definition, without rows.

    A plain reading of docs/reference/why.md, event by event and partition by partition.
    """

    def __init__(self, events: list[Event]) -> None:
        self.owned: dict[str, set[Partition]] = {}
        self.reader: dict[Partition, str] = {}
        self.protocols: dict[str, list[str]] = {}
        self.stopped: dict[Partition, int] = {}
        self.unread: Counter[Partition] = Counter()
        for event in events:
            self._take(event)

    def _stop(self, member_id: str, at_ns: int, keep: set[Partition] | None) -> None:
        for partition in [p for p, m in self.reader.items() if m == member_id]:
            if keep is None or partition not in keep:
                del self.reader[partition]
                self.stopped[partition] = at_ns

    def _take(self, event: Event) -> None:
        kind, now, member_id = event["kind"], event["time_ns"], event["member_id"]
        if kind in {"member_joined", "member_replaced"}:
            self.protocols[member_id] = event["protocols"]
        if kind == "member_joined" and event["cause"] != "repeated":
            if {*event["protocols"]} - {COOPERATIVE}:
                self._stop(member_id, now, None)
        elif kind in {"member_left", "member_expired", "member_kicked"}:
            # A member removed or expired by a command has read until then.
            is_commanded = event["cause"] == "commanded"
            silent_ns = 0 if is_commanded else event.get("silent_ns") or 0
            self._stop(member_id, now - silent_ns, None)
        elif kind == "member_replaced":
            silent_ns = event["silent_ns"] or 0
            self._stop(event["replaced_member_id"], now - silent_ns, None)
        elif kind == "partitions_changed":
            self.owned[member_id] = {
                (row["topic"], n) for row in event["owned"] for n in row["partitions"]
            }
        elif kind == "member_synced":
            owned = self.owned.get(member_id, set())
            self._stop(member_id, now, owned)
            for partition in owned:
                if partition in self.stopped:
                    gap_ns = now - self.stopped.pop(partition)
                    self.unread[partition] += gap_ns
                self.reader[partition] = member_id


def unread(settled: list[Account]) -> Counter[Partition]:
    """The time that each partition had no reader, by its rows."""
    found: Counter[Partition] = Counter()
    for account in settled:
        assert account.duration_ns == sum(p.duration_ns for p in account.pieces)
        for row in account.unread:
            assert row.since_ns < row.until_ns <= account.settled_ns
            found.update(dict.fromkeys(_flat(row.parts), row.duration_ns))
    return found


def check_durations(settled: list[Account], events: list[Event]) -> None:
    """The coordinator says the same of the join phases and the sync phases."""
    completed = {e["generation"]: e for e in events if e["kind"] == "join_completed"}
    for each in settled:
        if each.generation is not None:
            told = completed[each.generation]
            assert each.join_ns == told["duration_ns"]
            assert {*each.members} == {*told["members"]}
            # A wait that the coordinator tells of ends where a piece of it does, or in
            # a hold, which is one piece.
            ends = {w.until_ns - each.started_ns for w in each.pieces} | {0}
            holds = [piece for piece in each.pieces if piece.what == "held"]
            for waited_ns in {row["waited_ns"] for row in told["waits"]} - ends:
                at_ns = each.started_ns + waited_ns
                assert any(hold.since_ns < at_ns < hold.until_ns for hold in holds)
    took = [e["duration_ns"] for e in events if e["kind"] == "assignment_made"]
    whole = [each for each in settled if each.outcome is Outcome.COMPLETED]
    assert [each.sync_ns for each in whole] == took[: len(whole)]


def test_accounts_of_older_streams_are_read(context: Context) -> None:
    """They have fields under other names, or lack them."""
    ana, ben = pair(context, EAGER)
    ben.leave()
    ana.join()
    divide((ana, (0, 1, 2, 3)))
    (*_, event) = (
        each
        for each in accounted(recorded(context))
        if each["kind"] == "rebalance_account" and each["moves"]
    )
    older = {**event, "moves": [{**row} for row in event["moves"]]}
    del older["unprocessed_ns"]
    for row in older["moves"]:
        row["unread_ns"] = row.pop("gap_ns")
    assert Account.of(older) == Account.of(event)


def check_accounts(context: Context) -> None:
    """Accounts match the schema and the plain reading of the events."""
    events = recorded(context)
    for event in accounted(events):
        if event["kind"] == "unread_account":
            check(event)
        elif event["kind"] == "rebalance_account":
            check(event)
            assert Account.of(event).own_fields().items() <= event.items()
    unread(accounts(context))
    # A deleted group has no partitions; nor are there events of what a
    # coordinator that moved has forgotten.
    events = [*takewhile(_is_of_one_life, events)]
    books = Accounts()
    settled = [a for event in events for a in books.take(event)]
    check_durations(settled, events)
    under_way = books.under_way("g")
    found = unread([*settled, under_way] if under_way else settled)
    if under_way is None and events:
        for row in books.of("g").unread_since(books.of("g").now):
            found.update(dict.fromkeys(_flat(row.parts), row.duration_ns))
    for partition, unread_ns in Timeline(events).unread.items():
        assert found[partition] >= unread_ns or any(
            # A completed assignment has left it out.
            partition not in _assigned(account)
            for account in settled
            if account.outcome is Outcome.COMPLETED
        )


def _is_of_one_life(event: Event) -> bool:
    return event["kind"] != "group_loaded" and event.get("state") != "Dead"


def _flat(held: Parts) -> set[Partition]:
    return {(topic, number) for topic, numbers in held.items() for number in numbers}


def _assigned(account: Account) -> set[Partition]:
    parts = [row.parts for row in account.moves or ()]
    parts += [row.parts for row in (*(account.kept or ()), *(account.given_up or ()))]
    return {partition for held in parts for partition in _flat(held)}
