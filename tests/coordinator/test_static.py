"""Static membership (KIP-345, KIP-814)."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.coordinator.member import assign, protocols, subscribed


@pytest.mark.parametrize("metadata", [b"meta-B", b"other"])
@pytest.mark.parametrize("skips", [False, True])
def test_follower_returns(context: Context, metadata: bytes, *, skips: bool) -> None:
    """A new id in the same generation, with any metadata; the old id is fenced."""
    a, b = context.stable_group("A", "B", static=True)
    back = context.member("B2", instance="i-B", skips=skips)
    result = back.join(protocols=protocols("range", metadata=metadata)).result
    assert (result.error_code, result.generation_id) == (0, 2)
    assert (result.leader, result.members) == (a.member_id, ())
    assert not result.skip_assignment
    assert (a.heartbeat(), b.heartbeat(), back.heartbeat()) == (0, 82, 0)
    assert back.sync().result.assignment == b"assigned-B"


def test_what_describe_shows_of_a_replacement(context: Context) -> None:
    """DescribeGroups: the new id and metadata, the old client id and assignment."""
    context.stable_group("A", "B", static=True)
    back = context.member("B2", instance="i-B")
    back.join()
    (shown,) = (m for m in context.describe().members if m.client_id == "B")
    assert (shown.member_id, shown.client_id) == (back.member_id, "B")
    assert (shown.metadata, shown.assignment) == (b"meta-B2", b"assigned-B")


def test_leader_returns_and_skips(context: Context) -> None:
    """A leader that understands skip_assignment need not assign (KIP-814)."""
    context.stable_group("A", static=True)
    back = context.member("A2", instance="i-A")
    result = back.join().result
    assert (result.leader, result.skip_assignment) == (back.member_id, True)
    assert result.members == [(back.member_id, "i-A", b"meta-A2")]
    again = back.join(protocols=protocols("range", metadata=b"other")).result
    assert (again.generation_id, again.skip_assignment) == (2, False)


def test_leader_returns_and_cannot_skip(context: Context) -> None:
    """An older client is told that its old id leads, so that it does not assign."""
    (a,) = context.stable_group("A", static=True)
    back = context.member("A2", instance="i-A", skips=False)
    result = back.join().result
    assert (result.leader, result.members) == (a.member_id, ())
    assert (back.heartbeat(), back.sync().result.assignment) == (0, b"assigned-A")
    again = back.join(protocols=protocols("range", metadata=b"other")).result
    assert (again.generation_id, again.leader) == (2, back.member_id)


def test_known_id_rejoins(context: Context) -> None:
    """With their member ids, static members are treated like all others."""
    a, b = context.stable_group("A", "B", static=True)
    assert b.join().result.generation_id == 2
    assert not a.join().answered
    assert b.join().result.generation_id == 3


def test_fencing(context: Context) -> None:
    """The old id is fenced together with the instance id, and unknown without it."""
    _, b = context.stable_group("A", "B", static=True)
    context.member("B2", instance="i-B").join()
    assert (b.heartbeat(), b.heartbeat(instance=None)) == (82, 25)
    assert b.sync().result.error_code == 82
    assert b.sync(instance=None).result.error_code == 25
    joined = b.join().result
    assert (joined.error_code, joined.member_id) == (82, b.member_id)
    assert b.join(instance=None).result.error_code == 25
    assert (b.commit("t", 1), b.commit("t", 1, instance=None)) == (82, 25)
    assert (b.leave(), b.leave(instance=None)) == (82, 25)


def test_other_peoples_instance_ids(context: Context) -> None:
    """An unknown instance id is an unknown member; another member's is fenced."""
    a = context.member("A")
    b = context.member("B", instance="i-B")
    context.form([a, b])
    assert a.heartbeat(instance="i-A") == 25
    assert a.heartbeat(instance="i-B") == 82
    assert b.heartbeat(instance=None) == 0
    assert b.heartbeat(instance="i-other") == 25
    assert b.sync(instance=None).result.assignment == b"assigned-B"
    assert b.join(instance="i-other").result.error_code == 25
    stranger = context.member("C")
    assert stranger.join(member_id="made-up", instance="i-B").result.error_code == 82
    assert stranger.join(member_id="made-up", instance="i-C").result.error_code == 25


def test_replaced_while_syncing(context: Context) -> None:
    """In CompletingRebalance the waiting sync is fenced, and all join again."""
    a, b = context.stable_group("A", "B", static=True, sync=False)
    syncing = b.sync()
    back = context.member("B2", instance="i-B")
    joining = back.join()
    assert syncing.result.error_code == 82
    assert (joining.answered, a.heartbeat()) == (False, 27)
    assert len(a.join().result.members) == 2
    assert joining.result.generation_id == 3


def test_replaced_while_joining(context: Context) -> None:
    """In PreparingRebalance the waiting join is fenced; the new one waits."""
    a, b = context.stable_group("A", "B", static=True)
    waiting = b.join(protocols=protocols("range", metadata=b"new"))
    back = context.member("B2", instance="i-B")
    joining = back.join()
    fenced = waiting.result
    assert (fenced.error_code, fenced.member_id) == (82, b.member_id)
    assert len(a.join().result.members) == 2
    assert joining.result.generation_id == 3


def test_replacement_without_common_protocol(context: Context) -> None:
    """A replacement with incompatible protocols is refused; the old member stays."""
    a, b = context.stable_group("A", "B", static=True)
    back = context.member("B2", instance="i-B")
    assert back.join(protocols=protocols("other")).result.error_code == 23
    assert (a.heartbeat(), b.heartbeat()) == (0, 0)


def test_replaced_before_it_synced(context: Context) -> None:
    """A member replaced before it fetched its assignment causes a late rebalance.

    As in Kafka, the old id still counts as one that has to sync.
    """
    a, b = context.stable_group("A", "B", static=True, sync=False, rebalance_ms=3_000)
    a.sync(assign(a, b))
    back = context.member("B2", instance="i-B", rebalance_ms=3_000)
    back.join()
    assert back.sync().result.assignment == b"assigned-B"
    context.sleep(2_999)
    assert context.state() == "Stable"
    context.sleep(1)
    assert context.state() == "PreparingRebalance"
    assert len(context.describe().members) == 2


def test_a_replaced_id_is_no_culprit(context: Context) -> None:
    """Members that did not sync in time are the culprits; a replaced id is not."""
    a, b, c = context.stable_group(
        "A", "B", "C", static=True, sync=False, rebalance_ms=3_000
    )
    a.sync(assign(a, b, c))
    back = context.member("B2", instance="i-B", rebalance_ms=3_000)
    back.join()
    back.sync()
    context.sleep(3_000)
    started = context.event("rebalance_started")
    assert (started["cause"], started["culprits"]) == ("sync_timeout", [c.member_id])
    assert started["member_id"] == c.member_id


def test_leaves_and_returns(context: Context) -> None:
    """After a LeaveGroup the instance id is free, and its next join is a newcomer's."""
    a, b = context.stable_group("A", "B", static=True)
    b.leave()
    assert a.heartbeat() == 27
    a.join()
    b.member_id = ""
    joining = b.join()
    assert not joining.answered
    a.join()
    assert joining.result.generation_id == 4


def test_late_static_members_stay(context: Context) -> None:
    """A static member that misses a rebalance is in the next generation."""
    a, b = context.stable_group("A", "B", static=True, rebalance_ms=2_000)
    joining = a.join()
    context.sleep(2_000)
    assert len(joining.result.members) == 2
    assert b.heartbeat(generation_id=3) == 0


def test_nobody_but_late_static_members(context: Context) -> None:
    """A join phase without any join starts again, until sessions end."""
    _, b, c = context.stable_group(
        "A", "B", "C", static=True, session_ms=10_000, rebalance_ms=2_000
    )
    context.leave(("", "i-A"))
    context.sleep(5_000)
    assert (context.state(), b.heartbeat(), c.heartbeat()) == (
        "PreparingRebalance",
        27,
        27,
    )
    context.sleep(10_000)
    assert context.state() == "Empty"


def test_static_members_without_patience(context: Context) -> None:
    """Rebalance timeouts of 0 do not make an empty join phase spin."""
    context.stable_group("A", "B", static=True)
    back = context.member("A2", instance="i-A", rebalance_ms=0)
    back.join()
    context.member("B2", instance="i-B", rebalance_ms=0).join()
    back.leave()
    context.sleep(29_000)
    assert (context.state(), len(context.describe().members)) == (
        "PreparingRebalance",
        1,
    )
    context.sleep(1_000)
    assert context.state() == "Empty"


def test_topics_of_a_replacement(context: Context) -> None:
    """The group keeps the subscriptions that it had when the generation began."""
    a = context.member("A", instance="i-A", protocols=subscribed("x"))
    context.form([a])
    context.member("A2", instance="i-A", protocols=subscribed("y")).join()
    result = context.delete_offsets(("x", [0]), ("y", [0]))
    assert [row[1][0][1] for row in result.topics] == [86, 0]
