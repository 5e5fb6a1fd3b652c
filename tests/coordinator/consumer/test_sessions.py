"""Sessions of members."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene


def test_a_silent_member_expires() -> None:
    """Its partitions are free at once."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    for _ in range(9):
        scene.sleep(5_000)
        b.beat()
    assert [*scene.group.members] == [b.member_id]
    assert scene.event("member_expired")["silent_ns"] == 45 * 10**9
    assert scene.event("rebalance_started")["cause"] == "session_expired"
    b.beat()
    assert b.assigned == {"t": [0, 1]}
    assert a.beat().error_message == "Member m-A is not a member of group g."


def test_only_heartbeats_keep_a_member() -> None:
    """Commits are no signs of life."""
    scene = Scene(consumer_session_timeout_ms=10_000)
    scene.topic()
    a, b = scene.settled("A", "B")
    for _ in range(4):
        scene.sleep(4_000)
        a.beat()
        b.commit("t", 1)
    assert [*scene.group.members] == [a.member_id]


def test_the_session_timeout_of_the_group_counts() -> None:
    """It comes before the broker's."""
    overrides = {"g": {"consumer.session.timeout.ms": 60_000}}
    scene = Scene(overrides=overrides)
    scene.topic()
    scene.settled("A")
    scene.sleep(59_999)
    assert scene.group.members
    scene.sleep(1)
    assert not scene.group.members
