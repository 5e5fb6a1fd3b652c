"""Consumer groups and their log: loads, moves, and refused records."""

from __future__ import annotations

import random

import pytest
from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    CurrentAssignmentRecord,
    GroupTombstone,
    TargetAssignmentRecord,
)
from kohort.protocol.errors import ErrorCode
from kohort.simulation.checking.coordinators import Invariants


def test_a_group_comes_back_with_its_members() -> None:
    """Each goes on with its epoch; sessions start anew."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    scene.sleep(40_000)
    scene.restart()
    scene.sleep(40_000)
    assert (a.beat().error_code, b.beat().error_code) == (0, 0)
    assert scene.group.state == "Stable"
    assert scene.event("group_loaded")["protocol"] == "uniform"


def test_a_revocation_is_timed_after_a_move() -> None:
    """The rebalance timeout starts anew."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("B", "t")
    b.join()
    a.beat()
    scene.sleep(9_000)
    scene.move()
    scene.sleep(9_000)
    assert len(scene.group.members) == 2
    scene.sleep(1_000)
    assert [*scene.group.members] == [b.member_id]


def test_records_may_come_in_any_order() -> None:
    """The latest record of each key counts; compaction leaves them as they are."""
    scene = Scene()
    scene.topic()
    scene.settled("A", "B")
    log = {(type(r), getattr(r, "member_id", "")): r for r in scene.records}
    records = [*log.values()]
    expected = {*map(repr, scene.group.records())}
    owners = scene.group.owners
    for seed in range(20):
        random.Random(seed).shuffle(records)
        scene.records[:] = records
        scene.invariants = Invariants()
        scene.restart()
        assert {*map(repr, scene.group.records())} == expected
        assert scene.group.state == "Stable"
        assert scene.group.owners == owners


def test_a_log_without_a_member_s_subscription_can_be_read() -> None:
    """The member cannot go on, and its session ends."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    kept = (ConsumerGroupRecord, CurrentAssignmentRecord, TargetAssignmentRecord)
    scene.records = [r for r in scene.records if isinstance(r, kept)]
    scene.invariants = Invariants()
    scene.restart()
    assert [*scene.group.members] == [a.member_id]
    scene.sleep(45_000)
    assert not scene.group.members


def test_a_refused_join_leaves_no_group() -> None:
    """The log refused its records: they were too large."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t")
    scene.is_holding = True
    pending = a.start_join()
    scene.refuse()
    assert pending.result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not scene.coordinator.groups
    assert not [key for key in scene.timers if key[0] == "session"]


@pytest.mark.parametrize("refused", ["join", "step", "leave"])
def test_a_refused_change_is_undone(refused: str) -> None:
    """The group is as before, with its timers; then the members try again."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("B", "t")
    if refused != "join":
        b.join()
    before = [*map(repr, scene.group.records())]
    scene.is_holding = True
    if refused == "join":
        pending = b.start_join()
    elif refused == "step":
        pending = a.start_beat(is_lost=True)
    else:
        pending = b.start_beat(epoch=-1, is_lost=True)
    assert [*map(repr, scene.group.records())] != before
    scene.refuse()
    assert pending.result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(map(repr, scene.group.records())) == sorted(before)
    scene.is_holding = False
    scene.sleep(10_000)
    if refused == "join":
        b.join()
    scene.settle(a, b)
    assert (a.assigned, b.assigned) == ({"t": [0]}, {"t": [1]})
    scene.sleep(45_000)
    assert not scene.group.members, "their sessions run"


def test_a_target_that_the_log_refuses_is_not_computed_again() -> None:
    """Each heartbeat that needs it fails, as in Kafka; the log is asked every 10 s."""
    scene = Scene()
    scene.topic("t", 200)
    (a,) = scene.settled("A")
    scene.largest = 1_000
    scene.grow("t", 400)
    before = [*map(repr, scene.group.records())]
    for _ in range(20):
        beat = a.beat()
        assert beat.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert beat.error_message is None
        scene.sleep(500)
    assert scene.kinds().count("append_failed") == 1
    assert [*map(repr, scene.group.records())] == before
    assert a.beat().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.kinds().count("append_failed") == 2
    scene.largest = 10_000
    scene.sleep(10_000)
    scene.settle(a)
    assert a.assigned == {"t": [*range(400)]}


def test_a_member_whose_records_are_too_large_harms_no_other() -> None:
    """Its join is not computed again; others join, and have other targets."""
    scene = Scene()
    scene.topic("t", 100)
    a, b, c = scene.settled("A", "B", "C")
    scene.largest = 1_500
    d = scene.consumer("D", *(f"unknown-topic-{each}" for each in range(100)))
    for _ in range(3):
        assert d.join().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.kinds().count("append_failed") == 1
    assert a.beat().error_code == b.beat().error_code == 0, "nothing is due"
    e = scene.consumer("E", "t")
    assert e.join().error_code == 0
    scene.settle(a, b, c, e)
    c.leave()
    scene.settle(a, b, e)
    assert sorted(len(each.assigned["t"]) for each in (a, b, e)) == [33, 33, 34]


def test_another_epoch_may_have_a_smaller_target() -> None:
    """A member leaves, and the next heartbeat computes the target of the others."""
    scene = Scene()
    scene.topic("t", 100)
    scene.topic("u", 10)
    a, b = scene.consumer("A", "t"), scene.consumer("B", "u")
    a.join()
    b.join()
    scene.settle(a, b)
    scene.largest = 1_500
    scene.grow("t", 1_000)
    for _ in range(2):
        for each in (a, b):
            assert each.beat().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.kinds().count("append_failed") == 1
    a.leave()
    assert b.settle().error_code == 0
    assert scene.group.state == "Stable"


def test_a_step_that_the_log_refuses_is_not_taken_again() -> None:
    """Records of steps are larger than those of targets. Other members go on."""
    scene = Scene()
    scene.topic("t", 200)
    scene.topic("u", 2)
    a, b = scene.consumer("A", "t"), scene.consumer("B", "u")
    a.join()
    b.join()
    scene.settle(a, b)
    scene.grow("t", 400)
    scene.largest = 2_500
    assert b.settle().error_code == 0, "it computes the target"
    refused = ErrorCode.UNKNOWN_SERVER_ERROR
    assert [a.beat().error_code for _ in range(3)] == [refused] * 3
    assert b.settle().error_code == 0
    assert scene.kinds().count("append_failed") == 1


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    """The first member of the other protocol replaces it; offsets stay."""
    scene = Scene()
    scene.topic()
    (old,) = scene.stable_group("C")
    old.commit("t", 7)
    old.leave()
    a = scene.consumer("A", "t")
    a.join()
    assert (a.epoch, scene.committed("t")) == (2, 7)
    assert scene.tombstones() == ["g"]
    scene.restart()
    assert (a.beat().error_code, scene.committed("t")) == (0, 7)


def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    """Likewise."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    a.commit("t", 7)
    a.leave()
    scene.stable_group("C")
    assert scene.state() == "Stable"
    assert scene.committed("t") == 7
    assert a.beat().error_message == "Group g is not a consumer group."
    scene.restart()
    assert (scene.state(), scene.committed("t")) == ("Stable", 7)


def test_a_refused_change_of_the_protocol_is_undone() -> None:
    """The group is what it was, with its offsets."""
    scene = Scene()
    scene.topic()
    scene.commit([("t", 0, 7, -1, None)])
    before = scene.coordinator.groups["g"]
    a = scene.consumer("A", "t")
    scene.is_holding = True
    a.start_join()
    assert scene.committed("t") == 7
    scene.refuse()
    scene.is_holding = False
    assert scene.coordinator.groups == {"g": before}
    assert scene.committed("t") == 7
    a.join()
    scene.commit([("t", 0, 8, -1, None)], generation_id=2, member_id=a.member_id)
    assert scene.committed("t") == 8
    assert not [r for r in scene.records if isinstance(r, GroupTombstone)][1:]
