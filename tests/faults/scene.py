"""A cluster with faults, and connections without a network, on a manual clock."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from tests.broker.test_hostile_connections import Wire
from tests.broker.test_records_over_the_wire import batch
from tests.manual_clock import ManualClock
from tests.wire import frames
from tests.wire.requests import join_group, produce

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.faults.connection import faulty_class
from kohort.broker.faults.plan import Faults
from kohort.broker.ids import Ids
from kohort.broker.server import Broker
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

BEAT = HeartbeatRequest("g", 1, "m")
"""A heartbeat of an unknown member: without a fault it gets UNKNOWN_MEMBER_ID."""
ONE = produce((0, batch(b"one")))
"""One record for partition 0."""
QUIET = produce((0, batch(b"one")), acks=0)
"""The same, without a response."""
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Peer:
    """A client of the scene, and its connection.

    Attributes:
        connection: the broker's end.
        wire: the bytes and calls from the broker.
        client_id: see above.
    """

    def __init__(self, scene: Scene, node: int, client_id: str) -> None:
        self._scene = scene
        self._asked: dict[int, tuple[str, int]] = {}
        self.client_id = client_id
        self.wire = Wire(None)
        self.connection = Connection(scene.cluster.nodes[node], scene.connections)
        scene.opened(self.connection)
        self.connection.connection_made(self.wire)

    def frame(self, api: str, version: int, message: object) -> bytes:
        """A request whose response `answers` can decode."""
        number = len(self._asked) + 1
        self._asked[number] = api, version
        return frames.request(api, version, message, number, self.client_id)

    def send(self, api: str, version: int, message: object) -> None:
        """Sends a request."""
        self.connection.data_received(self.frame(api, version, message))

    def beat(self, times: int = 1) -> None:
        """Sends a number of heartbeats at once."""
        made = [self.frame("Heartbeat", 4, BEAT) for _ in range(times)]
        self.connection.data_received(b"".join(made))

    @property
    def whole(self) -> list[bytes]:
        """The complete responses sent so far, without their sizes."""
        data, found = self.wire.written, []
        while len(data) >= 4 and len(data) >= 4 + frames.size_of(data[:4]):
            size = frames.size_of(data[:4])
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    @property
    def numbers(self) -> list[int]:
        """The numbers of the answered requests, in the order of responses."""
        return [frames.correlation_id_of(content) for content in self.whole]

    @property
    def answers(self) -> list[Any]:
        """The responses sent so far, decoded."""
        return [self.decoded(content) for content in self.whole]

    def decoded(self, content: bytes) -> Any:
        """Decodes a response, which must be complete."""
        api, version = self._asked[frames.correlation_id_of(content)]
        return frames.response(api, version, content)

    @property
    def errors(self) -> list[int]:
        """The error codes at the top of the responses."""
        return [answer.error_code for answer in self.answers]

    @property
    def is_closed(self) -> bool:
        """True if the broker has closed the connection."""
        return self.wire.is_closed_now

    async def call(self, api: str, version: int, message: object) -> Any:
        """Sends a request that is answered at once."""
        before = len(self.whole)
        self.send(api, version, message)
        await self._scene.settled()
        (content,) = self.whole[before:]
        return self.decoded(content)

    async def join(self, group: str = "g") -> Any:
        """Joins as a new member; returns the response to the second JoinGroup."""
        offered = await self.call("JoinGroup", 9, join_group(group))
        return await self.call("JoinGroup", 9, join_group(group, offered.member_id))


class Scene:
    """A cluster of nodes with a topic ``t`` of two partitions, and its faults."""

    def __init__(self, nodes: int = 1, **config: object) -> None:
        self.clock = ManualClock()
        self.events = Events({})
        self.events.begin("run")
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.cluster = Cluster(
            Config({"group.initial.rebalance.delay.ms": 0, **settings}),
            self.clock,
            Ids(1),
            nodes=nodes,
            events=self.events,
        )
        for node in self.cluster.nodes.values():
            node.is_open = True
        self.topic = self.cluster.create_topic("t", 2)
        self.connections: set[Connection] = set()
        self.faults = Faults()
        self._faulty = faulty_class(self.faults)
        self.faults.changed = self._changed
        self.faults.bind(self.cluster, self.events)

    def opened(self, connection: Connection) -> None:
        """Opens a connection as a broker does: under the plan while it has rules."""
        if self.faults.is_active:
            connection.__class__ = self._faulty

    def _changed(self) -> None:
        for connection in self.connections:
            self.opened(connection)
            connection.faults_changed()

    def peer(self, client_id: str = "c", node: int = 1) -> Peer:
        """A new connection."""
        return Peer(self, node, client_id)

    async def settled(self) -> None:
        """Runs the loop until no work is left."""
        turns = 10
        while turns:
            self.clock.skip(0)
            await asyncio.sleep(0)
            turns = 10 if len(self.cluster.long_work) else turns - 1

    async def after(self, seconds: float) -> None:
        """Lets time pass."""
        self.clock.skip(seconds)
        await self.settled()

    @property
    def strikes(self) -> list[tuple[str, str | None]]:
        """The effect and the API of each strike so far, from the events."""
        return [
            (event["cause"], event["api"])
            for event in self.events.recent()
            if event["kind"] == "fault_struck"
        ]

    @property
    def end(self) -> int:
        """The number of records in partition 0."""
        return self.topic.partitions[0].log_end_offset


async def struck(broker: Broker, times: int) -> None:
    """Waits until the broker's only rule has struck this many times."""
    (rule,) = broker.faults.rules
    with broker.events.subscribe(past=True) as reader:
        while rule.strikes < times:
            await reader.wait()
            reader.take()


def versions(api: str) -> range:
    """The versions of an API that a broker accepts."""
    found = BY_NAME[api]
    return range(found.oldest, found.newest + 1)


def with_size(content: bytes) -> bytes:
    """A response after its size."""
    return struct.pack(">i", len(content)) + content
