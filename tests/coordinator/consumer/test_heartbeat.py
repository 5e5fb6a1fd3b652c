"""Members that join and stay."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.consumer.validation import MOST_TOPICS
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


def test_an_epoch_of_another_time_is_fenced() -> None:
    """A greater one, or a smaller one that is not the previous one."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    refused = a.beat(epoch=a.epoch + 1)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert refused.error_message == (
        "The consumer group member has a greater member epoch (4) than the one known by"
        " the group coordinator (3). The member must abandon all its partitions and"
        " rejoin."
    )
    assert b.beat(epoch=1).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_response_does_no_harm() -> None:
    """The previous epoch is valid with partitions that the member may own."""
    scene = Scene()
    scene.topic()
    a, b = scene.settled("A", "B")
    b.leave()
    a.start_beat(is_lost=True)
    assert scene.group.members[a.member_id].epoch == a.epoch + 1
    assert a.beat().error_code == ErrorCode.FENCED_MEMBER_EPOCH, "owns who knows what"
    result = a.settle()
    assert (result.error_code, result.member_epoch) == (0, 4)
    # The partitions are lost with the response until a full heartbeat.
    assert a.assigned == {"t": [0]}
    a.beat(topics=a.topics, rebalance_ms=30_000, owned=a.owns)
    assert a.assigned == {"t": [0, 1]}


def test_a_fenced_member_joins_again_and_has_its_partitions() -> None:
    """Without a new epoch: nothing has changed."""
    scene = Scene()
    scene.topic()
    a, _ = scene.settled("A", "B")
    before = scene.group.generation_id, a.assigned
    result = a.join()
    assert result.error_code == 0
    assert (scene.group.generation_id, a.assigned) == before


def test_the_first_heartbeat_needs_its_fields() -> None:
    """In Kafka's words."""
    scene = Scene()
    a = scene.consumer("A", scene.topic())
    invalid: list[tuple[dict[str, object], str]] = [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance": " "}, "InstanceId can't be empty."),
        ({"rack": ""}, "RackId can't be empty."),
        (
            {"rebalance_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": [(b"", [0])]}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topics": None},
            (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
                " when (re-)joining."
            ),
        ),
        (
            {"topics": [f"t-{number}" for number in range(MOST_TOPICS + 1)]},
            "SubscribedTopicNames has more than 10000 topics.",
        ),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": -(2**31)}, "MemberEpoch is invalid."),
        ({"epoch": -2}, "InstanceId can't be null."),
    ]
    for over, message in invalid:
        refused = a.join(**over)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert refused.error_message == message
    refused = a.join(assignor="made-up")
    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.error_message == (
        "ServerAssignor made-up is not supported. Supported assignors: uniform, range."
    )
    assert not scene.coordinator.groups


def test_version_0_gets_its_id_from_the_coordinator() -> None:
    """The first heartbeat has no member id."""
    scene = Scene()
    a = scene.consumer("A", scene.topic())
    result = a.join(member_id="", is_id_required=False)
    assert result.member_id == "A-1"
    assert a.settle().error_code == 0


def test_a_member_leaves() -> None:
    """The group epoch goes on, also when the group was empty."""
    scene = Scene()
    a = scene.consumer("A", scene.topic())
    a.join()
    result = a.leave()
    assert (result.error_code, result.member_epoch) == (0, -1)
    assert (scene.group.state, scene.group.generation_id) == ("Empty", 3)
    a.join()
    assert a.epoch == 4


def test_a_full_group_refuses_newcomers() -> None:
    """Members may join again."""
    scene = Scene(consumer_max_size=1)
    a, b = scene.consumer("A", scene.topic()), scene.consumer("B", "t")
    a.join()
    refused = b.join()
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == (
        "The consumer group has reached its maximum capacity of 1 members."
    )
    assert a.join().error_code == 0


def test_the_heartbeat_interval_of_the_group_counts() -> None:
    """A group's own configuration comes before the broker's."""
    overrides = {"g": {"consumer.heartbeat.interval.ms": 7_000}}
    scene = Scene(overrides=overrides)
    scene.topic()
    assert scene.consumer("A", "t").join().heartbeat_interval_ms == 7_000
    other = scene.consumer("B", "t", group="other")
    assert other.join().heartbeat_interval_ms == 5_000
