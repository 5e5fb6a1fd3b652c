"""Static membership (KIP-345, KIP-814)."""

from __future__ import annotations

from tests.coordinator.context import Context
from tests.coordinator.member import assign


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


def test_a_replacement_waits_from_its_own_answer_on(context: Context) -> None:
    """The event of its sync has the time since its join was answered."""
    context.stable_group("A", "B", static=True)
    context.sleep(1_000)
    back = context.member("B2", instance="i-B")
    back.join()
    context.sleep(500)
    back.sync()
    synced = context.event("member_synced")
    assert (synced["member_id"], synced["waited_ns"]) == (back.member_id, 500_000_000)
