"""A heartbeat like the one before is not decoded again, and answered all the same."""

from __future__ import annotations

import pytest
from tests.faults.scene import Peer, Scene
from tests.wire.requests import join_group, sync_group

from kohort.broker import connection as connections
from kohort.broker.api_counts import ApiCounters
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
async def scene() -> Scene:
    """One node, without an initial delay."""
    return Scene()


async def member_of(peer: Peer) -> str:
    """The id of the only member of a stable group."""
    joined = await peer.join()
    synced = sync_group(joined.member_id, assignments={joined.member_id: b""})
    assert not (await peer.call("SyncGroup", 5, synced)).error_code
    return str(joined.member_id)


async def beat(peer: Peer, member_id: str, generation: int = 1) -> int:
    """Sends a heartbeat; returns the error code."""
    request = HeartbeatRequest("g", generation, member_id)
    code: int = (await peer.call("Heartbeat", 4, request)).error_code
    return code


async def test_repeated_heartbeats_are_not_decoded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They use the first one's `Request`; each gets its own correlation id."""
    peer = scene.peer()
    member_id = await member_of(peer)
    assert await beat(peer, member_id) == 0
    before = len(peer.whole)
    with monkeypatch.context() as patched:
        patched.delattr(connections, "Request")
        for _ in range(3):
            assert await beat(peer, member_id) == 0
    assert peer.numbers == [*range(1, before + 4)]


async def test_repeated_heartbeats_of_consumer_groups_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is answered; the one after another member's join has an assignment."""
    scene = Scene(group_consumer_assignment_interval_ms=0)
    peer, other = scene.peer(), scene.peer()

    async def beat(who: Peer, member_id: str, epoch: int) -> tuple[int, int | None]:
        """Returns the epoch and the number of partitions, None for no assignment."""
        request = ConsumerGroupHeartbeatRequest(
            "g",
            member_id,
            epoch,
            rebalance_timeout_ms=-1 if epoch else 1_000,
            subscribed_topic_names=None if epoch else ["t"],
            topic_partitions=None if epoch else [],
        )
        answer = await who.call("ConsumerGroupHeartbeat", 1, request)
        assert not answer.error_code
        if answer.assignment is None:
            return answer.member_epoch, None
        (row,) = answer.assignment.topic_partitions
        return answer.member_epoch, len(row.partitions)

    epoch, count = await beat(peer, "a", 0)
    assert count == 2
    assert await beat(peer, "a", epoch) == (epoch, None)
    with monkeypatch.context() as patched:
        patched.delattr(connections, "Request")
        assert await beat(peer, "a", epoch) == (epoch, None)
    await other.call(
        "ConsumerGroupHeartbeat",
        1,
        ConsumerGroupHeartbeatRequest(
            "g",
            "b",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
    )
    with monkeypatch.context() as patched:
        patched.delattr(connections, "Request")
        assert await beat(peer, "a", epoch) == (epoch, 1)


async def test_repeated_heartbeats_see_the_group_as_it_is(scene: Scene) -> None:
    """A rebalance, the next generation, and the removal of the member."""
    peer, other = scene.peer(), scene.peer()
    member_id = await member_of(peer)
    assert [await beat(peer, member_id) for _ in range(2)] == [0, 0]
    offered = await other.call("JoinGroup", 9, join_group())
    other.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.settled()
    assert [await beat(peer, member_id) for _ in range(2)] == [REBALANCING] * 2
    await peer.call("JoinGroup", 9, join_group("g", member_id))
    old = ErrorCode.ILLEGAL_GENERATION
    assert [await beat(peer, member_id) for _ in range(2)] == [old] * 2
    assert [await beat(peer, member_id, 2) for _ in range(2)] == [0, 0]
    await scene.after(11)
    assert [await beat(peer, member_id, 2) for _ in range(2)] == [UNKNOWN] * 2


async def test_repeated_heartbeats_keep_the_member_alive(scene: Scene) -> None:
    """Its session of 10 s starts again with each of them."""
    peer = scene.peer()
    member_id = await member_of(peer)
    for _ in range(4):
        await scene.after(9)
        assert await beat(peer, member_id) == 0
    await scene.after(10)
    assert await beat(peer, member_id) == UNKNOWN


async def test_repeated_heartbeats_are_counted(scene: Scene) -> None:
    """With the errors among them, as any request is."""
    counters = scene.cluster.nodes[1].counters = ApiCounters()
    peer = scene.peer()
    member_id = await member_of(peer)
    for _ in range(3):
        await beat(peer, member_id)
    await scene.after(11)
    for _ in range(2):
        await beat(peer, member_id)
    counts = counters.by_api[BY_NAME["Heartbeat"]]
    assert sum(counts.seconds.buckets) == 5
    assert counts.errors == {UNKNOWN: 2}


async def test_faults_strike_repeated_heartbeats(scene: Scene) -> None:
    """Also on a connection that had no rule when the first one came."""
    peer = scene.peer()
    member_id = await member_of(peer)
    assert await beat(peer, member_id) == 0
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR", once=True)
    assert await beat(peer, member_id) == ErrorCode.NOT_COORDINATOR
    assert await beat(peer, member_id) == 0


async def test_repeated_heartbeats_spend_a_quota(scene: Scene) -> None:
    """A new quota applies to the next one."""
    peer = scene.peer()
    member_id = await member_of(peer)
    assert await beat(peer, member_id) == 0
    everyone = (("client-id", None),)
    scene.cluster.quotas.alter({everyone: {"request_percentage": 1e-9}})
    assert await beat(peer, member_id) == 0
    late = await peer.call("Heartbeat", 4, HeartbeatRequest("g", 1, member_id))
    assert late.throttle_time_ms > 0


@pytest.mark.parametrize("heard", [0, 1])
async def test_a_defect_ends_the_connection(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    heard: int,
) -> None:
    """It is logged, and a heartbeat, the first or another, gets no answer."""
    peer = scene.peer()
    member_id = await member_of(peer)
    for _ in range(heard):
        assert await beat(peer, member_id) == 0
    (node,) = scene.cluster.nodes.values()
    before = peer.numbers
    with monkeypatch.context() as patched:
        patched.setattr(node, "submit_group_event", None)
        peer.send("Heartbeat", 4, HeartbeatRequest("g", 1, member_id))
    assert peer.is_closed
    assert peer.numbers == before
    assert "request_failed" in capsys.readouterr().err
