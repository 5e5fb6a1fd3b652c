"""Groups of real members and a real coordinator, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.worlds import ALL, Scene, owned

from kohort.simulation.world.pod import Application, PodState
from kohort.simulation.world.randomness import constant

SETTINGS = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("protocol", SETTINGS)
def test_members_share_the_partitions_and_read_them(protocol: str) -> None:
    """And what one of them gives up, the others read on, from its commit."""
    scene = Scene(rate=10)
    pods = scene.pods("a", "b", "c", **SETTINGS[protocol])
    assert owned(*pods) == ALL
    pods[0].stop()
    scene.run(20)
    assert pods[0].state is PodState.STOPPED
    assert owned(*pods[1:]) == ALL
    arrived = 6 * 10 * scene.world.elapsed
    handled = sum(pod.handled for pod in pods)
    assert arrived - 70 <= handled <= arrived + 6, "up to a second of them is under way"
    scene.world.close()
    (*_, delivery) = scene.events("delivery_account")
    assert "again" not in delivery["words"]
    assert "skipped" not in delivery["words"]


@pytest.mark.parametrize("protocol", SETTINGS)
def test_a_crashed_member_is_missed_after_its_session(protocol: str) -> None:
    """Then another member gets the records that it had not committed."""
    scene = Scene(rate=10)
    pods = scene.pods("a", "b", **SETTINGS[protocol])
    scene.run(2.5)  # into the middle of the commit interval
    pods[0].crash()
    scene.run(40)
    assert owned(pods[1]) != ALL
    assert not scene.events("member_expired")
    scene.run(20)
    assert owned(pods[1]) == ALL
    (expired,) = scene.events("member_expired")
    assert expired["client_id"] == "a"
    assert not expired["is_connected"]
    scene.world.close()
    accounts = scene.events("delivery_account")
    assert sum(each["again_possible"] for each in accounts) > 0
    assert not sum(each["skipped"] for each in accounts)


def test_partition_seconds_are_those_of_the_accounts() -> None:
    """Three partitions without a reader for a session of 10 s, and the rebalance."""
    scene = Scene()
    pods = scene.pods("a", "b", session_timeout_ms=10_000)
    pods[0].crash()
    scene.run(30)
    scene.world.close()
    account = scene.events("rebalance_account")[-1]
    assert account["cause"] == "session_expired"
    unread_s = account["unread_ns"] / 1e9
    assert 3 * 7 < unread_s < 3 * 10 + 6 * 3.1, "b hears of it by a heartbeat"


def test_a_pause_outlasts_the_session() -> None:
    """The process is alive, but silent; it joins again when it goes on."""
    scene = Scene()
    pods = scene.pods("a", "b", session_timeout_ms=10_000)
    pods[0].pause(25)
    scene.run(20)
    assert [e["client_id"] for e in scene.events("member_expired")] == ["a"]
    assert owned(pods[1]) == ALL
    scene.run(30)
    assert all(pod.is_settled for pod in pods)
    assert owned(*pods) == ALL


def test_a_stalled_application_leaves_the_group() -> None:
    """After max.poll.interval.ms; heartbeats went on. It comes back with its poll."""
    scene = Scene()
    pods = scene.pods("a", "b", max_poll_interval_ms=20_000)
    pods[0].stall(60)
    scene.run(30)
    (left,) = scene.events("member_left")
    assert left["client_id"] == "a"
    assert "max.poll.interval.ms" in left["reason"]
    assert owned(pods[1]) == ALL
    scene.run(60)
    assert owned(*pods) == ALL


def test_stalled_static_members_come_back_with_their_ids() -> None:
    """In the consumer protocol; partitions move meanwhile, and nothing is lost."""
    scene = Scene(rate=0.2)
    settings: dict[str, Any] = {
        "group_protocol": "consumer",
        "max_poll_interval_ms": 14_000,
    }
    pods = []
    for name, seconds in (("a", 7), ("b", 4), ("c", 1)):
        pods.append(scene.pod(name, group_instance_id=name, **settings))
        scene.run(seconds)
    for pod in pods:
        pod.stall(15)
    scene.run(60)
    replaced = scene.events("member_replaced")
    assert replaced
    assert all(each["member_id"] == each["replaced_member_id"] for each in replaced)
    assert owned(*pods) == ALL
    scene.world.close()
    for account in scene.events("delivery_account"):
        assert not account["again_certain"] + account["skipped"]


def test_a_static_member_keeps_its_place() -> None:
    """It restarts within its session: no rebalance."""
    scene = Scene()
    first = scene.pod("a-1", group_instance_id="a")
    scene.pod("b-1", group_instance_id="b")
    scene.run(15)
    before = len(scene.events("rebalance_started"))
    place = first.owned
    first.stop()
    scene.run(5)
    again = scene.pod("a-2", group_instance_id="a")
    scene.run(15)
    assert again.owned == place
    assert len(scene.events("rebalance_started")) == before


def test_a_topic_grows() -> None:
    """Members find out with their metadata, and share the new partitions."""
    scene = Scene()
    pods = scene.pods("a", "b", metadata_max_age_ms=10_000)
    scene.world.brokers.grow_topic("t", 8)
    scene.run(30)
    assert owned(*pods) == [("t", index) for index in range(8)]
    assert scene.cause() == "leader_rejoined"


def test_a_full_group_refuses_members() -> None:
    """KIP-389: the consumer fails, in the numbering of kohort's clients."""
    scene = Scene(config={"group.max.size": 2})
    scene.pods("a", "b")
    third = scene.pod("c")
    scene.run(10)
    assert third.state is PodState.FAILED
    assert "full" in str(third.failure)
    assert [e["cause"] for e in scene.events("member_refused")] == ["full"]


@pytest.mark.parametrize("protocol", SETTINGS)
def test_a_coordinator_fails_over_and_loads_the_group(protocol: str) -> None:
    """Another node reads the log; the members find it, and keep their partitions."""
    scene = Scene(nodes=3)
    pods = scene.pods("a", "b", "c", **SETTINGS[protocol])
    cluster = scene.world.brokers.cluster
    before = {pod: pod.owned for pod in pods}
    node_id = cluster.shards.for_id("g").node_id
    scene.world.brokers.crash(node_id)
    scene.run(20)
    assert cluster.shards.for_id("g").node_id not in {node_id, -1}
    assert scene.events("group_loaded")[-1]["node"] != node_id
    assert {pod: pod.owned for pod in pods} == before
    assert not scene.events("member_expired")
    scene.world.brokers.start(node_id)
    scene.run(5)
    assert all(pod.is_settled for pod in pods)


def test_a_loss_of_power_takes_what_was_not_flushed() -> None:
    """The only node forgets a member that joined after the last flush, and commits."""
    scene = Scene(rate=10, config={"log.flush.interval.ms": 20_000})
    pods = scene.pods("a", "b")
    scene.run(11)  # 41 s: two flushes
    late = scene.pod("c")
    scene.run(9)
    assert late.is_settled
    committed = scene.events("offsets_committed")[-1]["offsets"][0]["offset"]
    scene.world.brokers.crash(1, is_power_lost=True)
    scene.run(1)
    scene.world.brokers.start(1)
    loaded = scene.events("group_loaded")[-1]
    names = sorted(member.partition("-")[0] for member in loaded["members"])
    assert names == ["a", "b"]
    scene.run(20)
    assert owned(*pods, late) == ALL
    scene.world.close()
    again = sum(
        each["again_certain"] + each["again_possible"]
        for each in scene.events("delivery_account")
    )
    assert again or committed < 10, "the new owners begin at older commits"


def test_a_crash_takes_nothing() -> None:
    """The system still has what the process wrote."""
    scene = Scene(config={"log.flush.interval.ms": 20_000})
    scene.pods("a", "b")
    scene.run(5)
    scene.pod("c")
    scene.run(9)
    scene.world.brokers.crash(1)
    scene.run(1)
    scene.world.brokers.start(1)
    assert len(scene.events("group_loaded")[-1]["members"]) == 3


def test_a_cut_off_member_loses_its_place_and_finds_back() -> None:
    """Its traffic is held back for longer than its session."""
    scene = Scene()
    pods = scene.pods("a", "b", session_timeout_ms=10_000, request_timeout_ms=5_000)
    scene.world.network.cut("a", "node-1")
    scene.run(25)
    assert owned(pods[1]) == ALL
    assert not pods[0].owned, "it knows that its session is over"
    scene.world.network.heal("a", "node-1")
    scene.run(40)
    assert owned(*pods) == ALL


def test_commits_of_the_application() -> None:
    """Synchronous and asynchronous ones, after each poll."""
    for mode in ("sync", "async"):
        scene = Scene(rate=5)
        application = Application(constant(0.01), mode)
        pod = scene.pod("a", application)
        scene.run(20)
        commits = scene.events("offsets_committed")
        assert len(commits) > 50, "one for each poll"
        assert not pod.commits_failed
        pod.crash()
        scene.world.close()
        assert scene.events("delivery_account")[-1]["uncommitted"] <= 6


def test_closing_publishes_the_last_accounts() -> None:
    """A world that ends in the middle of things has them, too."""
    scene = Scene(rate=1)
    pods = scene.pods("a", "b", session_timeout_ms=10_000)
    pods[0].crash()
    scene.run(2)
    scene.world.close()
    (unread,) = scene.events("unread_account")
    assert unread["unread_ns"] > 0
