"""Answers that are corrupted, truncated, or sent byte by byte."""

from __future__ import annotations

from tests.faults.scene import BEAT, UNKNOWN, Scene
from tests.wire import frames
from tests.wire.requests import metadata


async def test_a_corrupted_answer(scene: Scene) -> None:
    """Its size and correlation id are right, its body is not; the next one is whole."""
    peer = scene.peer()
    right = (await peer.call("Metadata", 12, metadata("t")), peer.whole[0])[1]
    rule = scene.faults.corrupt("Metadata", once=True)
    for _ in range(2):
        peer.send("Metadata", 12, metadata("t"))
    bad, good = peer.whole[1:]
    assert (len(bad), peer.numbers) == (len(right), [1, 2, 3])
    changed = sum(a != b for a, b in zip(bad[4:], right[4:], strict=True))
    assert 1 <= changed <= 3
    assert (good[4:], rule.strikes) == (right[4:], 1)


async def test_a_truncated_answer(scene: Scene) -> None:
    """Half of it is sent, then the connection closes."""
    peer = scene.peer()
    whole = (await peer.call("Metadata", 12, metadata("t")), peer.wire.written)[1]
    scene.faults.truncate("Metadata")
    one = peer.frame("Metadata", 12, metadata("t"))
    peer.connection.data_received(one + peer.frame("Heartbeat", 4, BEAT))
    rest = peer.wire.written[len(whole) :]
    assert len(rest) == len(whole) // 2
    assert (rest[:4], rest[8:]) == (whole[:4], whole[8 : len(rest)])
    assert peer.is_closed


async def test_a_trickled_answer(scene: Scene) -> None:
    """Byte by byte; the next request waits for the last one."""
    peer = scene.peer()
    scene.faults.trickle("Heartbeat", seconds=0.5)
    peer.beat(2)
    size = len(with_size_of_beat())
    for sent in range(1, size):
        assert len(peer.wire.written) == sent
        await scene.after(0.5)
    assert peer.errors == [UNKNOWN]
    for _ in range(size):
        await scene.after(0.5)
    assert peer.errors == [UNKNOWN, UNKNOWN]


def with_size_of_beat() -> bytes:
    """A response to a heartbeat: its size, number, no tags, time, error, no tags."""
    return bytes(4 + 4 + 1 + 4 + 2 + 1)


def test_frames_are_those_of_the_wire() -> None:
    """The size is the one that the trickle test counts with."""
    answer = frames.request("Heartbeat", 4, BEAT)
    assert len(answer) > len(with_size_of_beat())
