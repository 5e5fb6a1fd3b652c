"""What a broker does by itself: compaction, retention, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.broker.test_cluster import elsewhere, heartbeat, offsets, stable, until
from tests.broker.test_restart import broker_on, committed
from tests.broker.wire_client import connected

from kohort.broker.log.partition import Partition
from kohort.broker.server import Broker

OFTEN = {"log.cleaner.backoff.ms": 1, "group.initial.rebalance.delay.ms": 0}


def log_of(broker: Broker, group: str = "g") -> Partition:
    """The log of the shard that a group belongs to."""
    index = broker.cluster.shards.index_of(group)
    return broker.cluster.topics.by_name["__consumer_offsets"].partitions[index]


async def test_commits_do_not_fill_the_memory() -> None:
    """A group that commits for ever has its last commit in the log, and few before."""
    async with Broker(OFTEN) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        member_id = await stable(client)
        log = log_of(broker)
        for offset in range(200):
            await client.call("OffsetCommit", 8, offsets(offset, group="simple"))
        simple = log_of(broker, "simple")
        end = simple.log_end_offset
        await until(lambda: simple.batch_count < 10)
        assert simple.log_end_offset == end
        assert await committed(client, "simple") == {"t": 199}
        assert await heartbeat(client, member_id) == 0
        assert log.batch_count


async def test_a_compacted_shard_moves() -> None:
    """What compaction left is what the next coordinator finds."""
    async with (
        Broker(OFTEN, nodes=2) as broker,
        connected(broker, 1) as one,
        connected(broker, 2) as two,
    ):
        broker.cluster.create_topic("t", 1)
        clients = {1: one, 2: two}
        old = broker.coordinator_of("g")
        for offset in range(100):
            await clients[old].call("OffsetCommit", 8, offsets(offset))
        log = log_of(broker)
        await until(lambda: log.batch_count < 10)
        new = elsewhere(broker, old)
        broker.move_coordinator("g", new)
        assert await committed(clients[new]) == {"t": 99}


async def test_a_consumer_reads_what_compaction_left(tmp_path: Path) -> None:
    """confluent-kafka finds the last value of each key, after a restart, too."""
    confluent = pytest.importorskip("confluent_kafka")
    config: dict[str, object] = {
        "log.cleaner.backoff.ms": 1,
        "log.segment.bytes": 1048576,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }

    def produce(servers: str) -> None:
        producer = confluent.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1}
        )
        for number in range(3000):
            value = b"%d" % number + b"." * 1000
            producer.produce("t", key=b"key-%d" % (number % 10), value=value)
            producer.poll(0)
        assert producer.flush(30) == 0

    def consume(servers: str) -> dict[bytes, bytes]:
        consumer = confluent.Consumer(
            {"bootstrap.servers": servers, "group.id": "reader"}
        )
        low, high = consumer.get_watermark_offsets(confluent.TopicPartition("t", 0), 30)
        assert (low, high) == (0, 3000)
        consumer.assign([confluent.TopicPartition("t", 0, 0)])
        found: dict[bytes, bytes] = {}
        position = 0
        while position < high:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            assert message.offset() >= position
            position = message.offset() + 1
            found[message.key()] = message.value().rstrip(b".")
        consumer.close()
        return found

    expected = {b"key-%d" % (n % 10): b"%d" % n for n in range(2990, 3000)}
    overrides = {"cleanup.policy": "compact"}
    path = tmp_path / "data"
    async with Broker(config, data_dir=path) as broker:
        topic = broker.cluster.create_topic("t", 1, overrides=overrides)
        servers = broker.bootstrap_servers
        await asyncio.to_thread(produce, servers)
        # Of 3 MB only what is in the newest segment is not compacted.
        await until(lambda: topic.partitions[0].size_in_bytes < 1_200_000)
        assert await asyncio.to_thread(consume, servers) == expected
    async with broker_on(path) as broker:
        found = await asyncio.to_thread(consume, broker.bootstrap_servers)
        assert found == expected
