"""Members that join and stay."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene

from kohort.protocol.errors import ErrorCode


def test_the_first_member_gets_all_partitions_at_once() -> None:
    """Its join creates the group, and bumps the epoch from 1 to 2."""
    scene = Scene()
    a = scene.consumer("A", scene.topic())
    result = a.join()
    assert (result.error_code, result.member_epoch) == (0, 2)
    assert a.assigned == {"t": [0, 1]}
    assert scene.group.state == "Stable"
    assert a.settle().assignment is None


def test_a_newcomer_waits_for_partitions_that_others_give_up() -> None:
    """Three steps: revoke, release, assign; no partition has two owners."""
    scene = Scene()
    a, b = scene.consumer("A", scene.topic()), scene.consumer("B", "t")
    a.join()
    a.settle()
    b.join()
    assert (b.epoch, b.assigned) == (3, {})
    a.beat()
    assert (a.epoch, a.assigned) == (2, {"t": [0]})
    b.beat()
    assert b.assigned == {}
    a.settle()
    assert (a.epoch, a.assigned) == (3, {"t": [0]})
    b.beat()
    assert b.assigned == {"t": [1]}
    assert scene.group.state == "Stable"


def test_unknown_members_and_groups_are_refused() -> None:
    """In Kafka's words."""
    scene = Scene()
    a = scene.consumer("A", scene.topic())
    refused = a.beat(epoch=3)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == "Consumer group g not found."
    a.join()
    refused = scene.consumer("B").beat(epoch=3)
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.error_message == "Member m-B is not a member of group g."
