"""The cost of producing: this client next to aiokafka and confluent-kafka.

Each client sends the same records to the same broker, one client after the other and
several rounds; the broker is a separate process, or any Kafka:

    python -m bench.produce
    python -m bench.produce --bootstrap localhost:9092 --codecs none zstd

Printed are the fastest round's megabytes a second (of values, until the last is
acknowledged), CPU time of the client in its best round, and its ratio to aiokafka's,
the median of the rounds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import cast

from aiokafka import AIOKafkaProducer
from bench.measured import (
    Cost,
    Meter,
    create,
    heading,
    key_of,
    parser_for,
    rows_of,
    table_head,
    target_of,
    values_of,
)
from confluent_kafka import Producer as ConfluentProducer

from kohort.client.config import CompressionType
from kohort.client.producer import Producer

LINGER_MS = 5
BATCH_SIZE = 16_384
WARM_UP = 100
"""Records that are sent before it counts."""

Values = list[bytes]
Send = Callable[[str, str, str, Values], Coroutine[None, None, None]]
"""Sends values to a topic: (bootstrap servers, topic, codec, values)."""


async def send_kohort(servers: str, topic: str, codec: str, values: Values) -> None:
    """This client; acks=all and idempotence, as all three here."""
    async with Producer(
        bootstrap_servers=servers,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
        compression_type=cast(CompressionType, codec),
    ) as producer:
        deliveries = [
            await producer.send(topic, value, key_of(number))
            for number, value in enumerate(values)
        ]
        await producer.flush()
        for delivery in deliveries:
            delivery.result()


async def send_aiokafka(servers: str, topic: str, codec: str, values: Values) -> None:
    """Produces with aiokafka, as its documentation recommends for many records."""
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_SIZE,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        deliveries = [
            await producer.send(topic, value, key_of(number))
            for number, value in enumerate(values)
        ]
        await producer.flush()
        for delivery in deliveries:
            delivery.result()
    finally:
        await producer.stop()


async def send_confluent(servers: str, topic: str, codec: str, values: Values) -> None:
    """confluent-kafka: librdkafka's threads, with a callback per record."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": servers,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
            "compression.type": codec,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "queue.buffering.max.messages": len(values) + 1,
        }
    )
    failed = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for number, value in enumerate(values):
        producer.produce(topic, value, key_of(number), on_delivery=told)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(failed[0])


CLIENTS: dict[str, Send] = {
    "kohort": send_kohort,
    "aiokafka": send_aiokafka,
    "confluent-kafka": send_confluent,
}


PEERS = dict.fromkeys(CLIENTS, "aiokafka")


def main() -> None:
    """Has all clients produce to a broker."""
    asked = parser_for(__doc__, records=100_000, codecs=["none", "lz4"]).parse_args()
    print(heading(asked))
    print(table_head("client"))
    with target_of(asked) as target:
        for codec in asked.codecs:
            for size in asked.sizes:
                values = values_of(asked.records, size)
                rounds: dict[str, list[Cost]] = {name: [] for name in CLIENTS}
                for _ in range(asked.rounds):
                    for name, send in CLIENTS.items():
                        topic = f"bench-{codec}-{size}-{time.time_ns()}"
                        asyncio.run(create(target, topic, asked.partitions))
                        some = values[:WARM_UP]
                        asyncio.run(send(target.servers, topic, codec, some))
                        meter = Meter(target)
                        asyncio.run(send(target.servers, topic, codec, values))
                        rounds[name].append(meter.read())
                for row in rows_of(rounds, PEERS, codec, size, asked.records):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
