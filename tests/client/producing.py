"""What scenes of the producer need: read back logs, a scripted leader, a cut wire."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Self

from tests.client.fake_broker import Asked, FakeBroker

from kohort.broker.server import Broker
from kohort.client.producer import Producer
from kohort.protocol.apis.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdResponse
from kohort.protocol.records import BatchHeader, Record, read_header, read_records

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5}
"""Settings of producers in scenes: they try again soon."""
PATIENCE = 60.0
"""Seconds after which a scene is stuck; none takes as long."""
TOPIC_ID = bytes(range(16))
PRODUCE = 0


def producer(broker: Broker | FakeBroker | str, **settings: Any) -> Producer:
    """A producer for a broker, or for an address."""
    if isinstance(broker, str):
        servers = broker
    elif isinstance(broker, Broker):
        servers = broker.bootstrap_servers
    else:
        servers = broker.address
    return Producer(**{"bootstrap_servers": servers, **QUICK, **settings})


# -- what is in the logs


def batches(broker: Broker, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The headers of a partition's batches."""
    log = broker.cluster.topics.by_name[topic].partitions[partition]
    return [read_header(batch) for batch in log.batches(0)]


def records(broker: Broker, topic: str, partition: int = 0) -> list[Record]:
    """The records of a partition."""
    log = broker.cluster.topics.by_name[topic].partitions[partition]
    return [record for batch in log.batches(0) for record in read_records(batch)]


def all_records(broker: Broker, topic: str) -> list[list[Record]]:
    """The records of each partition of a topic."""
    count = len(broker.cluster.topics.by_name[topic].partitions)
    return [records(broker, topic, number) for number in range(count)]


def values(broker: Broker, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values in a partition."""
    return [record.value for record in records(broker, topic, partition)]


# -- a leader by script


class Leader(FakeBroker):
    """The one node of a cluster, which leads both partitions of "t".

    Args:
        produce: what is done about Produce; None to take everything.
        leads: which of the partitions have a leader.

    Attributes:
        batches: the headers of all batches that were received.
        ids: how many producer ids were given.
    """

    def __init__(
        self, produce: Callable[[Asked], None] | None = None, **options: Any
    ) -> None:
        answers = {
            "Metadata": self._metadata,
            "InitProducerId": self._init_producer_id,
            "Produce": self._produce,
        }
        super().__init__({**answers, **options.pop("answers", {})}, **options)
        self.batches: list[BatchHeader] = []
        self.ids = 0
        self._then = self.take if produce is None else produce

    @property
    def produced(self) -> list[Asked]:
        """The Produce requests so far."""
        return [asked for asked in self.asked if asked.api.key == PRODUCE]

    async def has_got(self, count: int) -> None:
        """Returns when so many Produce requests were received."""
        seen = 0
        while len(self.produced) < count:
            seen = max(seen, len(self.asked)) + 1
            await self.has_been_asked(seen)

    def _metadata(self, asked: Asked) -> None:
        partitions = [
            MetadataResponsePartition(0, number, 1, 0, [1], [1]) for number in (0, 1)
        ]
        topics = [
            MetadataResponseTopic(0, topic.name, TOPIC_ID, False, partitions)
            for topic in asked.message.topics
        ]
        node = MetadataResponseBroker(1, "127.0.0.1", self.port)
        asked.reply(MetadataResponse(0, [node], "c", 1, topics))

    def _init_producer_id(self, asked: Asked) -> None:
        self.ids += 1
        asked.reply(InitProducerIdResponse(0, 0, 1000 + self.ids, 0))

    def _produce(self, asked: Asked) -> None:
        for topic in asked.message.topic_data:
            for data in topic.partition_data:
                self.batches.append(read_header(data.records))
        self._then(asked)

    def take(self, asked: Asked) -> None:
        """Says that all is written."""
        self.say(asked, 0)

    def say(self, asked: Asked, code: int, **fields: Any) -> None:
        """Answers this code for all partitions."""
        asked.reply(self.response(asked, code, **fields))

    def response(self, asked: Asked, code: int, **fields: Any) -> ProduceResponse:
        """The answer of this code for all partitions."""
        offset = -1 if code else 5
        return ProduceResponse(
            [
                TopicProduceResponse(
                    topic.name,
                    topic.topic_id,
                    [
                        PartitionProduceResponse(data.index, code, offset, **fields)
                        for data in topic.partition_data
                    ],
                )
                for topic in asked.message.topic_data
            ]
        )


# -- a wire that is cut


class Wire:
    """Stands between clients and a broker; every so often an answer is lost.

    The connection ends in place of the answer to a Produce, so the client cannot
    know that it was written.

    Args:
        every: how many Produce requests there are to each that is not answered.

    Attributes:
        lost: how many times that was.
        target: the broker's port.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.lost = 0
        self.target = 0
        self._seen = 0
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        doomed = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, back, doomed))
                group.create_task(self._answers(there, writer, doomed))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            back.transport.abort()
            self._tasks.discard(task)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        while True:
            head = await reader.readexactly(6)
            size, key = struct.unpack(">ih", head)
            back.write(head + await reader.readexactly(size - 2))
            if key == PRODUCE:
                self._seen += 1
                if self._seen % self.every == 0:
                    doomed.set()

    async def _answers(
        self,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        while data := await there.read(65536):
            if doomed.is_set():
                self.lost += 1
                break
            writer.write(data)
        raise ConnectionResetError
