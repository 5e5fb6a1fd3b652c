"""A coordinator as a stage: scenes of groups without sockets, and without waiting.

Connections are in memory; handlers and topics are a broker's. Its groups are those of
`tests.coordinator.driver`, which checks the invariants after every event. Time is the
event loop's: see `IdleTimeLoop`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from tests.conformance.connection import Connection
from tests.conformance.env import Stage
from tests.coordinator.context import Context
from tests.coordinator.driver import START, Pending
from tests.idle_time import IdleTimeLoop
from tests.wire import frames
from tests.wire.memory import Transport

from kohort.broker.clock import BrokerClock
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.coordinator_settings import group_settings
from kohort.broker.cluster.topics_image import ClusterTopics
from kohort.broker.config import Config
from kohort.broker.connection import Connection as ServerConnection
from kohort.broker.coordinator.events import (
    GroupEvent,
    TopicsChanged,
    TopicsDeleted,
    TransactionEnded,
)
from kohort.broker.events.bus import Events
from kohort.broker.ids import Ids
from kohort.protocol.registry import APIS
from kohort.protocol.slotted import replace

T = TypeVar("T")


def play_at_once(scene: Coroutine[Any, Any, T]) -> T:
    """Plays a scene of stages in memory, on virtual time; see `loop_time`."""
    with asyncio.Runner(loop_factory=partial(IdleTimeLoop, math.inf)) as runner:
        return runner.run(scene)


class _Transport(Transport):
    """A connection whose client gets frames as soon as they are sent."""

    client: _MemoryConnection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes bytes for the client, and hands on whole frames."""
        super().write(data)
        while len(self.received) >= 4:
            end = 4 + frames.size_of(bytes(self.received[:4]))
            if end > len(self.received):
                return
            frame, self.received = bytes(self.received[4:end]), self.received[end:]
            self.client.received(frame)

    def _lost(self) -> None:
        super()._lost()
        self.client.lost()


class _MemoryConnection(Connection):
    """A client's connection to a stage in memory."""

    def __init__(self, client_id: str | None, transport: _Transport) -> None:
        super().__init__(client_id)
        self._transport = transport
        transport.client = self

    async def send_raw(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self._transport.send(data)

    async def half_close(self) -> None:
        """Sends the end of the stream."""
        self._transport.send_eof()

    async def close(self) -> None:
        """Closes the connection from this side."""
        self._transport.lose()


class CoordinatorStage(Stage):
    """A node of a cluster in memory, whose groups have a `Driver`.

    Args:
        config: the broker's.
    """

    def __init__(self, config: dict[str, str]) -> None:
        super().__init__({api.key: (api.oldest, api.newest) for api in APIS})
        self._loop = asyncio.get_running_loop()
        self._answers: list[tuple[Any, Any]] = []
        self._alarm: asyncio.TimerHandle | None = None
        settings = Config({"offsets.topic.num.partitions": 1, **config})
        events = Events(None)
        events.begin("coordinator stage")
        clock = BrokerClock(self._loop)
        cluster = Cluster(settings, clock, Ids(), events=events)
        self._driver = Context(ClusterTopics(cluster.topics))
        self.coordinator = self._driver.coordinator
        self.coordinator.settings = group_settings(settings, {})
        (self._node,) = cluster.nodes.values()
        self._node.addresses, self._node.is_open = [("localhost", 1)], True
        cluster.load_coordinators()
        cluster.producer_ids.new()  # 0, which transcripts show for no producer
        cluster.shards.for_id("").driver = self  # type: ignore[assignment]

    async def connect(self, client_id: str | None) -> Connection:
        """Opens a connection in memory."""
        transport = _Transport(1)
        transport.connect(ServerConnection(self._node, set()))
        return _MemoryConnection(client_id, transport)

    # -- as the shard's driver

    def submit(
        self, event: GroupEvent | TopicsChanged | TopicsDeleted | TransactionEnded
    ) -> None:
        """Hands an event to the coordinator; then passes on its answers."""
        self._catch_up()
        if isinstance(event, TopicsChanged | TopicsDeleted):
            self._driver.submit(event)
            return
        if isinstance(event, TransactionEnded):
            self._driver.end_transaction(event.producer_id, is_commit=event.is_commit)
            return
        token: Any = event.token
        pending: Pending[Any] = Pending(
            type(event).__name__, lambda result: self._answers.append((token, result))
        )
        self._driver.ask(replace(event, token=pending), pending)
        self._go_on()

    def flush(self) -> None:
        """Does nothing: the log has every append at once."""

    flush_all = flush

    def _catch_up(self) -> None:
        """Fires the timers that are due."""
        ahead = START + self._loop.time() - self._driver.now
        self._driver.sleep(max(0.0, ahead * 1000))

    def _go_on(self) -> None:
        """Passes on answers, and waits for the next timer."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._driver.timers:
            deadline = min(self._driver.timers.values())
            self._alarm = self._loop.call_at(deadline - START, self._fire)
        answers, self._answers = self._answers, []
        for token, result in answers:
            token.answer(result)

    def _fire(self) -> None:
        self._catch_up()
        self._go_on()
