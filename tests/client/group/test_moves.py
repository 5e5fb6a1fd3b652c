"""Coordinators that move or stop: on kohort only, which can move them."""

from __future__ import annotations

from tests.client.stage import (
    consumer,
    fill,
    is_shared,
    poll_until,
    take,
)

from kohort.broker.server import Broker
from kohort.client import Admin, TopicPartition

T0 = TopicPartition("t", 0)
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


async def test_the_coordinators_node_stops() -> None:
    """Another node takes over; pending requests are sent again."""
    config = NO_DELAY | {"default.replication.factor": 3}
    async with Broker(config, nodes=3) as cluster:
        await fill(cluster, counts=[4, 4])
        async with consumer(cluster, "t", group_id="g") as a:
            await take(a, 8)
            async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                group = (await admin.describe_consumer_groups(["g"]))["g"]
            await cluster.stop_node(group.coordinator_id)
            await a.commit()
            await fill(cluster, counts=[2, 2], is_new=False)
            assert len(await take(a, 4)) == 4
            async with consumer(cluster, "t", group_id="g") as b:
                await poll_until(lambda: is_shared(2, a, b), a, b)
