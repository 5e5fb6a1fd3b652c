"""The cost of consuming: this client next to aiokafka and confluent-kafka.

Each client reads the same topic from its beginning to its end, partitions assigned
by hand, one client after the other and several rounds; the broker is a process of
its own, or any Kafka. Each is played both ways that it has, record by record and
many at once:

    python -m bench.consume
    python -m bench.consume --bootstrap localhost:9092 --codecs none zstd

Printed are the fastest round's megabytes a second (of values), CPU time of the
client in its best round, and its ratio to aiokafka's way of the same kind, the
median of the rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from bench.measured import (
    Cost,
    Meter,
    Target,
    create,
    heading,
    key_of,
    parser_for,
    rows_of,
    table_head,
    target_of,
    values_of,
)
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from kohort.client.config import CompressionType
from kohort.client.consumer import Consumer
from kohort.client.offsets import TopicPartition
from kohort.client.producer import Producer

BATCH_SIZE = 16_384
MANY = 500
"""Most records per call, the default of all three."""

Opened = tuple[Callable[[Target], Any], type]
"""Opens a consumer, and its library's type of a topic's partition."""
Read = Callable[[Target, str, Sequence[int], int], Coroutine[None, None, Cost]]
"""Reads `count` records: (broker, topic, partitions, count)."""


@asynccontextmanager
async def _kohort(target: Target) -> AsyncIterator[Consumer]:
    async with Consumer(
        bootstrap_servers=target.servers, auto_offset_reset="earliest"
    ) as consumer:
        yield consumer


@asynccontextmanager
async def _aiokafka(target: Target) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=target.servers, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def iterate(
    opened: Opened, target: Target, topic: str, partitions: Sequence[int], count: int
) -> Cost:
    """Record by record."""
    open_consumer, place = opened
    async with open_consumer(target) as consumer:
        meter = Meter(target)
        consumer.assign([place(topic, number) for number in partitions])
        async for _ in consumer:
            count -= 1
            if not count:
                break
        return meter.read()


async def getmany(
    opened: Opened, target: Target, topic: str, partitions: Sequence[int], count: int
) -> Cost:
    """Many at once."""
    open_consumer, place = opened
    async with open_consumer(target) as consumer:
        meter = Meter(target)
        consumer.assign([place(topic, number) for number in partitions])
        while count > 0:
            found = await consumer.getmany(timeout_ms=1_000, max_records=MANY)
            for records in found.values():
                for _ in records:
                    count -= 1
        return meter.read()


def _confluent(target: Target) -> ConfluentConsumer:
    return ConfluentConsumer(
        {
            "bootstrap.servers": target.servers,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,  # as the others do by default
        }
    )


async def poll_confluent(
    target: Target, topic: str, partitions: Sequence[int], count: int
) -> Cost:
    """confluent-kafka, record by record; librdkafka's threads count."""
    consumer = _confluent(target)
    try:
        meter = Meter(target)
        consumer.assign([ConfluentTopicPartition(topic, n, 0) for n in partitions])
        while count > 0:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                message.value()
                count -= 1
        return meter.read()
    finally:
        consumer.close()


async def consume_confluent(
    target: Target, topic: str, partitions: Sequence[int], count: int
) -> Cost:
    """confluent-kafka, many at once."""
    consumer = _confluent(target)
    try:
        meter = Meter(target)
        consumer.assign([ConfluentTopicPartition(topic, n, 0) for n in partitions])
        while count > 0:
            for message in consumer.consume(MANY, 1.0):
                if message.error() is None:
                    message.value()
                    count -= 1
        return meter.read()
    finally:
        consumer.close()


KOHORT: Opened = (_kohort, TopicPartition)
AIOKAFKA: Opened = (_aiokafka, AioTopicPartition)
CLIENTS: dict[str, Read] = {
    "kohort, async for": partial(iterate, KOHORT),
    "aiokafka, async for": partial(iterate, AIOKAFKA),
    "confluent-kafka, poll": poll_confluent,
    "kohort, getmany": partial(getmany, KOHORT),
    "aiokafka, getmany": partial(getmany, AIOKAFKA),
    "confluent-kafka, consume": consume_confluent,
}
ONE, SOME = "aiokafka, async for", "aiokafka, getmany"
PEERS = dict(zip(CLIENTS, (ONE, ONE, ONE, SOME, SOME, SOME), strict=True))


async def fill(
    target: Target, topic: str, partitions: int, codec: str, values: list[bytes]
) -> None:
    """Makes the topic, and writes the values in batches of 16 KiB."""
    await create(target, topic, partitions)
    async with Producer(
        bootstrap_servers=target.servers,
        linger_ms=100,
        batch_size=BATCH_SIZE,
        compression_type=cast(CompressionType, codec),
    ) as producer:
        sent = [
            await producer.send(topic, value, key_of(number))
            for number, value in enumerate(values)
        ]
        await producer.flush()
        for delivery in sent:
            delivery.result()


def main() -> None:
    """Writes topics, and has all clients read them."""
    parser = parser_for(__doc__, records=100_000, codecs=["none", "lz4"])
    parser.add_argument(
        "--clients", help="only those whose name contains this, and their peers"
    )
    asked = parser.parse_args()
    chosen = {n for n in CLIENTS if (asked.clients or "") in n}
    chosen |= {PEERS[name] for name in chosen}
    print(heading(asked))
    print(table_head("client"))
    with target_of(asked) as target:
        for codec in asked.codecs:
            for size in asked.sizes:
                topic = f"bench-{codec}-{size}-{time.time_ns()}"
                values = values_of(asked.records, size)
                asyncio.run(fill(target, topic, asked.partitions, codec, values))
                rounds: dict[str, list[Cost]] = {n: [] for n in CLIENTS if n in chosen}
                for _ in range(asked.rounds):
                    for name, costs in rounds.items():
                        read = CLIENTS[name]
                        partitions = range(asked.partitions)
                        cost = read(target, topic, partitions, asked.records)
                        costs.append(asyncio.run(cost))
                for row in rows_of(rounds, PEERS, codec, size, asked.records):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
