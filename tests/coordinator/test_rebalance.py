"""From one generation to the next."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import protocols


def test_two_members(context: Context) -> None:
    """A newcomer starts a rebalance, which members learn of by heartbeat."""
    (a,) = context.stable_group("A")
    b = context.member("B")
    b.join()
    assert a.heartbeat() == 0
    joining = b.join()
    assert (joining.answered, a.heartbeat()) == (False, 27)
    result = a.join().result
    assert (result.generation_id, result.leader) == (2, a.member_id)
    assert [m[2] for m in result.members] == [b"meta-A", b"meta-B"]
    assert joining.result.members == ()
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)


def test_who_is_late_is_out(context: Context) -> None:
    """Dynamic members that miss the rebalance timeout are removed."""
    a, b = context.stable_group("A", "B", session_ms=60_000)
    joining = a.join()
    context.sleep(29_999)
    assert (joining.answered, b.heartbeat()) == (False, 27)
    context.sleep(1)
    assert len(joining.result.members) == 1
    assert b.heartbeat() == 25


def test_longest_timeout_counts(context: Context) -> None:
    """The join phase lasts as long as the longest rebalance timeout in the group."""
    a, _ = context.stable_group("A", "B", rebalance_ms=20_000)
    joining = a.join(rebalance_ms=1_000)
    context.sleep(19_999)
    assert not joining.answered
    context.sleep(1)
    assert joining.answered


def test_leader_that_is_late(context: Context) -> None:
    """If the leader does not rejoin, another member leads."""
    a, b, c = context.stable_group("A", "B", "C", rebalance_ms=2_000)
    second = b.join(protocols=protocols("range", metadata=b"new"))
    third = c.join()
    context.sleep(2_000)
    assert second.result.leader == third.result.leader == b.member_id
    assert len(second.result.members) == 2
    assert a.heartbeat() == 25


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_rebalance_timeouts_of_nothing(context: Context, rebalance_ms: int) -> None:
    """With a timeout of 0 the join succeeds, but the member cannot sync in time."""
    a = context.member("A", rebalance_ms=rebalance_ms)
    assert a.enter().result.error_code == 0
    context.sleep(0)
    assert (a.heartbeat(), context.state()) == (25, "Empty")


def test_pending_members_are_waited_for(context: Context) -> None:
    """A rebalance waits for pending members, old and new."""
    (a,) = context.stable_group("A")
    b, c = context.member("B"), context.member("C")
    b.join()
    joining = a.join()
    c.join()
    b.join()
    assert not joining.answered
    assert c.join().result.generation_id == 2
    assert len(joining.result.members) == 3
    waits = context.event("join_completed")["waits"]
    assert [wait["member_id"] for wait in waits] == [b.member_id, c.member_id]


def test_pending_members_are_not_waited_for_longer(context: Context) -> None:
    """The rebalance timeout ends the wait for pending members; they may still join."""
    (a,) = context.stable_group("A", rebalance_ms=1_500)
    b = context.member("B")
    b.join()
    joining = a.join()
    context.sleep(1_500)
    assert joining.result.generation_id == 2
    assert not b.join().answered
    assert a.join().result.generation_id == 3


def test_pending_members_know_nothing(context: Context) -> None:
    """A pending member is unknown, except to joins and leaves."""
    (a,) = context.stable_group("A")
    b = context.member("B")
    b.join()
    assert b.heartbeat(generation_id=1) == b.heartbeat() == 25
    assert b.sync().result.error_code == 25
    assert b.commit("t", 1, generation_id=1) == 25
    assert len(context.describe().members) == 1
    assert a.heartbeat() == 0


def test_the_first_rebalance_waits_for_no_pending_member(context: Context) -> None:
    """Only time ends initial windows."""
    context.member("B").join()
    a = context.member("A", requires_id=False)
    assert a.join().answered


def test_new_member_while_assignments_are_made(context: Context) -> None:
    """In CompletingRebalance a newcomer makes all members join again."""
    a, b = context.stable_group("A", "B", sync=False)
    syncing = b.sync()
    c = context.member("C")
    c.join()
    assert not syncing.answered
    c.join()
    assert syncing.result.error_code == 27
    assert a.sync().result.error_code == 27
    b.join()
    assert len(a.join().result.members) == 3


def test_metadata_of_the_chosen_protocol(context: Context) -> None:
    """The leader gets the members' metadata for the chosen protocol."""
    offered = [("z", b"z of A"), ("x", b"x of A"), ("y", b"y of A")]
    a = context.member("A", protocols=offered)
    b = context.member("B", protocols=[("y", b"y of B")])
    context.form([a, b], sync=False)
    result = a.join().result
    assert result.protocol_name == "y"
    assert [m[2] for m in result.members] == [b"y of A", b"y of B"]


def test_votes(context: Context) -> None:
    """Each member votes for the first of its protocols that all support."""
    votes = [("x", "y"), ("y", "x"), ("y", "x")]
    context.form(
        [
            context.member(n, protocols=protocols(*v))
            for n, v in zip("ABC", votes, strict=True)
        ]
    )
    assert context.describe().protocol_name == "y"


def test_votes_for_what_not_all_support(context: Context) -> None:
    """A protocol that one member does not support gets no votes."""
    a = context.member("A", protocols=protocols("x", "z"))
    b = context.member("B", protocols=protocols("y", "z"))
    context.form([a, b])
    assert context.describe().protocol_name == "z"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("range", "roundrobin"), "range"),
        (("sticky", "cooperative-sticky"), "sticky"),
        (("roundrobin", "sticky"), "sticky"),
        (("range", "cooperative-sticky"), "range"),
        (("range", "sticky"), "sticky"),
    ],
)
def test_ties(context: Context, names: tuple[str, str], chosen: str) -> None:
    """Kafka always takes the same one of two protocols with equal votes."""
    for group, order in (("g", names), ("h", names[::-1])):
        a = context.member("A", group=group, protocols=protocols(*order))
        b = context.member("B", group=group, protocols=protocols(*order[::-1]))
        context.form([a, b])
        assert context.describe(group).protocol_name == chosen


def test_rows_of_notices(context: Context) -> None:
    """Members, culprits and waits count as rows in readers' buffers."""
    (a,) = context.stable_group("A")
    context.member("B").enter()
    a.join()
    assert context.notice("rebalance_started").weight == 1 + 2 + 1
    assert context.notice("join_completed").weight == 1 + 1 + 2 + 1


def test_nobody_listens(context: Context) -> None:
    """Without listeners there are no notices."""
    context.coordinator.listening = False
    a, b = context.stable_group("A", "B", rebalance_ms=1_000)
    a.join()
    context.sleep(1_000)
    a.leave()
    b.join()
    assert context.notices == []
