"""A broker on a thread of its own: Spark's calls block, and it has to go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.broker.test_cluster import offsets, stable
from tests.broker.test_records_over_the_wire import NOW_MS
from tests.broker.topics import delete_topic
from tests.events.test_views_topic import records
from tests.wire.client import WireClient, connected
from tests.wire.requests import produce

from kohort.broker.events.bus import Reader
from kohort.broker.server import Broker
from kohort.broker.topics.topic import EVENTS_TOPIC
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.records import Record, build_batch

CONFIG = {"group.initial.rebalance.delay.ms": 0, "events.topic.enable": True}
PATIENCE_S = 60.0
BUFFER = 1_000_000
Event = dict[str, Any]


@dataclass
class Serving:
    """A broker that serves, with a reader of all its events.

    Attributes:
        broker: it.
        loop: its thread's.
        reader: has seen all from the start.
        seen: what was taken from the reader.
    """

    broker: Broker
    loop: asyncio.AbstractEventLoop
    reader: Reader
    seen: list[Event] = field(default_factory=list)

    @property
    def address(self) -> str:
        """For clients."""
        nodes = self.broker.cluster.nodes
        return f"{self.broker.host}:{nodes[min(nodes)].port}"

    def run(self, work: Callable[[WireClient], Awaitable[Any]]) -> Any:
        """Does something there, with a connection."""

        async def connect() -> Any:
            async with connected(self.broker) as client:
                return await work(client)

        return asyncio.run_coroutine_threadsafe(connect(), self.loop).result(PATIENCE_S)

    def group(self, name: str) -> None:
        """A group comes to be, with one member, who leaves again."""

        async def work(client: WireClient) -> None:
            member_id = await stable(client, name)
            request = LeaveGroupRequest(name, "", [MemberIdentity(member_id)])
            await client.call("LeaveGroup", 5, request)

        self.run(work)

    def commit(self, count: int, group: str = "other") -> None:
        """So many events."""

        async def work(client: WireClient) -> None:
            for offset in range(count):
                await client.call("OffsetCommit", 8, offsets(offset, group=group))

        self.run(work)

    def create(self, topic: str) -> None:
        """A topic with one partition."""

        async def work(_: WireClient) -> None:
            self.broker.cluster.create_topic(topic, 1)

        self.run(work)

    def delete(self, topic: str) -> None:
        """A topic goes."""

        async def work(_: WireClient) -> None:
            delete_topic(self.broker, topic)

        self.run(work)

    def produce(self, topic: str, *values: object) -> None:
        """Records: bytes and texts as they are, None, and JSON of all else."""
        records = [Record(i, NOW_MS, None, _bytes(v), ()) for i, v in enumerate(values)]

        async def work(client: WireClient) -> None:
            rows = [(0, build_batch(records))]
            answer = await client.call("Produce", 9, produce(*rows, topic=topic))
            assert answer.responses[0].partition_responses[0].error_code == 0

        self.run(work)

    def lose(self, topic: str, before: int) -> None:
        """Records below an offset are gone from a topic, as retention takes them."""

        async def work(_: WireClient) -> None:
            (partition,) = self.broker.cluster.topics.by_name[topic].partitions
            assert partition.delete_records(before) == (0, before)

        self.run(work)

    def events(self) -> list[Event]:
        """All events until now."""

        async def take(_: WireClient) -> list[Event]:
            self.seen += self.reader.take()
            return [*self.seen]

        taken: list[Event] = self.run(take)
        return taken

    def written(self) -> None:
        """Waits until the topic of events has all that there is now."""
        last = self.events()[-1]["sequence"]
        self.run(lambda _: _written(self.broker, last))


async def _written(broker: Broker, sequence: int) -> None:
    grown = asyncio.Event()
    (partition,) = broker.cluster.topics.by_name[EVENTS_TOPIC].partitions
    partition.watch(grown.set)
    async with asyncio.timeout(PATIENCE_S):
        while sequence not in {event["sequence"] for _, event in records(broker)}:
            grown.clear()
            await grown.wait()
    partition.unwatch(grown.set)


def _bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


@contextlib.contextmanager
def serving(data_dir: str | os.PathLike[str] | None = None) -> Iterator[Serving]:
    """A broker with the topic of events, until the end of the block."""
    up = threading.Event()
    down: list[Callable[[], object]] = []
    made: list[Serving] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        broker = Broker(CONFIG, data_dir=data_dir)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        with broker.events.subscribe(size=BUFFER) as reader:
            async with broker:
                made.append(Serving(broker, loop, reader))
                down.append(lambda: loop.call_soon_threadsafe(stop.set))
                up.set()
                await stop.wait()

    def main() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - is raised by the block
            failed.append(error)
        finally:
            up.set()

    thread = threading.Thread(target=main)
    thread.start()
    up.wait()
    try:
        if made:
            yield made[0]
    finally:
        for each in down:
            each()
        thread.join()
    if failed:
        raise failed[0]
