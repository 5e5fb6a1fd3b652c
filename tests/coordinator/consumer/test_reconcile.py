"""Members that move to their target assignment."""

from __future__ import annotations

import pytest
from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.consumer import target


def test_a_member_that_does_not_revoke_is_removed() -> None:
    """Its rebalance timeout is over; the others get its partitions."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("B", "t")
    b.join()
    a.beat()
    scene.sleep(9_999)
    b.beat()
    assert b.assigned == {}
    scene.sleep(1)
    assert scene.event("member_kicked")["cause"] == "did_not_revoke_in_time"
    b.beat()
    assert b.assigned == {"t": [0, 1]}
    assert scene.event("rebalance_started")["cause"] == "revocation_timeout"


def test_a_member_that_revokes_in_time_stays() -> None:
    """Its timer is gone with the last partition that it had to give up."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("B", "t")
    b.join()
    a.beat()
    scene.sleep(5_000)
    a.settle()
    scene.sleep(9_000)
    assert len(scene.group.members) == 2


def test_a_newcomer_that_leaves_again_costs_nothing() -> None:
    """The first member has to give up nothing after all."""
    scene = Scene()
    (a,) = scene.settled(*"A", topic=scene.topic())
    b = scene.consumer("B", "t")
    b.join()
    b.leave()
    a.beat()
    assert (a.epoch, a.assigned) == (4, {"t": [0, 1]})
    assert scene.group.state == "Stable"


def test_the_interval_delays_the_next_target_assignment() -> None:
    """group.consumer.assignment.interval.ms: any heartbeat after it computes one."""
    scene = Scene(consumer_assignment_interval_ms=1_000)
    scene.topic()
    a = scene.consumer("A", "t")
    a.join()
    b = scene.consumer("B", "t")
    b.join()
    described = scene.describe_consumers()
    assert (described.state, described.group_epoch) == ("Assigning", 3)
    assert (described.assignment_epoch, b.epoch, b.assigned) == (2, 2, {})
    scene.sleep(999)
    a.beat()
    assert scene.group.state == "Assigning"
    scene.sleep(1)
    a.beat()
    assert scene.group.state == "Reconciling"
    assert a.assigned == {"t": [0]}


def test_targets_of_a_large_group_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their members, also if the interval is 0."""
    monkeypatch.setattr(target, "FEW", 3)
    monkeypatch.setattr(target, "PAUSE_MS", 250)
    scene = Scene()
    scene.topic("t", 4)
    members = [scene.consumer(name, "t") for name in "ABCD"]
    for each in members:
        each.join()
    assert scene.group.state == "Assigning"
    scene.sleep(999)
    members[0].beat()
    assert scene.group.state == "Assigning"
    scene.sleep(1)
    members[0].beat()
    assert scene.group.state == "Reconciling"


def test_topics_that_a_member_gives_up_go_at_once() -> None:
    """Even before there is a new target assignment."""
    scene = Scene(consumer_assignment_interval_ms=60_000)
    scene.topic()
    scene.topic("u", 1)
    a = scene.consumer("A", "t", "u")
    a.join()
    a.settle()
    a.beat(topics=["t"])
    assert (a.epoch, a.assigned) == (2, {"t": [0, 1]})
    assert scene.group.state == "Assigning"
    assert scene.event("member_reconciled")["revoking"] == [
        {"topic": "u", "partitions": [0]}
    ]
    a.settle()
    assert scene.event("member_reconciled")["revoking"] == []


def test_a_member_without_topics_has_no_partitions() -> None:
    """It stays a member."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    a.beat(topics=[])
    assert a.assigned == {}
    a.settle()
    assert scene.describe_consumers().state == "Stable"
    a.beat(topics=["t"])
    assert a.assigned == {"t": [0, 1]}


def test_steps_and_changes_of_partitions_are_events() -> None:
    """What a member waits for, and who has it."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    b = scene.consumer("B", "t")
    b.join()
    waits = scene.event("member_reconciled")
    assert (waits["member_id"], waits["cause"]) == (
        b.member_id,
        "unreleased_partitions",
    )
    assert waits["awaited"] == [{"topic": "t", "partitions": [1]}]
    assert waits["holders"] == [a.member_id]
    since = len(scene.notices)
    scene.settle(a, b)
    kinds = [
        (each["kind"], each["member_id"], each["cause"]) for each in scene.events(since)
    ]
    assert kinds == [
        ("member_reconciled", a.member_id, "unrevoked_partitions"),
        ("member_reconciled", b.member_id, "unreleased_partitions"),
        ("partitions_changed", a.member_id, "assigned"),
        ("member_reconciled", a.member_id, "stable"),
        ("member_synced", a.member_id, None),
        ("partitions_changed", b.member_id, "assigned"),
        ("member_reconciled", b.member_id, "stable"),
        ("member_synced", b.member_id, None),
        ("group_state", None, None),
    ]
