"""Static members (KIP-345)."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene

from kohort.protocol.errors import ErrorCode


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """It left with epoch -2; a new member id gets its partitions."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B", instance=None)[:2]
    a.leave()
    scene.settle(b)
    c = scene.consumer("C", "t", instance="i")
    c.join()
    scene.settle(b, c)
    epoch, before = scene.group.generation_id, c.assigned
    assert c.leave(-2).member_epoch == -2
    assert b.beat().error_code == 0
    assert scene.group.generation_id == epoch
    again = scene.consumer("C2", "t", instance="i")
    assert again.join().error_code == 0
    assert (again.assigned, again.epoch) == (before, epoch)
    assert scene.group.generation_id == epoch
    assert scene.describe_consumers().state == "Stable"
    assert scene.event("member_replaced")["replaced_member_id"] == "m-C"


def test_a_dynamic_member_that_becomes_static_has_no_target() -> None:
    """As in Kafka, until the next epoch: its instance id is new to the group."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    b = scene.consumer("B", "t")
    b.join()
    a.join(instance="i")
    assert (a.epoch, a.assigned) == (b.epoch, {})
    a.beat()
    assert a.assigned == {}
    b.leave()
    scene.settle(a)
    assert a.assigned == {"t": [0, 1]}


def test_an_instance_id_in_use_is_not_released() -> None:
    """UNRELEASED_INSTANCE_ID for another process; FENCED_INSTANCE_ID for an old id."""
    scene = Scene()
    a = scene.consumer("A", scene.topic(), instance="i")
    a.join()
    other = scene.consumer("B", "t", instance="i")
    refused = other.join()
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert refused.error_message == (
        "Static member m-B with instance id i cannot join the group because the"
        " instance id is owned by m-A member."
    )
    a.leave(-2)
    other.join()
    refused = a.beat()
    assert refused.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert refused.error_message == (
        "Static member m-A with instance id i was fenced by member m-B."
    )
    refused = a.beat(instance="made-up")
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.error_message == "Instance id made-up is unknown."


def test_a_static_member_that_stays_away_expires() -> None:
    """Then others get its partitions."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", instance="i")
    a.join()
    b = scene.consumer("B", "t")
    b.join()
    scene.settle(a, b)
    a.leave(-2)
    for _ in range(10):
        scene.sleep(5_000)
        b.beat()
    scene.settle(b)
    assert b.assigned == {"t": [0, 1]}


def test_it_comes_back_with_other_topics() -> None:
    """A new subscription starts a new epoch."""
    scene = Scene()
    scene.topic()
    scene.topic("u", 1)
    a = scene.consumer("A", "t", instance="i")
    a.join()
    a.leave(-2)
    again = scene.consumer("A2", "t", "u", instance="i")
    again.join()
    assert (again.epoch, again.assigned) == (3, {"t": [0, 1], "u": [0]})
    assert scene.event("rebalance_started")["cause"] == "static_member_replaced"


def test_it_comes_back_under_its_old_id() -> None:
    """The same member id, from epoch 0."""
    scene = Scene()
    a = scene.consumer("A", scene.topic(), instance="i")
    a.join()
    a.leave(-2)
    assert a.join().error_code == 0
    assert (a.epoch, a.assigned) == (2, {"t": [0, 1]})
    assert a.join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_refused_return_changes_nothing() -> None:
    """Its pattern is invalid: the old member is still away."""
    scene = Scene()
    a = scene.consumer("A", scene.topic(), instance="i")
    a.join()
    a.leave(-2)
    again = scene.consumer("A2", "t", instance="i", regex="(")
    assert again.join().error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert scene.group.static_members == {"i": "m-A"}
    scene.sleep(60_000)
    assert not scene.group.members


def test_a_member_that_is_away_need_not_revoke() -> None:
    """Partitions that it had to give up are free; only its session ends."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", instance="i", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("B", "t")
    b.join()
    a.beat()
    a.leave(-2)
    b.beat()
    assert b.assigned == {"t": [1]}
    scene.sleep(44_000)
    assert "m-A" in scene.group.members
    scene.sleep(1_000)
    assert "m-A" not in scene.group.members
