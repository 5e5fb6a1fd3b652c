"""Connections that a rule silences: swallowed requests, and black holes."""

from __future__ import annotations

import pytest
from tests.faults.scene import BEAT, ONE, QUIET, UNKNOWN, Scene, struck
from tests.wire.client import connected, connections
from tests.wire.requests import fetch, join_group, sync_group

from kohort.broker.connection import HALF_CLOSED_SECONDS, Connection
from kohort.broker.server import Broker


async def test_swallow_silences_the_connection(scene: Scene) -> None:
    """Requests behind a swallowed one wait; none of them has an effect."""
    peer, other = scene.peer(), scene.peer()
    scene.faults.swallow("Produce", once=True)
    beat, one = peer.frame("Heartbeat", 4, BEAT), peer.frame("Produce", 9, ONE)
    peer.connection.data_received(beat + one + beat + one)
    peer.beat()
    await scene.settled()
    assert (peer.errors, peer.is_closed, scene.end) == ([UNKNOWN], False, 0)
    other.send("Produce", 9, ONE)
    assert (len(other.whole), scene.end) == (1, 1)


async def test_a_silent_connection_stays_silent(scene: Scene) -> None:
    """Without the rule it stays silent, until the client closes it."""
    peer = scene.peer()
    rule = scene.faults.swallow("Heartbeat")
    peer.beat(2)
    scene.faults.remove(rule.id)
    peer.beat()
    await scene.after(60)
    assert (peer.whole, peer.is_closed) == ([], False)
    assert not peer.connection.is_heard
    peer.connection.connection_lost(None)
    assert not scene.faults.links


async def test_a_silent_connection_reads_no_more_than_others(scene: Scene) -> None:
    """Its further requests wait at the client, beyond the usual read-ahead."""
    peer = scene.peer()
    scene.faults.swallow("Heartbeat", once=True)
    peer.beat()
    assert peer.connection.is_reading
    while peer.connection.is_reading:
        peer.beat(1000)
    assert peer.whole == []


async def test_a_silent_connection_that_is_half_closed_ends(scene: Scene) -> None:
    """Its client has probably gone: it is closed after the usual wait."""
    peer = scene.peer()
    scene.faults.swallow("Heartbeat")
    peer.beat()
    assert peer.connection.eof_received()
    await scene.after(HALF_CLOSED_SECONDS - 1)
    assert not peer.is_closed
    await scene.after(1)
    assert (peer.is_closed, peer.whole) == (True, [])


async def test_a_silent_connection_can_be_idle() -> None:
    """``connections.max.idle.ms`` closes the silent connection."""
    config = {"connections.max.idle.ms": 200}
    async with Broker(config) as broker, connected(broker) as client:
        broker.faults.swallow("Heartbeat")
        await client.send("Heartbeat", 4, BEAT)
        await client.is_closed()


async def test_a_swallowed_produce_without_acks(scene: Scene) -> None:
    """Swallowing it holds back no later request: it has no response to wait for."""
    peer = scene.peer()
    scene.faults.swallow("Produce", once=True)
    quiet = peer.frame("Produce", 9, QUIET)
    peer.connection.data_received(quiet + peer.frame("Heartbeat", 4, BEAT) + quiet)
    assert (peer.errors, peer.is_closed, scene.end) == ([UNKNOWN], False, 1)


async def test_a_black_hole_for_a_client(scene: Scene) -> None:
    """Open and new connections are silent; those of other clients are not."""
    before = scene.peer("victim")
    await before.call("Heartbeat", 4, BEAT)
    rule = scene.faults.black_hole(client_id="victim")
    after, other = scene.peer("victim"), scene.peer("other")
    for peer in (before, after, other):
        peer.beat()
    await scene.settled()
    assert (before.errors, after.errors) == ([UNKNOWN], [])
    assert other.errors == [UNKNOWN]
    assert (before.is_closed, after.is_closed) == (False, False)
    scene.faults.remove(rule.id)
    await scene.settled()
    assert (before.errors, after.errors) == ([UNKNOWN] * 2, [UNKNOWN])
    assert scene.strikes == [("black_hole", None)] * 2


async def test_a_black_hole_for_a_node() -> None:
    """The other node answers; after a time the first one does, too."""
    scene = Scene(nodes=2)
    first, second = scene.peer(node=1), scene.peer(node=2)
    scene.faults.black_hole(node=1, for_seconds=30)
    first.beat()
    second.beat()
    await scene.settled()
    assert (first.whole, len(second.whole)) == ([], 1)
    await scene.after(29)
    assert first.whole == []
    await scene.after(1)
    assert len(first.whole) == 1
    assert {type(each) for each in scene.connections} == {Connection}


async def test_heartbeats_in_a_black_hole_do_not_count(scene: Scene) -> None:
    """The member's session expires, although it sends heartbeats."""
    peer = scene.peer("victim")
    joined = await peer.join()
    scene.faults.black_hole(client_id="victim")
    (group,) = scene.cluster.shards.groups()
    assert [*group.members] == [joined.member_id]
    for _ in range(4):
        await scene.after(5)
        peer.beat()
    assert not group.members


@pytest.mark.parametrize("effect", ["black_hole", "swallow"])
async def test_a_member_that_is_not_heard_is_not_credited(effect: str) -> None:
    """When the clock is moved ahead, its session expires; another member's does not."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config) as broker, connections(broker, 2) as clients:
        for client, group in zip(clients, "ab", strict=True):
            offered = await client.call("JoinGroup", 9, join_group(group))
            again = join_group(group, offered.member_id)
            joined = await client.call("JoinGroup", 9, again)
            sync = sync_group(joined.member_id, 1, group)
            await client.call("SyncGroup", 3, sync)
        broker.faults.add({"connection": 1, effect: True})
        await clients[0].send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        await broker.clock.advance(11)
        found = broker.cluster.shards.groups()
        assert {g.group_id: len(g.members) for g in found} == {"a": 0, "b": 1}


async def test_an_answer_that_comes_during_a_black_hole_waits(scene: Scene) -> None:
    """A waiting Fetch is answered after the black hole."""
    peer, producer = scene.peer("victim"), scene.peer("producer")
    peer.send("Fetch", 11, fetch(0, wait_ms=60_000))
    rule = scene.faults.black_hole(client_id="victim")
    await producer.call("Produce", 9, ONE)
    await scene.settled()
    assert peer.whole == []
    scene.faults.remove(rule.id)
    assert len(peer.whole) == 1
