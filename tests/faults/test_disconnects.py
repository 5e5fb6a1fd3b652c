"""Connections that a rule closes, before or after the request takes effect."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faults.scene import BEAT, ONE, QUIET, UNKNOWN, Scene
from tests.wire.client import connected
from tests.wire.requests import join_group

from kohort.broker.server import Broker


async def test_disconnect_before(scene: Scene) -> None:
    """The request has no effect, and later ones are not handled."""
    peer = scene.peer()
    scene.faults.disconnect("Produce")
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat)
    assert peer.is_closed
    assert (peer.errors, scene.end) == ([UNKNOWN], 0)


async def test_disconnect_after(scene: Scene) -> None:
    """The record is in the log, and no response is sent."""
    peer = scene.peer()
    scene.faults.disconnect("Produce", "after")
    one = peer.frame("Produce", 9, ONE)
    peer.connection.data_received(one + peer.frame("Heartbeat", 4, BEAT))
    assert peer.is_closed
    assert (peer.whole, scene.end) == ([], 1)


async def test_disconnect_after_a_join_that_waited(scene: Scene) -> None:
    """The member is in the generation without knowing it."""
    peer = scene.peer()
    offered = await peer.call("JoinGroup", 9, join_group("g"))
    scene.faults.disconnect("JoinGroup", "after")
    peer.send("JoinGroup", 9, join_group("g", offered.member_id))
    await scene.settled()
    assert peer.is_closed
    (group,) = scene.cluster.shards.groups()
    assert ([*group.members], group.generation_id) == ([offered.member_id], 1)


async def test_a_disconnect_over_a_socket() -> None:
    """One client sees the end of the stream; another one is served."""
    async with Broker() as broker, connected(broker) as a, connected(broker) as b:
        broker.faults.disconnect("Heartbeat", connection=1)
        await a.send("Heartbeat", 4, BEAT)
        await a.is_closed()
        assert (await b.call("Heartbeat", 4, BEAT)).error_code == UNKNOWN


@pytest.mark.parametrize("effect", [{"disconnect": "after"}, {"truncate": True}])
async def test_a_connection_ends_without_an_answer(
    scene: Scene, effect: dict[str, Any]
) -> None:
    """A Produce with acks 0 has no response; its records are appended."""
    peer = scene.peer()
    scene.faults.add({"api": "Produce", **effect})
    peer.send("Produce", 9, QUIET)
    assert (peer.is_closed, peer.whole, scene.end) == (True, [], 1)
