"""Transactions while their coordinator, a leader or the group's coordinator moves."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.producer_stage import producer
from tests.client.stage import PATIENCE, consumer, fill, take

from kohort.broker.server import Broker
from kohort.client.offsets import OffsetAndMetadata, TopicPartition

REPLICATED = {
    "group.initial.rebalance.delay.ms": 0,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
}
READING = {"group_id": "g", "enable_auto_commit": False}
SOURCE = TopicPartition("source", 0)


@pytest.mark.parametrize("stopped", [1, 2, 3])
@pytest.mark.parametrize("ends", ["commit", "abort"])
async def test_a_node_stops_in_the_middle(stopped: int, ends: str) -> None:
    """Whichever it is: the transaction ends as the application wants it to."""
    async with Broker(REPLICATED, nodes=3) as broker:
        await fill(broker, "source", [2])
        await fill(broker, "t", [0, 0, 0])
        servers = broker.bootstrap_servers
        async with (
            asyncio.timeout(PATIENCE),
            consumer(
                broker, "source", group_id="g", enable_auto_commit=False
            ) as reader,
            producer(servers, transactional_id="x") as to,
        ):
            await take(reader, 2)
            await to.begin_transaction()
            for partition in range(3):
                await to.send("t", b"before", partition=partition)
            await to.flush()
            await broker.stop_node(stopped)
            for partition in range(3):
                await to.send("t", b"after", partition=partition)
            group = reader.group_metadata()
            await to.send_offsets_to_transaction({SOURCE: 2}, group)
            is_commit = ends == "commit"
            await (to.commit_transaction if is_commit else to.abort_transaction)()
            expected = OffsetAndMetadata(2) if is_commit else None
            assert await reader.committed(SOURCE) == {SOURCE: expected}
            await broker.start_node(stopped)
            async with to.transaction():
                for partition in range(3):
                    await to.send("t", b"next", partition=partition)
        async with consumer(broker, isolation_level="read_committed") as reader:
            reader.assign([TopicPartition("t", number) for number in range(3)])
            found = await take(reader, 9 if is_commit else 3)
        kept = ["after", "before", "next"] if is_commit else ["next"]
        assert sorted(found) == sorted(kept * 3)
