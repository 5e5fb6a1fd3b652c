"""aiokafka: a topic missing in Metadata is not read for metadata_max_age_ms, 5 min."""

import asyncio

from aiokafka import AIOKafkaConsumer

from kohort.broker.server import Broker
from kohort.client import Producer


async def main() -> None:
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing"
        )
        async with consumer, Producer(bootstrap_servers=servers) as producer:
            for second in range(40):
                await producer.send("orders", b"a record")
                await asyncio.sleep(1)
                records = await consumer.getmany()
                print(f"{second} s: {sum(map(len, records.values()))} records")
                if second == 8:
                    # It requests metadata, and the response lacks the topic.
                    broker.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", once=True)
                    broker.faults.fail(
                        "Metadata", "UNKNOWN_TOPIC_OR_PARTITION", once=True
                    )


asyncio.run(main())
