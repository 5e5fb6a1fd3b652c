"""librdkafka: after one refused OffsetFetch a partition is never read again."""

import asyncio

from confluent_kafka import Consumer

from kohort.broker.server import Broker
from kohort.client import Producer


def consume(servers: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    for _ in range(30):
        message = consumer.poll(1.0)
        print("nothing" if message is None else message.error() or message.value())
    consumer.close()


async def main() -> None:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"a record")
        broker.faults.fail("OffsetFetch", "NOT_COORDINATOR", once=True)
        await asyncio.to_thread(consume, servers)


asyncio.run(main())
