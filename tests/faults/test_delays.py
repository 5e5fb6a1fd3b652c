"""Delays, throttle times and jitter."""

from __future__ import annotations

from tests.faults.scene import BEAT, LOADING, ONE, UNKNOWN, Scene
from tests.wire.client import connected
from tests.wire.requests import commit_offsets, metadata, sync_group

from kohort.broker.server import Broker


async def test_a_delayed_answer_holds_up_those_behind_it(scene: Scene) -> None:
    """The request takes effect at once; later ones wait for its response."""
    peer, other = scene.peer(), scene.peer()
    scene.faults.delay("Produce", seconds=2)
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat)
    other.beat()
    assert (scene.end, peer.numbers, other.errors) == (1, [1], [UNKNOWN])
    await scene.after(1.9)
    assert peer.numbers == [1]
    await scene.after(0.1)
    assert peer.numbers == [1, 2, 1]


async def test_an_error_and_a_delay_strike_together(scene: Scene) -> None:
    """Rules with two kinds of effect apply to one request."""
    peer = scene.peer()
    scene.faults.delay("Heartbeat", seconds=1)
    scene.faults.fail("Heartbeat", "COORDINATOR_LOAD_IN_PROGRESS")
    scene.faults.fail("Heartbeat", "NOT_COORDINATOR")
    peer.beat()
    assert peer.whole == []
    await scene.after(1)
    assert peer.errors == [LOADING]
    assert [rule.strikes for rule in scene.faults.rules] == [1, 1, 0]


async def test_a_throttle_time(scene: Scene) -> None:
    """The response has it, and the client is not read meanwhile (KIP-219)."""
    peer = scene.peer()
    scene.faults.throttle("Heartbeat", seconds=3, once=True)
    peer.beat(2)
    assert [answer.throttle_time_ms for answer in peer.answers] == [3000]
    assert not peer.wire.is_reading_now
    await scene.after(3)
    assert [answer.throttle_time_ms for answer in peer.answers] == [3000, 0]
    assert peer.wire.is_reading_now


async def test_a_throttled_answer_of_many_rows(scene: Scene) -> None:
    """A response that is encoded in pieces has it, too."""
    peer = scene.peer()
    scene.faults.throttle("OffsetCommit", seconds=3)
    rows = [(index, 1, -1, "") for index in range(3000)]
    peer.send("OffsetCommit", 8, commit_offsets("t", *rows))
    await scene.settled()
    (answer,) = peer.answers
    assert (answer.throttle_time_ms, len(answer.topics[0].partitions)) == (3000, 3000)


async def test_a_throttled_answer_that_is_encoded_already(scene: Scene) -> None:
    """Responses from templates and encoded rows have it, and are recorded, too."""
    peer = scene.peer()
    joined = await peer.join()
    scene.faults.requests.record()
    scene.faults.throttle(["SyncGroup", "Metadata"], seconds=3)
    sync = sync_group(joined.member_id, assignments={joined.member_id: b"t"})
    synced = await peer.call("SyncGroup", 5, sync)
    assert (synced.throttle_time_ms, synced.assignment) == (3000, b"t")
    await scene.after(3)
    found = await peer.call("Metadata", 9, metadata("t", "no", creates=False))
    assert (found.throttle_time_ms, len(found.topics[0].partitions)) == (3000, 2)
    errors = [row.error for row in scene.faults.requests.find()]
    assert errors == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]


async def test_jitter_delays_and_keeps_the_order(scene: Scene) -> None:
    """Each request waits before it is handled, and each response before it is sent."""
    scene.faults.jitter(7, 1000)
    peers = [scene.peer(str(n)) for n in range(20)]
    for peer in peers:
        peer.beat(3)
    assert not any(peer.whole for peer in peers)
    ends: dict[str, int] = {}
    for step in range(2000):
        await scene.after(0.005)
        for peer in peers:
            if len(peer.whole) == 3:
                ends.setdefault(peer.client_id, step)
    assert all(peer.numbers == [1, 2, 3] for peer in peers)
    assert max(ends.values()) > 5 * min(ends.values())
    assert scene.strikes == [("jitter", None)] * 20


async def test_a_broker_with_jitter_serves() -> None:
    """Over sockets, on the loop's own time."""
    async with Broker() as broker:
        broker.faults.jitter(1, 2)
        async with connected(broker) as client:
            for _ in range(5):
                assert (await client.call("Heartbeat", 4, BEAT)).error_code == UNKNOWN
