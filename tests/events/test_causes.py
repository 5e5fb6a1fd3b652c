"""Every kind of event about groups, with every cause and its fields."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.events.build import accounted, recorded
from tests.events.checks import check
from tests.events.plays.scene import S
from tests.events.plays.table import PLAYS

from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.events import Heartbeat
from kohort.broker.events.schema import KINDS
from kohort.broker.notice import Notice

NOT_OF_GROUPS = {
    "delivery_account",
    "events_lost",
    "clock_advanced",
    "fault_struck",
    "finding",
    "heartbeat",
    "node_",
    "offsets_went_back",
    "rebalance_account",
    "shard_",
    "transaction_",
    "unread_account",
    "member_disconnected",
}
NOT_OF_COORDINATORS = {("member_refused", "unsupported")}
"""A handler publishes it: `tests/broker/test_misdirected_clients` plays it."""


@pytest.mark.parametrize(("kind", "cause"), list(PLAYS))
def test_cause(kind: str, cause: str | None) -> None:
    """The cause produces its event, with all fields."""
    context = Context()
    facts = PLAYS[kind, cause](context)
    events = context.events()
    for event in events:
        check(event)
    told = [e for e in events if (e["kind"], e["cause"]) == (kind, cause)]
    assert {name: told[-1][name] for name in facts} == facts
    for each in accounted(recorded(context)):
        check(each)


def test_every_cause_is_played() -> None:
    """The schema has no cause that does not come about, and the other way round."""
    causes = {
        (kind.name, cause)
        for kind in KINDS
        for cause in kind.causes or [None]
        if not kind.name.startswith(tuple(NOT_OF_GROUPS))
    }
    assert causes - NOT_OF_COORDINATORS == PLAYS.keys()


def test_heartbeats_only_where_they_are_asked_for() -> None:
    """Each one then, with its answer."""
    context = Context()
    (a,) = context.stable_group("A")
    a.heartbeat()
    assert "heartbeat" not in context.kinds()
    old = context.coordinator
    told = Coordinator(old.settings, str, heartbeats=True)
    told.groups.update(old.groups)
    for generation_id in (1, 2):
        beat = Heartbeat(object(), "g", generation_id, a.member_id, None)
        *_, notice, _ = told.handle(beat, context.now)
        assert isinstance(notice, Notice)
        error = "ILLEGAL_GENERATION" if generation_id == 2 else "NONE"
        assert (notice.kind, notice.fields) == ("heartbeat", {"error": error})
        assert notice.who == (a.member_id, None, a.client)


def test_what_a_group_is_before_and_after() -> None:
    """A group that is made comes from Dead, and one that is deleted goes there."""
    context = Context()
    context.commit([("t", 0, 1, -1, "")])
    context.delete()
    context.member("A").join()
    states = [e for e in context.events() if e["kind"] == "group_state"]
    changes = [(e["previous_state"], e["state"]) for e in states]
    assert changes == [("Dead", "Empty"), ("Empty", "Dead"), ("Dead", "Empty")]


def test_a_static_member_that_is_waited_for_comes_back_under_another_id() -> None:
    """The wait is that of the new id: it ends when it joins."""
    context = Context()
    a, _ = context.stable_group("A", "B", static=True)
    a.join()
    context.sleep(1_000)
    again = context.member("B", instance="i-B")
    again.join()
    joined = context.event("join_completed")
    wait = {"member_id": again.member_id, "waited_ns": S, "came": True, "told_ns": None}
    assert (joined["waits"], joined["duration_ns"]) == ([wait], S)
    assert (joined["gained"], joined["lost"]) == ([], [])


def test_an_id_that_was_given_out_is_waited_for() -> None:
    """From the rebalance's start to its first join, as for the others."""
    context = Context()
    (a,) = context.stable_group("A")
    b, late = context.member("B"), context.member("C")
    b.join()
    b.join()
    late.join()
    context.sleep(1_000)
    a.join()
    context.sleep(1_000)
    late.join()
    waits = {w["member_id"]: w for w in context.event("join_completed")["waits"]}
    assert waits[late.member_id]["waited_ns"] == 2 * S
    assert waits[late.member_id]["came"] is True
    assert context.event("join_completed")["duration_ns"] == 2 * S


def test_an_id_that_was_given_out_finds_the_group_full() -> None:
    """It is taken back, and the one that it was given to is refused."""
    context = Context(max_size=2)
    a = context.member("A")
    late = context.member("C")
    late.join()
    given = late.member_id
    context.form([a, context.member("B")], sync=False)
    late.join()
    kicked, refused = context.event("member_kicked"), context.event("member_refused")
    assert (kicked["cause"], kicked["was_pending"]) == ("full", True)
    assert (kicked["member_id"], kicked["client_id"]) == (given, "C")
    assert (refused["cause"], refused["member_id"]) == ("full", given)
    assert context.groups["g"].pending_members == {}


def test_assignments_of_other_kinds_are_not_looked_into() -> None:
    """Outside the consumer protocol, no member owns a partition."""
    context = Context()
    context.stable_group("A", protocol_type="connect")
    assert "partitions_changed" not in context.kinds()
    assert context.event("member_joined")["topics"] is None
    (b,) = context.stable_group("B", group="h")
    b.leave()
    told = [e for e in context.events() if e["kind"] == "partitions_changed"]
    # Bytes that are none of a consumer's: something changed, and nothing is owned.
    assert [e["owned"] for e in told] == [[], []]
