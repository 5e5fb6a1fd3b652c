"""Rebalances of consumer groups in plain words (KIP-848)."""

from __future__ import annotations

from tests.coordinator.consumer.context import Scene
from tests.events.build import accounted, recorded

from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.fold import Folding
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.rules import find


def words(scene: Scene) -> list[str]:
    """The sentences about all rebalances."""
    events = accounted(recorded(scene))
    return [e["words"] for e in events if e["kind"] == "rebalance_account"]


def test_members_follow_the_target_one_by_one() -> None:
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
        "Generation 3: B joined; no wait was necessary; the coordinator computed the"
        " target assignment (uniform); all members followed within 4.5 s;"
        " 2 of the partitions moved; at least 2 stayed with their owner, without a"
        " pause; 2 partitions had no reader for up to 1.0 s (last owner A), 2.0"
        " partition-seconds in total."
    )


def test_a_heartbeat_computes_the_target() -> None:
    """A member left, and nobody else sent a heartbeat for a while."""
    scene = Scene()
    scene.topic("t", 2)
    a, b = scene.settled("A", "B")
    a.leave()
    scene.sleep(2_000)
    b.beat()
    assert words(scene)[-1] == (
        "Generation 4: A left, no reason given; waited 2.0 s for a heartbeat; the"
        " coordinator computed the target assignment (uniform); 1 of the partitions"
        " moved; at least 1 stayed with their owner, without a pause; 1 partition had"
        " no reader for up to 2.0 s (last owner A), 2.0 partition-seconds in total."
    )


def test_a_held_group_waits_for_the_test() -> None:
    """In Assigning."""
    scene = Scene()
    scene.topic("t", 2)
    a, b = scene.settled("A", "B")
    scene.hold("Assigning")
    a.leave()
    b.beat()
    scene.sleep(3_000)
    scene.release()
    b.beat()
    assert words(scene)[-1].startswith(
        "Generation 4: A left, no reason given; a test held the group in Assigning for"
        " 3.0 s; the coordinator computed the target assignment (uniform);"
    )


def findings(scene: Scene) -> dict[str, Finding]:
    """The findings about the group, by code."""
    folding = Folding()
    for event in recorded(scene):
        folding.take(event)
    facts = folding.facts("g")
    found = find(facts, Names(facts.members, facts.lives))
    return {each.code: each for each in found}


def test_a_start_needs_no_initial_delay() -> None:
    """Each member that joins starts a rebalance, which stops nobody."""
    scene = Scene(consumer_assignment_interval_ms=1_000)
    scene.topic("t", 8)
    consumers = [scene.consumer(f"c{number}", "t") for number in range(8)]
    for each in consumers:
        each.join()
        scene.sleep(300)
    for _ in range(10):
        for each in consumers:
            scene.sleep(100)
            each.settle()
    assert "many-initial-rebalances" not in findings(scene)


def test_the_session_timeout_is_a_setting_of_the_broker() -> None:
    """Members crash, and their partitions wait for the end of their sessions."""
    scene = Scene()
    scene.topic("t", 8)
    consumers = scene.settled(*"ABCD")
    for _ in range(10):
        scene.sleep(5_000)
        consumers[0].settle()
    setting = findings(scene)["crashed"].setting
    assert setting is not None
    assert setting.name == "group.consumer.session.timeout.ms"
