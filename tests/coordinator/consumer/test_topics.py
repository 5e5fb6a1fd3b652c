"""Topics that change, and patterns of topics."""

from __future__ import annotations

import pytest
from tests.coordinator.consumer.context import Scene

from kohort.broker.coordinator.consumer import regex
from kohort.broker.coordinator.effects import RegularExpressionRecord
from kohort.protocol.errors import ErrorCode


def test_new_partitions_start_a_new_epoch() -> None:
    """With the next heartbeat."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    scene.grow("t", 3)
    a.beat()
    assert (a.epoch, a.assigned) == (3, {"t": [0, 1, 2]})
    assert scene.event("rebalance_started")["cause"] == "topics_changed"


def test_a_topic_created_later_is_assigned() -> None:
    """Members may subscribe to topics that do not exist yet."""
    scene = Scene()
    a = scene.consumer("A", scene.topic(), "later")
    a.join()
    scene.topic("later", 1)
    a.beat()
    assert (a.epoch, a.assigned) == (3, {"t": [0, 1], "later": [0]})


def test_a_deleted_topic_disappears() -> None:
    """Its partitions have to be given up, too."""
    scene = Scene()
    scene.topic("u", 1)
    a = scene.consumer("A", scene.topic(), "u")
    a.join()
    a.settle()
    scene.drop("u")
    a.beat()
    a.settle()
    assert (a.epoch, a.assigned) == (3, {"t": [0, 1]})
    assert scene.group.state == "Stable"


def test_other_topics_do_not_matter() -> None:
    """Nobody subscribes to them."""
    scene = Scene()
    scene.topic()
    (a,) = scene.settled("A")
    scene.topic("other")
    a.beat()
    assert a.epoch == 2


def test_a_pattern_is_resolved_after_the_heartbeat() -> None:
    """The next one gets the partitions."""
    scene = Scene()
    scene.topic("tick", 1)
    scene.topic("tock", 1)
    a = scene.consumer("A", regex="t.ck")
    a.join(topics=None)
    assert (a.epoch, a.assigned) == (1, {})
    a.beat()
    assert (a.epoch, a.assigned) == (2, {"tick": [0], "tock": [0]})
    assert scene.group.is_subscribed_to("tick")
    assert scene.describe_consumers().members[0].subscribed_regex == "t.ck"


def test_a_pattern_has_to_match_whole_names() -> None:
    """As in Java's `matches`."""
    scene = Scene()
    scene.topic("tick", 1)
    a = scene.consumer("A", regex="tic")
    a.join(topics=None)
    a.beat()
    assert a.assigned == {}


def test_an_invalid_pattern_is_refused() -> None:
    """No group is created for it."""
    scene = Scene()
    a = scene.consumer("A", regex="[")
    refused = a.join(topics=None)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == (
        "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ]."
    )
    assert not scene.coordinator.groups
    scene.topic()
    (b,) = scene.settled("B")
    records = len(scene.records)
    assert a.join(topics=None).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (len(scene.records), [*scene.group.members]) == (records, [b.member_id])


@pytest.mark.parametrize("is_created", [False, True])
def test_patterns_are_resolved_again(is_created: bool) -> None:
    """If topics were created, 10 s after the last time; else by the interval."""
    scene = Scene()
    scene.topic("tick", 1)
    a = scene.consumer("A", regex="t.ck")
    a.join(topics=None)
    a.beat()
    if is_created:
        scene.topic("tock", 1)
        scene.sleep(10_000)
        a.beat()
        assert len(a.assigned) == 1
        scene.sleep(1)
    else:
        scene.topics.create("tock", 1)
        for _ in range(15):
            scene.sleep(40_000)
            a.beat()
        assert len(a.assigned) == 1
        scene.sleep(1)
    a.beat()
    a.beat()
    assert a.assigned == {"tick": [0], "tock": [0]}


def test_a_pattern_that_no_member_has_is_forgotten() -> None:
    """Its members changed it, or left."""
    scene = Scene()
    scene.topic("tick", 1)
    a = scene.consumer("A", regex="t.ck")
    b = scene.consumer("B", regex="t.ck")
    a.join(topics=None)
    b.join(topics=None)
    scene.settle(a, b)
    a.beat(regex="")
    assert "t.ck" in scene.group.patterns
    b.leave()
    assert not scene.group.patterns
    record = next(
        r for r in reversed(scene.records) if isinstance(r, RegularExpressionRecord)
    )
    assert record.value is None


def test_a_pattern_in_place_of_another_waits_for_the_next_heartbeat() -> None:
    """As in Kafka, which compares the numbers of patterns before and after."""
    scene = Scene()
    scene.topic("tick", 1)
    scene.topic("tock", 1)
    a = scene.consumer("A", regex="tick")
    b = scene.consumer("B", regex="tock")
    a.join(topics=None)
    scene.sleep(1_000)
    b.join(topics=None)
    scene.sleep(9_001)
    a.beat(regex="tock")
    assert not scene.group.patterns
    b.beat()
    assert scene.group.patterns.keys() == {"tock"}


def test_a_member_may_have_names_and_a_pattern() -> None:
    """It gets the topics of both."""
    scene = Scene()
    scene.topic("tick", 1)
    scene.topic("other", 1)
    a = scene.consumer("A", "other", regex="t.ck")
    a.join()
    assert a.assigned == {"other": [0]}
    a.beat()
    assert a.assigned == {"other": [0], "tick": [0]}
    a.beat(topics=[])
    assert a.assigned == {"tick": [0]}
    a.settle()
    a.beat(regex="")
    assert a.assigned == {}


def test_a_topic_that_two_patterns_match_belongs_to_both() -> None:
    """A pattern has a new topic, which the group had by another pattern."""
    scene = Scene()
    scene.topic("tick", 1)
    a = scene.consumer("A", regex="t.ck")
    b = scene.consumer("B", regex="tick|tock|none")
    a.join(topics=None)
    scene.topics.create("tock", 1)
    scene.sleep(10_001)
    b.join(topics=None)
    scene.settle(a, b)
    assert sorted([*a.assigned, *b.assigned]) == ["tick", "tock"]
    assert scene.group.patterns["t.ck"].topics == {"tick", "tock"}


def test_patterns_are_resolved_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pattern that was given up meanwhile has no topics; the others have theirs."""
    scene = Scene()
    for number in range(5):
        scene.topic(f"t{number}", 1)
    monkeypatch.setattr(regex, "PIECE", 1)
    a = scene.consumer("A", regex="t[01]")
    b = scene.consumer("B", regex="t[23]")
    a.join()
    b.join()
    assert not scene.group.patterns
    b.leave()
    scene.sleep(100)
    assert {each: p.topics for each, p in scene.group.patterns.items()} == {
        "t[01]": {"t0", "t1"}
    }
    a.beat()
    assert a.assigned == {"t0": [0], "t1": [0]}


def test_patterns_that_match_too_much_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a heartbeat after 10 s: topics may have been deleted."""
    scene = Scene()
    scene.topic("t1", 1)
    scene.topic("t2", 1)
    monkeypatch.setattr(regex, "MOST_BYTES", 5)
    a = scene.consumer("A", regex="t.")
    a.join()
    assert (scene.group.state, scene.group.patterns) == ("Stable", {})
    scene.drop("t2")
    scene.sleep(9_999)
    a.beat()
    assert not scene.group.patterns
    scene.sleep(1)
    a.beat()
    assert scene.group.patterns["t."].topics == {"t1"}


def test_patterns_that_the_log_refuses_are_not_matched_again() -> None:
    """The log is asked every 10 s; members go on with the topics that they have."""
    scene = Scene()
    scene.topic("t1", 1)
    a = scene.consumer("A", regex="t.*")
    a.join()
    scene.settle(a)
    scene.largest = 300
    for number in range(40):
        scene.topic(f"tick-{number}", 1)
    scene.sleep(10_001)
    for _ in range(20):
        assert a.beat().error_code == 0
        scene.sleep(1_000)
    assert scene.kinds().count("append_failed") == 2
    scene.largest = 3_000
    scene.settle(a)
    assert len(a.assigned) == 41
