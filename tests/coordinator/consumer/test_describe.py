"""Describing and listing consumer groups."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene


def test_a_group_is_described_with_its_epochs_and_assignments() -> None:
    """Partitions to be given up are still assigned."""
    scene = Scene()
    topic_id = scene.topics.create("t", 2)
    (a,) = scene.settled("A")
    b = scene.consumer("B", "t", instance="i", rack="r")
    b.join()
    a.beat()
    group = scene.describe_consumers()
    assert (group.error_code, group.state) == (0, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert group.assignor == "uniform"
    by_id = {each.member_id: each for each in group.members}
    first, second = by_id[a.member_id], by_id[b.member_id]
    assert first.member_epoch == 2
    assert first.assignment == [(topic_id, "t", [0, 1])]
    assert first.target_assignment == [(topic_id, "t", [0])]
    assert (first.client_id, first.client_host) == ("A", "/127.0.0.1")
    assert (first.subscribed_topics, first.member_type) == (["t"], 1)
    assert (second.group_instance_id, second.rack_id) == ("i", "r")
    assert (second.assignment, second.member_epoch) == ([], 3)


def test_the_assignor_of_most_members_counts() -> None:
    """It is described at once, and used with the next epoch."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", assignor="range")
    a.join()
    assert scene.describe_consumers().assignor == "range"
    epoch = scene.group.generation_id
    a.beat(assignor="uniform")
    assert scene.describe_consumers().assignor == "uniform"
    assert scene.group.generation_id == epoch
    assert scene.event("assignment_made")["protocol"] == "range"


def test_a_tie_of_assignors_has_two_results() -> None:
    """Kafka describes the first in one hash table, and uses that of a copy."""
    scene = Scene()
    scene.topic()
    a = scene.consumer("A", "t", assignor="uniform")
    b = scene.consumer("B", "t", assignor="range")
    a.join()
    b.join()
    assert scene.describe_consumers().assignor == "uniform"
    assert scene.event("assignment_made")["protocol"] == "range"
    scene.topic("u")
    a.beat(topics=["t", "u"])
    assert scene.describe_consumers().assignor == "uniform"
    assert scene.event("assignment_made")["protocol"] == "uniform"


def test_groups_are_listed_by_type_and_state() -> None:
    """A classic group is no consumer group, and not described as one."""
    scene = Scene()
    scene.topic()
    scene.settled("A")
    scene.stable_group("B", group="classic")
    listed = scene.list_groups(types=["Consumer"]).groups
    assert listed == [("g", "consumer", "Stable", "consumer")]
    listed = scene.list_groups(states=["stable"], types=["classic"]).groups
    assert [each[0] for each in listed] == ["classic"]
    described = scene.describe_consumers("classic")
    assert described.error_message == "Group classic is not a consumer group."
    assert scene.describe("g").state == "Dead"


def test_requests_that_read_see_what_the_log_has() -> None:
    """While records are not written, they see the group before them."""
    scene = Scene()
    scene.topic()
    scene.settled("A")
    before = scene.describe_consumers()
    scene.is_holding = True
    b = scene.consumer("B", "t")
    pending = b.start_join()
    assert scene.describe_consumers() == before
    assert scene.list_groups().groups == [("g", "consumer", "Stable", "consumer")]
    other = scene.consumer("C", "t", group="other")
    other.start_join()
    assert scene.describe_consumers("other").error_message == "Group other not found."
    assert not pending.answered
    scene.is_holding = False
    scene.flush()
    assert pending.answered
    assert scene.describe_consumers().state == "Reconciling"
    assert len(scene.describe_consumers().members) == 2
