"""A broker with an HTTP port, in a separate thread, for a test with a browser."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Self, TypeVar

from tests.patience import PATIENCE_S
from tests.wire import requests
from tests.wire.client import connected

from kohort.broker.events.remembered import REMEMBERED
from kohort.broker.notice import Notice
from kohort.broker.server import Broker
from kohort.broker.thread import LoopThread
from kohort.client import Admin, Consumer, NewTopic
from kohort.control.http.server import Control

T = TypeVar("T")
TOPIC = "orders"


class Running:
    """A broker, its HTTP port, and consumers of it.

    Args:
        nodes: how many the broker has.
        labels: of its events.

    Attributes:
        url: where the timeline is.
    """

    def __init__(
        self, *, nodes: int = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        self._nodes = nodes
        self._labels = labels
        self._thread = LoopThread(contextlib.nullcontext())
        self._consumers: dict[str, tuple[Consumer, asyncio.Task[None]]] = {}
        self._http_port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.do(self._start())
        self.url = f"http://127.0.0.1:{self._http_port}/timeline"
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for name in [*self._consumers]:
                self.leave(name)
            self.do(self._stop())
        finally:
            self._thread.stop()

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Has something done on the broker's loop, and waits for it."""
        return self._thread.submit(what).result(PATIENCE_S)

    def join(self, name: str, group: str = "billing") -> None:
        """A consumer of this client id joins; returns once it has its assignment."""

        async def joined() -> None:
            consumer = Consumer(
                TOPIC,
                group_id=group,
                client_id=name,
                bootstrap_servers=self._broker.bootstrap_servers,
                heartbeat_interval_ms=200,
            )
            await consumer.start()
            has_some = asyncio.Event()
            task = asyncio.create_task(_consume(consumer, has_some))
            self._consumers[name] = consumer, task
            await has_some.wait()

        self.do(joined())

    def join_static(self, instance_id: str, group: str) -> None:
        """A static member joins a new group; `Consumer` may refuse its instance id."""

        async def joined() -> None:
            request = requests.join_group(group, instance=instance_id)
            async with connected(self._broker) as client:
                answer = await client.call("JoinGroup", 9, request)
                assert answer.error_code == 0
                sync = requests.sync_group(answer.member_id, group=group)
                assert (await client.call("SyncGroup", 5, sync)).error_code == 0

        self.do(joined())

    def leave(self, name: str) -> None:
        """It leaves the group."""

        async def left() -> None:
            consumer, task = self._consumers.pop(name)
            task.cancel()
            await asyncio.wait([task])
            await consumer.close()

        self.do(left())

    def others_do_much(self) -> None:
        """More happens to another group than the stream remembers of the latest."""

        async def much() -> None:
            node = self._broker.events.of(1)
            busy = Notice("heartbeat", "busy", 1, None, {"error": "NONE"})
            for _ in range(REMEMBERED + 2000):
                node.publish(busy, self._broker.cluster.clock.now())
            latest = self._broker.events.recent()
            assert {event["group"] for event in latest} == {"busy"}

        self.do(much())

    def restart(self) -> None:
        """The broker stops, and another one, which knows nothing, takes its place."""

        async def restarted() -> None:
            await self._stop()
            await self._begin()
            await self._listen()

        self.do(restarted())

    def stop_coordinator(self, group: str) -> None:
        """The node that coordinates a group stops."""

        async def stopped() -> None:
            events = self._broker.events.recent(group)
            await self._broker.stop_node(events[-1]["node"])

        self.do(stopped())

    @contextlib.contextmanager
    def without_http(self) -> Iterator[None]:
        """The HTTP port is closed for a while; the broker goes on."""
        self.do(self._control.stop())
        yield
        self.do(self._listen())

    async def _start(self) -> None:
        await self._begin()
        await self._listen()
        servers = self._broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic(TOPIC, 6)])

    async def _begin(self) -> None:
        settings = {"group.initial.rebalance.delay.ms": 0}
        self._broker = Broker(settings, nodes=self._nodes, labels=self._labels)
        await self._broker.start()

    async def _listen(self) -> None:
        self._control = Control(self._broker, port=self._http_port)
        await self._control.start()
        self._http_port = self._control.port

    async def _stop(self) -> None:
        await self._control.stop()
        await self._broker.stop()


async def _consume(consumer: Consumer, has_some: asyncio.Event) -> None:
    """Polls for ever; says once it has partitions."""
    while True:
        await consumer.poll(timeout_ms=100)
        if consumer.assignment():
            has_some.set()
