"""Another, empty cluster in the place of one, on the same ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.server import Broker
from kohort.client import Consumer, Producer

NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


async def consumed(servers: str, count: int) -> list[bytes | None]:
    """Reads and commits this number of records in the group billing."""
    async with Consumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
    ) as consumer:
        found = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    return found


@pytest.mark.parametrize("seed", [None, 7])
async def test_another_cluster_has_other_ids_and_nothing_else(seed: int | None) -> None:
    """Also with a seed, which repeats the ids of a run, not of a cluster."""
    async with Broker(NO_DELAY, nodes=2, seed=seed) as broker:
        rule = broker.faults.fail("OffsetCommit", "NOT_COORDINATOR", group="none")
        seen = set()
        for value in (b"one", b"two", b"three"):
            servers = broker.bootstrap_servers
            broker.cluster.create_topic("orders", 1)
            async with Producer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait("orders", value)
            # Nothing is committed, and nothing left of an earlier cluster.
            assert await consumed(servers, 1) == [value]
            seen |= {broker.cluster.id, broker.cluster.topics.by_name["orders"].id}
            await broker.replace()
            assert broker.bootstrap_servers == servers
            assert not broker.cluster.topics.by_name
            assert not [*broker.cluster.shards.groups()]
        assert len(seen) == 6
        assert broker.faults.rules == [rule]


async def test_a_client_goes_on_at_another_cluster() -> None:
    """A producer's connections end; it finds the topic of the other cluster."""
    async with Broker(NO_DELAY) as broker:
        broker.cluster.create_topic("orders", 1)
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"one")
            await broker.replace()
            broker.cluster.create_topic("orders", 1)
            metadata = await producer.send_and_wait("orders", b"two")
        assert metadata.offset == 0


async def test_a_data_directory_stays(tmp_path: Path) -> None:
    """Its cluster is not replaced, and goes on."""
    async with Broker(NO_DELAY, data_dir=tmp_path) as broker:
        with pytest.raises(ClusterError, match="data directory"):
            await broker.replace()
        assert broker.is_running


async def test_a_stopped_broker_is_not_replaced() -> None:
    """It would be a start."""
    with pytest.raises(ClusterError, match="stopped"):
        await Broker().replace()
