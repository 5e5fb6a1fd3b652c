"""Findings about consumer groups (KIP-848), and advice in their settings."""

from __future__ import annotations

import pytest
from tests.coordinator.consumer.context import Scene
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.migration.context import Mixed
from tests.events.build import accounted, recorded

from kohort.control.why import Finding, history


@pytest.fixture
def scene() -> Scene:
    """A coordinator, and the topic t of two partitions."""
    made = Scene()
    made.topic()
    return made


def findings(scene: Scene) -> dict[str, Finding]:
    """The findings of the scene, by code."""
    return {each.code: each for each in history(recorded(scene), "g").findings}


def recounted(scene: Scene) -> list[str]:
    """The rebalances of the scene, in words."""
    found = history(recorded(scene), "g")
    return [*map(found.explain, found.rebalances)]


def waits(scene: Scene, seconds: int, *consumers: Consumer) -> None:
    """Time passes, with a heartbeat of these members each second."""
    for _ in range(seconds):
        scene.sleep(1_000)
        for each in consumers:
            each.beat()


def test_a_group_that_moves_to_the_other_protocol_and_back() -> None:
    """The explanation of the rebalance says so, and the summary if there is none."""
    scene = Mixed(2)
    scene.classic_group({"ana": [0], "ben": [1]}, static=True)
    c = scene.consumer("cleo", "t")
    c.join()
    c.leave()
    rebalances = recounted(scene)
    assert rebalances[-2].startswith(
        "Generation 3: cleo joined; the group moved to the consumer protocol (online"
        " upgrade by cleo); "
    )
    assert rebalances[-1].startswith(
        "After generation 3: cleo left, no reason given; the group moved to the classic"
        " protocol (online downgrade by cleo); "
    )


def test_a_group_that_moves_without_a_rebalance() -> None:
    """A static member has come back by the other protocol."""
    scene = Mixed(2)
    scene.classic_group({"ana": [0], "ben": [1]}, static=True)
    scene.consumer("cleo", "t", instance="i-ben").join()
    summary = history(recorded(scene), "g").summary()
    assert summary.endswith(
        "; the group moved to the consumer protocol (online upgrade by i-ben) without a"
        " rebalance"
    )


@pytest.mark.parametrize("session_ms", [10_000, 45_000])
def test_a_session_timeout_that_has_no_effect_any_more(session_ms: int) -> None:
    """The client's setting, unless it is also the group's."""
    scene = Mixed(2)
    members = {"ana": [0], "ben": [1]}
    scene.classic_group(members, static=True, session_ms=session_ms)
    scene.consumer("ben again", "t", instance="i-ben").join()
    found = findings(scene).get("session-without-effect")
    if session_ms == 45_000:
        assert found is None
        return
    assert found is not None
    assert found.setting is not None
    assert str(found.setting) == (
        "group.consumer.session.timeout.ms: 10000 (it was 45000)"
    )
    (evidence,) = found.evidence
    assert evidence.text == (
        "i-ben joined by the consumer protocol: a session of 45000 ms; it had 10000 ms"
        " in the classic one"
    )


@pytest.mark.parametrize("times", [1, 2])
def test_a_member_that_left_as_its_application_did_not_poll(
    scene: Scene, times: int
) -> None:
    """Its heartbeats went on until then; it rejoins with its next poll."""
    a = scene.consumer("ana", "t", rebalance_ms=10_000)
    b = scene.consumer("ben", "t", rebalance_ms=10_000)
    a.join()
    b.join()
    scene.settle(a, b)
    for _ in range(times):
        waits(scene, 20, a, b)
        a.leave()
        waits(scene, 5, b)
        a.join()
        scene.settle(a, b)
    found = findings(scene)["max-poll-interval"]
    assert not found.is_sure
    assert len(found.evidence) == times
    assert found.evidence[0].text == (
        "ana left, no reason given, and it rejoined 5.0 s later under the same member"
        " id; it did not process its 1 partition for 10.0 s before it left"
    )
    assert "crash-loop" not in findings(scene)


@pytest.mark.parametrize("how", ["quick", "other topics", "other process"])
def test_a_member_that_left_for_another_reason(scene: Scene, how: str) -> None:
    """It cannot have missed a poll, or did something else."""
    scene.topic("u")
    a = scene.consumer("ana", "t", rebalance_ms=60_000)
    a.join()
    scene.settle(a)
    waits(scene, 20 if how == "quick" else 70, a)
    a.leave()
    scene.sleep(5_000)
    if how == "other topics":
        a.topics = ["u"]
    if how == "other process":
        a = scene.consumer("ana again", "t", rebalance_ms=60_000)
    a.join()
    scene.settle(a)
    assert "max-poll-interval" not in findings(scene)


def test_an_expired_member_that_is_back_was_alive(scene: Scene) -> None:
    """A new process would have a new member id (KIP-1082)."""
    a = scene.consumer("ana", "t")
    a.join()
    scene.settle(a)
    scene.sleep(50_000)
    a.join()
    found = findings(scene)
    (evidence,) = found["session-too-short"].evidence
    assert "it rejoined 5.0 s later under the same member id" in evidence.text


def test_a_member_that_keeps_its_partitions(scene: Scene) -> None:
    """It says that it owns them, until the broker removes it."""
    a = scene.consumer("ana", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("ben", "t")
    b.join()
    waits(scene, 4, a, b)
    assert "keeps-partitions" not in findings(scene)
    waits(scene, 5, a, b)
    a.settle()
    b.settle()
    found = findings(scene)["keeps-partitions"]
    (evidence,) = found.evidence
    assert evidence.text == "Generation 3: ana took 8.0 s for 1 partition"
    assert found.cost.unread_ns == 8 * 10**9


def test_a_removed_member_kept_them_to_the_end(scene: Scene) -> None:
    """The sentence says so, too."""
    a = scene.consumer("ana", "t", rebalance_ms=10_000)
    a.join()
    a.settle()
    b = scene.consumer("ben", "t")
    b.join()
    a.beat()
    for _ in range(11):
        scene.sleep(1_000)
        b.beat()
    told = history(recorded(scene), "g")
    assert "ana had 10.0 s to give up 1 partition, and did not" in told.text()
    assert {each.code for each in told.findings} >= {"keeps-partitions"}


def test_an_assignor_that_the_broker_does_not_have(scene: Scene) -> None:
    """The client's assignors do not matter any more."""
    scene.settled("ana")
    scene.consumer("ben", "t", assignor="cooperative-sticky").join()
    found = findings(scene)["unknown-assignor"]
    (evidence,) = found.evidence
    assert evidence.text == "ben was refused: UNSUPPORTED_ASSIGNOR"


def test_a_pattern_that_matches_nothing(scene: Scene) -> None:
    """Unless a topic of that kind comes."""
    a = scene.consumer("ana", regex="orders-.*")
    a.join()
    a.settle()
    found = findings(scene)["nothing-subscribed"]
    assert found.title == "ana subscribed to no topic that exists"


def test_a_consumer_group_has_no_initial_delay(scene: Scene) -> None:
    """Members that start one by one are no reason to set it."""
    members: list[Consumer] = []
    for name in ("ana", "ben", "cleo", "dora"):
        members.append(scene.consumer(name, "t"))
        members[-1].join()
        scene.sleep(1_000)
        scene.settle(*members)
    assert "many-initial-rebalances" not in findings(scene)


def test_advice_is_in_the_settings_of_consumer_groups(scene: Scene) -> None:
    """The session timeout is the broker's, or the group's."""
    a, b = scene.settled("ana", "ben")
    for _ in range(8):
        scene.sleep(10_000)
        b.settle()
    assert a.beat().error_code
    a.join()
    scene.settle(a, b)
    texts = [each.advice for each in history(recorded(scene), "g").findings]
    assert any("group.consumer.session.timeout.ms" in each for each in texts)
    assert not any(" session.timeout.ms" in each for each in texts)


def words(scene: Scene) -> list[str]:
    """The sentences about all rebalances."""
    events = accounted(recorded(scene))
    return [e["words"] for e in events if e["kind"] == "rebalance_account"]


def test_members_reach_the_target_one_by_one() -> None:
    """A newcomer waits for the partitions that another member gives up."""
    scene = Scene()
    scene.topic("t", 4)
    (a,) = scene.settled("A")
    scene.sleep(2_000)
    b = scene.consumer("B", "t")
    b.join()
    scene.sleep(3_000)
    a.beat()
    scene.sleep(500)
    a.settle()
    scene.sleep(1_000)
    b.beat()
    assert words(scene)[1] == (
        "Generation 3: B joined; the coordinator computed the assignment (uniform);"
        " A gave up 2 partitions within 0.50 s; B waited 4.5 s for 2 partitions of A;"
        " all members had their partitions after 4.5 s; 2 of 4 partitions moved;"
        " 2 stayed with their owner, without a pause; 2 partitions had no reader for"
        " up to 1.5 s (last owner A), 3.0 partition-seconds in total."
    )


def test_a_held_group_waits_for_the_test() -> None:
    """In Assigning; a target assignment also waits for the next heartbeat."""
    scene = Scene()
    scene.topic("t", 2)
    a, b = scene.settled("A", "B")
    scene.hold("Assigning")
    a.leave()
    b.beat()
    scene.sleep(3_000)
    scene.release()
    scene.sleep(1_000)
    b.beat()
    assert words(scene)[-1].startswith(
        "Generation 4: A left, no reason given; a test held the group in Assigning for"
        " 3.0 s; the coordinator computed the assignment after 4.0 s (uniform);"
    )
