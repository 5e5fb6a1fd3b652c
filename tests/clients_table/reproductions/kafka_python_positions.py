"""kafka-python: a removed member goes on at its old position, and commits that."""

import asyncio
import threading

from kafka import KafkaConsumer

from kohort.broker.server import Broker
from kohort.client import Producer
from kohort.control.group import Group


def consume(servers: str, client: str, stop: threading.Event) -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        client_id=client,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        request_timeout_ms=5000,
        max_poll_interval_ms=10000,
    )
    while not stop.is_set():
        for records in consumer.poll(timeout_ms=1000).values():
            print(client, [record.offset for record in records])
            consumer.commit()
    consumer.close()


async def main() -> None:
    async with Broker() as broker:
        servers, stop = broker.bootstrap_servers, threading.Event()
        group = Group(broker, "billing")
        broker.cluster.create_topic("orders", 2)
        async with (
            asyncio.TaskGroup() as tasks,
            Producer(bootstrap_servers=servers) as producer,
        ):
            for client in ("one", "two"):
                tasks.create_task(asyncio.to_thread(consume, servers, client, stop))
            await group.until(state="Stable", members=2)
            # Its session expires meanwhile, and the other member reads everything.
            broker.faults.swallow("JoinGroup", client_id="one", once=True)
            group.rebalance()
            for number in range(300):
                await producer.send("orders", b"", partition=number % 2)
                await asyncio.sleep(0.1)
            stop.set()


asyncio.run(main())
