"""aiokafka: a refused OffsetFetch counts as "nothing is committed"."""

import asyncio

from aiokafka import AIOKafkaConsumer

from kohort.broker.server import Broker
from kohort.client import Producer


async def consume(servers: str) -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        print((await consumer.getone()).value)
        await consumer.commit()


async def main() -> None:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(3):
                await producer.send("orders", b"record %d" % number, partition=0)
        await consume(servers)  # record 0, which is then committed
        broker.faults.fail("OffsetFetch", "NOT_COORDINATOR", once=True)
        # Record 0 again. With "latest": none, and records 1 and 2 are lost.
        await consume(servers)


asyncio.run(main())
