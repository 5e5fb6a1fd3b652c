"""Sessions of members."""

from __future__ import annotations

from typing import Any

from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.effects import ConsumerHeartbeatResult
from kohort.broker.coordinator.events import ConsumerHeartbeat
from kohort.protocol.slotted import replace


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


def test_a_heartbeat_on_the_short_way_is_the_same() -> None:
    """It keeps its member alive, and does nothing if it would have to do more."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    hear = scene.coordinator.short_ways[ConsumerHeartbeat]

    def event(**over: Any) -> ConsumerHeartbeat:
        fields = (
            *(object(), "g", a.member_id, a.epoch, None, a.client),
            *(None, -1, None, None, None, None, True),
        )
        return replace(ConsumerHeartbeat(*fields), **over)

    for each in (
        event(member_epoch=a.epoch - 1),
        event(member_id="m-X"),
        event(subscribed_topics=["t"]),
        event(rebalance_timeout_ms=1),
        event(group_instance_id="i"),
        event(client=b.client),
        event(rack_id="r"),
        event(server_assignor="range"),
        event(subscribed_regex="t"),
    ):
        assert hear(each, scene.now) is None
    scene.sleep(30_000)
    b.beat()
    heard = hear(event(owned=a.owns), scene.now)
    assert heard == a.beat()
    hear(event(), scene.now)
    scene.sleep(44_999)
    assert [*scene.group.members] == [a.member_id, b.member_id]
    scene.configure(overrides={"g": {"consumer.heartbeat.interval.ms": 1_234}})  # type: ignore[arg-type]
    heard = hear(event(), scene.now)
    assert isinstance(heard, ConsumerHeartbeatResult)
    assert heard.heartbeat_interval_ms == 1_234
    scene.topic("u")
    assert hear(event(), scene.now) is not None
    scene.grow("t", 3)
    assert hear(event(), scene.now) is None
