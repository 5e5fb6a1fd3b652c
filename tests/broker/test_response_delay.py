"""``response.delay.ms``: each response waits, in order; nothing else changes."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.broker.test_connection import ApiVersions
from tests.broker.test_hostile_connections import Wire
from tests.broker.test_records_over_the_wire import batch
from tests.manual_clock import ManualClock
from tests.wire import frames
from tests.wire.client import connected
from tests.wire.requests import produce

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.faults.connection import faulty_class
from kohort.broker.faults.plan import Faults
from kohort.broker.flow_control import READ_AHEAD
from kohort.broker.ids import Ids
from kohort.broker.server import Broker

DELAY_S = 0.25
REQUEST = frames.request("ApiVersions", 3, ApiVersions)


class Scene:
    """A slow connection without a network, and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        config = Config({"response.delay.ms": round(DELAY_S * 1000)})
        events = Events({})
        self.cluster = Cluster(config, self.clock, Ids(1), events=events)
        faults = Faults()
        faults.bind(self.cluster, events)
        self.log = self.cluster.create_topic("t", 1).partitions[0]
        node = self.cluster.nodes[1]
        node.is_open = True
        self.opened: set[Connection] = set()
        self.connection = faulty_class(faults)(node, self.opened)
        self.wire = Wire(None)
        self.connection.connection_made(self.wire)

    async def after(self, seconds: float) -> int:
        """The number of responses sent after this time."""
        self.clock.skip(seconds)
        # A response lets the next request be handled in another turn.
        await asyncio.sleep(0)
        return self.wire.answers()


@pytest.fixture
async def scene() -> Scene:
    """A slow connection."""
    return Scene()


async def test_requests_wait_for_the_response_before_them(scene: Scene) -> None:
    """Three that arrive together are answered after one, two and three delays."""
    scene.connection.data_received(REQUEST * 3)
    assert await scene.after(DELAY_S / 2) == 0
    for number in (1, 2, 3):
        assert await scene.after(DELAY_S / 2) == number
        assert await scene.after(DELAY_S / 2) == number


async def test_a_request_that_asks_for_no_response_delays_none(scene: Scene) -> None:
    """A Produce with acks 0 is appended, and the next request is handled at once."""
    silent = frames.request("Produce", 3, produce((0, batch(b"one")), acks=0))
    scene.connection.data_received(silent * 2 + REQUEST)
    assert scene.log.log_end_offset == 2
    assert await scene.after(DELAY_S) == 1


async def test_a_client_that_sends_on_is_held_back(scene: Scene) -> None:
    """Nothing is read behind a late response beyond `READ_AHEAD` bytes."""
    count = READ_AHEAD // (len(REQUEST) - 4) + 2
    scene.connection.data_received(REQUEST * count)
    assert not scene.wire.is_reading_now
    for number in range(1, count + 1):
        assert await scene.after(DELAY_S) == number
    assert scene.wire.is_reading_now


async def test_a_late_response_is_sent_before_the_connection_is_closed(
    scene: Scene,
) -> None:
    """A stopping node sends the responses to handled requests, and no others."""
    scene.connection.data_received(REQUEST * 2)
    scene.connection.close()
    assert scene.wire.answers() == 1
    assert scene.wire.is_closed_now
    assert await scene.after(DELAY_S) == 1


async def test_a_client_that_leaves_gets_no_late_response(scene: Scene) -> None:
    """The waiting response is dropped at its time."""
    scene.connection.data_received(REQUEST)
    scene.connection.connection_lost(None)
    assert await scene.after(DELAY_S) == 0


async def test_the_setting_slows_a_broker_down() -> None:
    """A client measures at least the delay; by default there is none."""
    async with Broker({"response.delay.ms": 30}) as broker, connected(broker) as client:
        before = time.monotonic()
        await client.is_served()
        assert time.monotonic() - before >= 0.03
    async with Broker() as broker, connected(broker) as client:
        await client.is_served()
        assert {type(each) for each in broker.connections} == {Connection}
