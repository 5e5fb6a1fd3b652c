"""Rules that are removed, and brokers that stop or start, while requests wait."""

from __future__ import annotations

import asyncio

import pytest
from tests.faults.scene import BEAT, UNKNOWN, Scene, struck
from tests.wire.client import connected

from kohort.broker.connection import Connection
from kohort.broker.server import Broker
from kohort.protocol.errors import ErrorCode


async def test_a_broker_that_is_started_again_keeps_its_rules() -> None:
    """A rule with a time limit strikes again after a restart."""
    broker = Broker()
    rule = broker.faults.fail("Heartbeat", "NOT_COORDINATOR", for_seconds=3600)
    for _ in range(2):
        async with broker, connected(broker) as client:
            answer = await client.call("Heartbeat", 4, BEAT)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert rule.strikes == 2


@pytest.mark.parametrize("effect", ["delay", "trickle"])
async def test_a_rule_that_goes_lets_its_answers_go(scene: Scene, effect: str) -> None:
    """The responses are sent at once, whole, and the requests behind them handled."""
    peer = scene.peer()
    rule = getattr(scene.faults, effect)("Heartbeat", seconds=60)
    peer.beat(2)
    assert peer.whole == []
    scene.faults.remove(rule.id)
    await scene.settled()
    assert peer.errors == [UNKNOWN] * 2
    assert {type(each) for each in scene.connections} == {Connection}
    assert not scene.faults.links


async def test_a_rule_that_goes_leaves_the_delays_of_others(scene: Scene) -> None:
    """The response waits for the remaining rules, counted from the request."""
    peer = scene.peer()
    scene.faults.delay("Heartbeat", seconds=10)
    jitter = scene.faults.jitter(1, 5000)
    await scene.after(0)
    peer.beat()
    await scene.after(5)
    scene.faults.remove(jitter.id)
    await scene.after(4.9)
    assert peer.whole == []
    await scene.after(5.1)
    assert peer.errors == [UNKNOWN]


async def test_jitter_that_goes_lets_requests_go(scene: Scene) -> None:
    """A request that was waiting is handled immediately."""
    peer = scene.peer()
    scene.faults.jitter(1, 60_000)
    peer.beat()
    scene.faults.clear()
    await scene.settled()
    assert peer.errors == [UNKNOWN]


@pytest.mark.parametrize("rule", [{"delay_ms": 100}, {"jitter_ms": 100}])
async def test_a_client_that_goes_while_it_waits(
    scene: Scene, rule: dict[str, int]
) -> None:
    """Nothing of a lost connection remains, and nothing happens when its delay ends."""
    peer = scene.peer()
    scene.faults.add(rule)
    peer.beat(2)
    peer.connection.connection_lost(None)
    await scene.after(1)
    assert (peer.whole, scene.faults.links) == ([], {})


async def test_a_stop_sends_the_answers_that_wait() -> None:
    """A stopping broker answers the requests that it has handled."""
    async with Broker() as broker, connected(broker) as client:
        broker.faults.delay("Heartbeat", seconds=3600)
        await client.send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        stopping = asyncio.create_task(broker.stop())
        assert (await client.response("Heartbeat", 4)).error_code == UNKNOWN
        await client.is_closed()
        await stopping


@pytest.mark.parametrize("effect", ["black_hole", "swallow"])
async def test_a_stop_without_an_answer(effect: str) -> None:
    """The connection is closed without a byte."""
    async with Broker() as broker, connected(broker) as client:
        broker.faults.add({effect: True})
        await client.send("Heartbeat", 4, BEAT)
        await struck(broker, 1)
        await broker.stop()
        await client.is_closed()


async def test_connections_are_plain_ones_without_rules(scene: Scene) -> None:
    """A removed rule leaves nothing behind."""
    peer = scene.peer()
    rule = scene.faults.swallow("Fetch")
    peer.beat()
    assert type(peer.connection) is not Connection
    scene.faults.remove(rule.id)
    assert type(peer.connection) is Connection
    peer.beat()
    assert peer.errors == [UNKNOWN] * 2
