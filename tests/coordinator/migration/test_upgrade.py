"""A consumer's heartbeat makes a classic group a consumer group (KIP-848)."""

from __future__ import annotations

import pytest
from tests.coordinator.member import dealt, subscribed
from tests.coordinator.migration.context import Mixed, partitions

from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    CurrentAssignmentRecord,
    GroupTombstone,
    TargetAssignmentRecord,
    TargetMemberRecord,
)
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions, encode
from kohort.protocol.errors import ErrorCode


def test_members_keep_their_assignments() -> None:
    """Then the group has a new epoch, in which the consumer waits for partitions."""
    scene = Mixed(3)
    a, b = scene.classic_group({"A": [0, 1], "B": [2]})
    c = scene.consumer("C", "t")
    joined = c.join()
    assert (joined.error_code, joined.member_epoch, joined.assignment) == (0, 3, [])
    group = scene.describe_consumers()
    assert (group.state, group.group_epoch) == ("Reconciling", 3)
    assigned = {each.member_id: each.assignment for each in group.members}
    assert assigned[a.member_id][0][1:] == ("t", [0, 1])
    assert assigned[b.member_id][0][1:] == ("t", [2])
    types = {each.member_id: each.member_type for each in group.members}
    assert types == {a.member_id: 0, b.member_id: 0, c.member_id: 1}


def test_records_delete_the_classic_group_and_describe_the_new_one() -> None:
    """They are in Kafka's order, and followed by those of the heartbeat."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]})
    before = len(scene.records)
    c = scene.consumer("C", "t")
    c.join()
    records = scene.records[before:]
    assert [(type(each), getattr(each, "member_id", "")) for each in records] == [
        (GroupTombstone, ""),
        (ConsumerMemberRecord, a.member_id),
        (ConsumerGroupRecord, ""),
        (TargetMemberRecord, a.member_id),
        (TargetAssignmentRecord, ""),
        (CurrentAssignmentRecord, a.member_id),
        (ConsumerMemberRecord, c.member_id),
        (ConsumerGroupRecord, ""),
        # The order of a HashMap.
        *((TargetMemberRecord, each) for each in (c.member_id, a.member_id)),
        (TargetAssignmentRecord, ""),
        (CurrentAssignmentRecord, c.member_id),
    ]


def test_all_members_leave_and_the_consumer_has_everything() -> None:
    """Each LeaveGroup starts a new epoch."""
    scene = Mixed(3)
    a, b = scene.classic_group({"A": [0, 1], "B": [2]})
    c = scene.consumer("C", "t")
    c.join()
    assert a.heartbeat() == b.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert a.leave() == b.leave() == 0
    scene.settle(c)
    assert c.assigned == {"t": [0, 1, 2]}
    assert scene.group.generation_id == 5


def test_waiting_joins_are_answered_rebalance_in_progress() -> None:
    """Their members join the consumer group then."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]})
    b = scene.classic("B")
    waiting = b.enter()
    c = scene.consumer("C", "t")
    assert c.join().member_epoch == 2
    assert waiting.result.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join().result.error_code == 0


def test_waiting_syncs_are_answered_rebalance_in_progress() -> None:
    """The generation has no assignments, so its members keep none."""
    scene = Mixed()
    a, b = members = [scene.classic(name) for name in "AB"]
    scene.form(members, sync=False)
    waiting = b.sync()
    scene.consumer("C", "t").join()
    assert waiting.result.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert a.sync().result.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.group.members.keys() >= {a.member_id, b.member_id}


def test_a_static_member_comes_back_as_a_consumer() -> None:
    """It has its partitions at once; the other member notices nothing."""
    scene = Mixed()
    a, b = scene.classic_group({"A": [0], "B": [1]}, static=True)
    c = scene.consumer("C", "t", instance="i-A")
    assert c.join().member_epoch == a.generation_id
    assert c.assigned == {"t": [0]}
    replaced = scene.event("member_replaced")
    assert (replaced["replaced_member_id"], replaced["silent_ns"]) == (a.member_id, 0)
    assert a.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert b.heartbeat() == 0
    assert scene.describe_consumers().state == "Stable"


def test_a_classic_member_comes_back_as_a_consumer_with_its_id() -> None:
    """It is no classic member any more, and has the timeout of the consumers."""
    scene = Mixed(consumer_session_timeout_ms=45_000)
    (a,) = scene.classic_group({"A": [0, 1]}, session_ms=6_000)
    c = scene.consumer("A", "t")
    c.member_id = a.member_id
    c.join()
    assert scene.group.classic_members == 0
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    scene.sleep(44_000)
    assert a.member_id in scene.group.members


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_forbids_it(policy: str) -> None:
    """The group goes on; once it is empty, anybody may join."""
    scene = Mixed(consumer_migration_policy=policy)
    (a,) = scene.classic_group({"A": [0, 1]})
    c = scene.consumer("C", "t")
    refused = c.join()
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        "Cannot upgrade classic group g to consumer group because online upgrade is"
        " disabled."
    )
    assert a.heartbeat() == 0
    assert a.leave() == 0
    assert c.join().error_code == 0


def test_other_protocol_types_are_refused() -> None:
    """A group of Connect workers stays what it is."""
    scene = Mixed()
    (a,) = scene.stable_group("A", protocol_type="connect")
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (refused.error_message or "").endswith(
        "because the group does not use the consumer embedded protocol."
    )
    assert a.heartbeat() == 0


def test_a_group_above_the_limit_is_refused() -> None:
    """`group.consumer.max.size` holds for the members of the classic group."""
    scene = Mixed(consumer_max_size=1)
    scene.classic_group({"A": [0], "B": [1]})
    refused = scene.consumer("C", "t").join()
    assert (refused.error_message or "").endswith(
        "because the group size exceeds the consumer group maximum size."
    )


def test_a_full_group_is_not_upgraded() -> None:
    """Its members fit, and the consumer does not."""
    scene = Mixed(consumer_max_size=1)
    (a,) = scene.classic_group({"A": [0, 1]})
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.heartbeat() == 0
    assert scene.state() == "Stable"


@pytest.mark.parametrize(
    ("assignment", "code", "why"),
    [
        (b"opaque bytes", ErrorCode.UNKNOWN_SERVER_ERROR, None),
        (b"\x00", ErrorCode.GROUP_ID_NOT_FOUND, "is malformed."),
        (
            encode(Assignment([TopicPartitions("t", [0])], b"mine")),
            ErrorCode.GROUP_ID_NOT_FOUND,
            "before re-attempting the upgrade.",
        ),
    ],
)
def test_assignments_that_cannot_be_taken_over(
    assignment: bytes, code: int, why: str | None
) -> None:
    """Bytes that are no assignment, or that have user data of an assignor."""
    scene = Mixed()
    (a,) = scene.stable_group("A", sync=False, protocols=subscribed("t"))
    a.sync([(a.member_id, assignment)])
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == code
    if why is None:
        assert refused.error_message is None
    else:
        assert (refused.error_message or "").endswith(why)
    assert a.heartbeat() == 0


NONE = encode(Subscription())


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (b"", ErrorCode.GROUP_ID_NOT_FOUND),
        (b"\xff\xff" + NONE[2:], ErrorCode.GROUP_ID_NOT_FOUND),
        (NONE[:2], ErrorCode.GROUP_ID_NOT_FOUND),
        # Some clients write a version, and not all of its fields.
        (NONE[:10], ErrorCode.GROUP_ID_NOT_FOUND),
        (b"opaque bytes", ErrorCode.UNKNOWN_SERVER_ERROR),
        (NONE[:2] + b"\xff\xff\xff\xff", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_subscription_that_cannot_be_read(metadata: bytes, code: int) -> None:
    """Kafka expects bytes that end too early. The classic group goes on."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]}, protocols=[("range", metadata)])
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == code
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        assert refused.error_message == (
            "Cannot upgrade classic group g to consumer group because the embedded"
            " consumer protocol is malformed."
        )
    else:
        assert refused.error_message is None
    assert a.heartbeat() == 0
    assert scene.state() == "Stable"


def test_a_protocol_without_a_version_gets_assignments_of_version_0() -> None:
    """The classic group used another one, so it is read by SyncGroup first."""
    scene = Mixed()
    known = subscribed("t", protocol="roundrobin")
    a = scene.classic("A", protocols=[("range", b""), *known])
    b = scene.classic("B", protocols=known, instance="i")
    scene.form([a, b], sync=False)
    b.sync()
    a.sync([(a.member_id, dealt(0)), (b.member_id, dealt(1))])
    c = scene.consumer("C", "t", instance="i")
    c.join()
    assert a.sync().result.assignment == dealt(0)
    c.leave()
    (member,) = scene.describe().members
    assert member.assignment == dealt(0)


def test_a_partition_of_two_members_forbids_it() -> None:
    """Kafka does not expect that; another assignment of the leader is needed."""
    scene = Mixed(3)
    a, b = scene.classic_group({"A": [0, 1], "B": [1, 2]})
    c = scene.consumer("C", "t")
    assert c.join().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.describe("g").state == "Stable"
    assert a.heartbeat() == b.heartbeat() == 0


def test_a_group_without_a_generation_cannot_be_upgraded() -> None:
    """Its members wait in an initial window; they are told to join again."""
    scene = Mixed(initial_rebalance_delay_ms=3_000)
    a = scene.classic("A")
    waiting = a.enter()
    refused = scene.consumer("C", "t").join()
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.result.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = a.join()
    scene.sleep(3_000)
    assert again.result.error_code == 0


def test_the_log_refuses_the_upgrade() -> None:
    """The classic group is back, with its members' sessions."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]}, session_ms=10_000)
    scene.is_holding = True
    pending = scene.consumer("C", "t").start_join()
    scene.is_holding = False
    scene.refuse()
    assert pending.result.error_code
    assert scene.state() == "Stable"
    assert a.heartbeat() == 0
    scene.sleep(10_000)
    assert scene.state() == "Empty"


def test_an_upgrade_that_is_too_large_is_not_made_again() -> None:
    """As in Kafka: all its records have to fit into one batch, and each join fails.

    The classic group goes on. A member that leaves may make it small enough.
    """
    scene = Mixed(20)
    shares = {f"M{each}": [each] for each in range(20)}
    members = scene.classic_group(shares)
    scene.largest = 3_000
    c = scene.consumer("C", "t")
    for _ in range(4):
        assert c.join().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert {each.heartbeat() for each in members} == {0}
        scene.sleep(3_000)
    assert scene.kinds().count("append_failed") == 1
    assert c.join().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.kinds().count("append_failed") == 2
    failed = scene.event("append_failed")
    assert failed["size_bytes"] > failed["max_bytes"] == 3_000
    assert scene.event("member_refused")["cause"] == "too_large"
    for each in members[1:]:
        each.leave()
    members[0].join()
    scene.sleep(0)
    members[0].sync([(members[0].member_id, dealt(*range(20)))])
    assert c.join().error_code == 0


def test_the_group_is_loaded_as_a_consumer_group() -> None:
    """The log has both groups, one after the other."""
    scene = Mixed()
    (a,) = scene.classic_group({"A": [0, 1]})
    c = scene.consumer("C", "t")
    c.join()
    scene.restart()
    assert a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    assert partitions(a.sync().result.assignment) == [0]
