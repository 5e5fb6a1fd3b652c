"""aiokafka: a refused commit is repeated by a member that has lost the partition."""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition

from kohort.broker.server import Broker
from kohort.client import Producer


def member(servers: str, name: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def main() -> None:
    async with Broker({"num.partitions": 2}) as broker:
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for number in range(6):
                value = b"record %d" % number
                await producer.send("orders", value, partition=number % 2)
        async with member(servers, "ana") as ana:
            await ana.getone()
            refusal = broker.faults.fail(
                "OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", client_id="ana"
            )
            first = {TopicPartition("orders", number): 1 for number in (0, 1)}
            commit = asyncio.create_task(ana.commit(first))
            async with member(servers, "ben") as ben:
                await ben.getone()
                (moved,) = ben.assignment()
                await ben.commit({moved: 3})
                broker.faults.remove(refusal.id)
                await commit
                print(await ben.committed(moved))  # 1, not 3


asyncio.run(main())
