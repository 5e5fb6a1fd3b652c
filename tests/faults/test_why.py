"""Strikes as events, and as causes of later rebalances."""

from __future__ import annotations

from tests.events.checks import check
from tests.faults.scene import BEAT, Peer, Scene
from tests.wire.requests import commit_offsets, join_group, sync_group

from kohort.control.why import History, history
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest


def why(scene: Scene) -> History:
    """The history of the group."""
    return history(scene.events.recent("g"), "g")


async def joined(peer: Peer) -> HeartbeatRequest:
    """Joins, gets an assignment; its next heartbeats."""
    offered = await peer.join()
    assigned = {offered.member_id: b""}
    sync = sync_group(offered.member_id, offered.generation_id, assignments=assigned)
    await peer.call("SyncGroup", 3, sync)
    return HeartbeatRequest("g", offered.generation_id, offered.member_id)


async def test_the_event() -> None:
    """The event has all fields of its kind, and names the sender of the request."""
    scene = Scene()
    peer = scene.peer("billing-1")
    beat = await joined(peer)
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR", name="lost")
    scene.faults.jitter(1, 5)
    peer.send("Heartbeat", 4, beat)
    await scene.after(1)
    jitter, error = (e for e in scene.events.recent() if e["kind"] == "fault_struck")
    for event in (jitter, error):
        check(event)
        assert event["group"] == "g"
        assert event["member_id"] == beat.member_id
        assert event["client_id"] == "billing-1"
    assert (error["fault"], error["fault_id"], error["cause"]) == ("lost", 1, "error")
    assert (error["api"], error["error"]) == ("Heartbeat", "NOT_COORDINATOR")
    assert (jitter["fault"], jitter["cause"]) == ("fault 2", "jitter")
    assert jitter["api"] is None


async def test_a_client_that_looks_like_others() -> None:
    """The member that was struck is unknown; the group is known."""
    scene = Scene()
    for _ in range(2):
        peer = scene.peer("billing")
        offered = await peer.call("JoinGroup", 9, join_group("g"))
        peer.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.after(60)
    scene.faults.black_hole(client_id="billing")
    scene.peer("billing").send("Heartbeat", 4, BEAT)
    *_, event = scene.events.recent()
    assert event["kind"] == "fault_struck"
    assert event["member_id"] is None


async def test_a_session_that_expired_in_a_black_hole() -> None:
    """The rebalance names the fault; the findings do, too."""
    scene = Scene()
    ana = scene.peer("ana")
    beat = await joined(ana)
    scene.faults.black_hole(client_id="ana", name="hole")
    for _ in range(10):
        await scene.after(1)
        ana.send("Heartbeat", 4, beat)
    found = why(scene)
    assert found.last.cause == "session_expired"
    assert "before that, fault 'hole' cut ana off" in found.explain(found.last)
    (first, *_) = found.findings
    assert first.code == "faults-struck"
    scene.faults.clear()
    await scene.settled()
    await ana.join()
    again = why(scene)
    assert again.last.cause == "member_joined"
    assert "fault" not in again.explain(again.last)
    assert [each.text for each in first.evidence] == ["fault 'hole' cut ana off"]


async def test_commits_that_were_refused() -> None:
    """Equal strikes are one piece of evidence, with their number."""
    scene = Scene()
    peer = scene.peer("billing-1")
    beat = await joined(peer)
    scene.faults.fail(
        "OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2, name="commit-loading"
    )
    for _ in range(3):
        commit = commit_offsets(
            "t", (0, 1, -1, ""), generation=1, member_id=beat.member_id
        )
        await peer.call("OffsetCommit", 8, commit)
    (first, *_) = why(scene).findings
    assert first.title == "1 fault rule struck members of this group 2 times"
    (evidence,) = first.evidence
    assert evidence.text == (
        "fault 'commit-loading' answered 2 OffsetCommit requests of billing-1 with"
        " COORDINATOR_LOAD_IN_PROGRESS"
    )


async def test_a_join_that_was_delayed() -> None:
    """A fault during the rebalance is mentioned, too."""
    scene = Scene()
    peer = scene.peer("ana")
    scene.faults.delay("SyncGroup", seconds=2)
    offered = await peer.join()
    rows = {offered.member_id: b""}
    peer.send("SyncGroup", 3, sync_group(offered.member_id, 1, assignments=rows))
    await scene.after(3)
    text = why(scene).text()
    assert "meanwhile fault 1 delayed the answers to 1 SyncGroup request of ana" in text
