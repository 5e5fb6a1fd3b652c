"""kafka-python: a leader never reads the response to its second SyncGroup."""

import asyncio
import time

from kafka import KafkaConsumer

from kohort.broker.server import Broker
from kohort.control.group import Group


def consume(servers: str) -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        metadata_max_age_ms=1000,
    )
    end = time.monotonic() + 30
    while time.monotonic() < end:
        consumer.poll(timeout_ms=100)
        print(consumer.assignment() or "nothing is assigned")
    consumer.close()


async def main() -> None:
    async with Broker({"auto.create.topics.enable": False}) as broker:
        task = asyncio.create_task(asyncio.to_thread(consume, broker.bootstrap_servers))
        group = Group(broker, "billing")
        await group.until(state="Stable", members=1)
        broker.faults.delay("SyncGroup", seconds=0.2)  # longer than a poll
        broker.cluster.create_topic("orders", 1)  # the leader sees it, and rejoins
        await task


asyncio.run(main())
