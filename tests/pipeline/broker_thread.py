"""A broker on a separate thread, so that it serves while Spark's calls block."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
from kohort.testing.thread import BrokerThread

CONFIG = {"group.initial.rebalance.delay.ms": 0, "events.topic.enable": True}
PATIENCE_S = 60.0
BUFFER = 1_000_000
Event = Mapping[str, Any]


@dataclass
class Serving:
    """A running broker with a reader of all its events.

    Attributes:
        thread: the thread that runs the broker.
        reader: a reader of all events from the start.
        seen: the events taken from the reader.
    """

    thread: BrokerThread
    reader: Reader
    seen: list[Event] = field(default_factory=list)

    @property
    def broker(self) -> Broker:
        """The broker."""
        return self.thread.broker

    @property
    def address(self) -> str:
        """Its bootstrap servers."""
        nodes = self.broker.cluster.nodes
        return f"{self.broker.host}:{nodes[min(nodes)].port}"

    def run(self, work: Callable[[WireClient], Awaitable[Any]]) -> Any:
        """Runs a function on the broker's thread, with a connection."""

        async def connect() -> Any:
            async with connected(self.broker) as client:
                return await work(client)

        return self.thread.submit(connect()).result(PATIENCE_S)

    def group(self, name: str) -> None:
        """Makes a member join a new group and leave it."""

        async def work(client: WireClient) -> None:
            member_id = await stable(client, name)
            request = LeaveGroupRequest(name, "", [MemberIdentity(member_id)])
            await client.call("LeaveGroup", 5, request)

        self.run(work)

    def commit(self, count: int, group: str = "other") -> None:
        """Commits this many times; each commit is one event."""

        async def work(client: WireClient) -> None:
            for offset in range(count):
                await client.call("OffsetCommit", 8, offsets(offset, group=group))

        self.run(work)

    def create(self, topic: str) -> None:
        """Creates a topic with one partition."""
        self.thread.call(self.broker.cluster.create_topic, topic, 1)

    def delete(self, topic: str) -> None:
        """Deletes a topic."""
        self.thread.call(delete_topic, self.broker, topic)

    def produce(self, topic: str, *values: object) -> None:
        """Produces records: bytes, text and None unchanged, all else as JSON."""
        records = [Record(i, NOW_MS, None, _bytes(v), ()) for i, v in enumerate(values)]

        async def work(client: WireClient) -> None:
            rows = [(0, build_batch(records))]
            answer = await client.call("Produce", 9, produce(*rows, topic=topic))
            assert answer.responses[0].partition_responses[0].error_code == 0

        self.run(work)

    def lose(self, topic: str, before: int) -> None:
        """Deletes the records below an offset, as retention does."""
        (partition,) = self.broker.cluster.topics.by_name[topic].partitions
        deleted = self.thread.call(partition.delete_records, before)
        assert deleted == (0, before)

    def events(self) -> list[Event]:
        """All events so far."""
        self.seen += self.thread.call(self.reader.take)
        return [*self.seen]

    def written(self) -> None:
        """Waits until all events so far are in the topic."""
        last = self.events()[-1]["sequence"]
        self.thread.submit(_written(self.broker, last)).result(PATIENCE_S)


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
    """Runs a broker with the topic of events until the block ends."""
    thread = BrokerThread(Broker(CONFIG, data_dir=data_dir))
    with thread.broker.events.subscribe(size=BUFFER) as reader:
        thread.start()
        try:
            yield Serving(thread, reader)
        finally:
            thread.stop()
