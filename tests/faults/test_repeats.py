"""Requests that take effect twice, and answers that are given again."""

from __future__ import annotations

from tests.faults.scene import ONE, Scene
from tests.wire.requests import fetch, join_group, metadata


async def test_a_duplicate_takes_effect_twice(scene: Scene) -> None:
    """The client gets one response, to the second request."""
    peer = scene.peer()
    scene.faults.duplicate("Produce")
    served = await peer.call("Produce", 9, ONE)
    assert served.responses[0].partition_responses[0].base_offset == 1
    assert (len(peer.whole), scene.end) == (1, 2)


async def test_a_duplicated_join_leaves_a_ghost(scene: Scene) -> None:
    """Without KIP-394 a new member joins twice: its client knows one of the two."""
    peer = scene.peer()
    scene.faults.duplicate("JoinGroup")
    peer.send("JoinGroup", 3, join_group("g"))
    await scene.settled()
    (group,) = scene.cluster.shards.groups()
    assert len([*group.sessions()]) == 2
    peer.connection.connection_lost(None)


async def test_a_duplicated_fetch_that_waits_is_forgotten(scene: Scene) -> None:
    """When its client disconnects, neither of the two waits any more."""
    peer = scene.peer()
    scene.faults.duplicate("Fetch")
    peer.send("Fetch", 11, fetch(0, wait_ms=60_000))
    assert len(scene.topic.partitions[0].watchers) == 2
    peer.connection.connection_lost(None)
    assert not scene.topic.partitions[0].watchers
    await scene.after(61)
    assert (peer.whole, scene.faults.links) == ([], {})


async def test_a_stale_answer(scene: Scene) -> None:
    """The first request passes; the next ones get its response, and have no effect."""
    peer = scene.peer()
    scene.faults.stale("Produce")
    first = await peer.call("Produce", 9, ONE)
    assert await peer.call("Produce", 9, ONE) == first
    assert scene.end == 1
    assert peer.numbers == [1, 2]
    other = await scene.peer("other").call("Produce", 9, ONE)
    assert other.responses[0].partition_responses[0].base_offset == 1


async def test_a_stale_answer_at_the_third_call(scene: Scene) -> None:
    """The stale response is the one to the second request."""
    peer = scene.peer()
    scene.faults.stale("Produce", nth=3)
    offsets = [
        (await peer.call("Produce", 9, ONE)).responses[0].partition_responses[0]
        for _ in range(4)
    ]
    assert [row.base_offset for row in offsets] == [0, 1, 1, 2]


async def test_kept_answers_are_forgotten(scene: Scene) -> None:
    """An expired rule repeats none, and keeps none."""
    peer = scene.peer()
    scene.faults.stale("Metadata", for_seconds=1)
    await peer.call("Metadata", 12, metadata("t"))
    assert scene.faults.kept_bytes > 0
    await scene.after(1)
    assert scene.faults.kept_bytes == 0
