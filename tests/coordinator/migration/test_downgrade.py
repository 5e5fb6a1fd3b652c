"""A consumer group becomes a classic one when its last consumers go (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.member import Member
from tests.coordinator.migration.context import Mixed, partitions

from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    CurrentAssignmentRecord,
    GroupRecord,
    PartitionMetadataTombstone,
    TargetAssignmentRecord,
    TargetMemberRecord,
)
from kohort.protocol.errors import ErrorCode

AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def mixed_group(scene: Mixed, **options: Any) -> tuple[Consumer, Member]:
    """A consumer and a classic member, with a partition each."""
    (c,) = scene.settled("C", **options)
    a = scene.classic("A")
    a.enter()
    c.beat()
    c.settle()
    a.join()
    assert partitions(a.sync().result.assignment) == [1]
    return c, a


def test_the_last_consumer_leaves() -> None:
    """The classic members rebalance, with their assignments of before."""
    scene = Mixed()
    c, a = mixed_group(scene)
    assert c.leave().error_code == 0
    assert scene.state() == "PreparingRebalance"
    assert a.heartbeat() == AGAIN
    joined = a.join().result
    assert (joined.generation_id, joined.leader) == (4, a.member_id)
    (row,) = scene.describe().members
    assert partitions(row.assignment) == [1]


def test_records_delete_the_consumer_group_and_describe_the_classic_one() -> None:
    """They are in Kafka's order; the group has the epoch that it had."""
    scene = Mixed()
    c, a = mixed_group(scene)
    before = len(scene.records)
    c.leave()
    records = scene.records[before:]
    order = [c.member_id, a.member_id]  # of Kafka's hash table
    assert [(type(each), getattr(each, "member_id", "")) for each in records] == [
        *((CurrentAssignmentRecord, each) for each in order),
        *((TargetMemberRecord, each) for each in order),
        (TargetAssignmentRecord, ""),
        *((ConsumerMemberRecord, each) for each in order),
        (PartitionMetadataTombstone, ""),
        (ConsumerGroupRecord, ""),
        (GroupRecord, ""),
    ]
    assert all(getattr(each, "value", None) is None for each in records[:-1])
    (record,) = scene.group_records()
    assert (record.generation_id, record.leader) == (3, a.member_id)
    assert (record.protocol_type, record.protocol_name) == ("consumer", "range")
    assert partitions(record.members[0][7]) == [1]


def test_the_last_consumer_expires() -> None:
    """Its session's end makes the group a classic one, too."""
    scene = Mixed(consumer_session_timeout_ms=10_000)
    _, a = mixed_group(scene)
    for _ in range(10):
        assert a.heartbeat() == 0
        scene.sleep(1_000)
    assert scene.state() == "PreparingRebalance"
    assert a.heartbeat() == AGAIN


def test_a_command_removes_the_last_consumer() -> None:
    """The rebalance has the command as its cause."""
    scene = Mixed()
    c, _ = mixed_group(scene)
    assert scene.kick(c.member_id) is None
    assert scene.state() == "PreparingRebalance"
    assert scene.event("rebalance_started")["cause"] == "member_kicked"


def test_the_last_consumer_comes_back_as_a_classic_member() -> None:
    """A static one with an unchanged subscription: nobody rebalances."""
    scene = Mixed()
    c, a = mixed_group(scene, instance="i")
    b = scene.classic("B", instance="i")
    joined = b.join().result
    assert (joined.error_code, joined.generation_id) == (0, 3)
    assert joined.leader == ""
    assert scene.state() == "Stable"
    assert partitions(b.sync().result.assignment) == [0]
    assert a.heartbeat() == b.heartbeat() == 0
    assert scene.describe().protocol_name == "range"
    assert c.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_last_consumer_comes_back_with_other_topics() -> None:
    """Then the classic group rebalances at once; the sender has to join again."""
    scene = Mixed()
    scene.topic("u", 1)
    (c,) = scene.settled("C", instance="i")
    a = scene.classic("A")
    a.enter()
    scene.settle(c)
    a.join()
    a.sync()
    b = scene.consumer_as_classic("B", "t", "u", instance="i")
    assert b.join().result.error_code == 0
    assert scene.state() == "PreparingRebalance"
    assert a.heartbeat() == AGAIN
    assert b.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    a.join()
    assert b.join().result.generation_id == 4


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_the_policy_forbids_it(policy: str) -> None:
    """The group stays a consumer group with classic members alone."""
    scene = Mixed(consumer_migration_policy=policy)
    c, a = mixed_group(scene)
    c.leave()
    assert scene.group.members.keys() == {a.member_id}
    # A leave starts a new epoch, and the next join computes the target.
    assert a.heartbeat() == 0
    assert a.join().result.error_code == 0
    assert partitions(a.sync().result.assignment) == [0, 1]


def test_a_group_above_the_classic_limit_stays() -> None:
    """`group.max.size` holds for the classic group."""
    scene = Mixed(max_size=1)
    c, _ = mixed_group(scene)
    b = scene.classic("B")
    b.enter()
    c.leave()
    assert len(scene.group.members) == 2


def test_a_group_without_other_members_stays_a_consumer_group() -> None:
    """It is Empty, as any group that all consumers have left."""
    scene = Mixed()
    (c,) = scene.settled("C")
    c.leave()
    assert scene.describe_consumers().state == "Empty"


def test_the_log_refuses_the_downgrade() -> None:
    """The consumer group is back, with its members' timers."""
    scene = Mixed(consumer_session_timeout_ms=10_000)
    c, a = mixed_group(scene)
    scene.is_holding = True
    pending = scene.start_leave((c.member_id, None))
    scene.is_holding = False
    scene.refuse()
    assert pending.result.error_code
    assert scene.group.members.keys() == {c.member_id, a.member_id}
    assert c.beat().error_code == 0
    assert a.heartbeat() == 0


def test_the_group_is_loaded_as_a_classic_group() -> None:
    """The log has both groups, one after the other."""
    scene = Mixed()
    c, a = mixed_group(scene)
    c.leave()
    scene.restart()
    assert scene.state() == "Stable"
    assert scene.groups["g"].members.keys() == {a.member_id}


def test_there_and_back() -> None:
    """Offsets stay with the group, and generations go on."""
    scene = Mixed()
    c, a = mixed_group(scene)
    assert a.commit("t", 7) == 0
    c.leave()
    a.join()
    a.sync([(a.member_id, b"")])
    assert c.join().member_epoch == a.generation_id + 1
    ((_, rows),) = scene.fetch([("t", [0])]).topics
    assert rows[0][1] == 7
