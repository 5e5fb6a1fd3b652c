"""Producers, a scripted leader, and the records in a broker's logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.client.fake_broker import Asked, FakeBroker, knows

from kohort.broker.server import Broker
from kohort.client import Admin, NewTopic, Producer
from kohort.protocol.apis.k00_produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdResponse
from kohort.protocol.records import BatchHeader, Record, read_header, read_records

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5}
"""Settings of producers in scenes: short retries."""


def producer(broker: Broker | FakeBroker | str, **settings: Any) -> Producer[Any, Any]:
    """A producer for a broker or an address."""
    if isinstance(broker, str):
        servers = broker
    elif isinstance(broker, Broker):
        servers = broker.bootstrap_servers
    else:
        servers = broker.address
    return Producer(**{"bootstrap_servers": servers, **QUICK, **settings})


# -- logs


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


async def made(broker: Broker, partitions: int = 1, **configs: str) -> None:
    """Creates the topic "t"."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        topic = NewTopic("t", partitions, 1, configs=configs)
        (await admin.create_topics([topic])).check()


# -- a scripted leader


class Leader(FakeBroker):
    """The one node of a cluster, which leads both partitions of "t".

    Args:
        produce: handles Produce; None accepts everything.
        leads: the partitions with a leader.

    Attributes:
        batches: the headers of all received batches.
        ids: number of assigned producer ids.
    """

    def __init__(
        self, produce: Callable[[Asked], None] | None = None, **options: Any
    ) -> None:
        answers = {
            "Metadata": knows((1, self), partitions=2),
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
        return self.of("Produce")

    def _init_producer_id(self, asked: Asked) -> None:
        self.ids += 1
        asked.reply(InitProducerIdResponse(0, 0, 1000 + self.ids, 0))

    def _produce(self, asked: Asked) -> None:
        for topic in asked.message.topic_data:
            for data in topic.partition_data:
                self.batches.append(read_header(data.records))
        self._then(asked)

    def take(self, asked: Asked) -> None:
        """Answers that all was written."""
        self.say(asked, 0)

    def say(self, asked: Asked, code: int, **fields: Any) -> None:
        """Answers with this code for all partitions."""
        asked.reply(self.response(asked, code, **fields))

    def response(self, asked: Asked, code: int, **fields: Any) -> ProduceResponse:
        """The response with this code for all partitions."""
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


def silent(_: Asked) -> None:
    """Does not answer."""


def answering(*codes: int, fields: dict[str, Any] | None = None) -> Leader:
    """A leader that answers with these codes first, and then accepts everything."""
    left = [*codes]

    def answer(asked: Asked) -> None:
        code = left.pop(0) if left else 0
        leader.say(asked, code, **(fields or {} if code else {}))

    leader = Leader(answer)
    return leader
