"""Housekeeping: compaction and retention, and other work meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import os
from pathlib import Path

import pytest
from tests.broker.test_cluster import elsewhere, heartbeat, offsets, stable, until
from tests.broker.test_restart import broker_on, committed
from tests.broker.topics import delete_topic
from tests.wire.client import connected

from kohort.broker.housekeeping import PARTITIONS_AT_ONCE
from kohort.broker.log.partition import Partition
from kohort.broker.server import Broker
from kohort.protocol.records import HEADER_SIZE, Record, build_batch, crc_of
from kohort.protocol.slotted import replace

DIRTY = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
OFTEN = {"log.cleaner.backoff.ms": 1, "group.initial.rebalance.delay.ms": 0}


def log_of(broker: Broker, group: str = "g") -> Partition:
    """The log of a group's shard."""
    index = broker.cluster.shards.index_of(group)
    return broker.cluster.topics.by_name["__consumer_offsets"].partitions[index]


async def test_commits_do_not_fill_the_memory() -> None:
    """A group that commits forever has its last commit in the log, and few others."""
    async with Broker(OFTEN) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        member_id = await stable(client)
        log = log_of(broker)
        for offset in range(200):
            await client.call("OffsetCommit", 8, offsets(offset, group="simple"))
        simple = log_of(broker, "simple")
        end = simple.log_end_offset
        await until(lambda: len(simple.store) < 10)
        assert simple.log_end_offset == end
        assert await committed(client, "simple") == {"t": 199}
        assert await heartbeat(client, member_id) == 0
        assert len(log.store)


async def test_a_compacted_shard_moves() -> None:
    """The next coordinator loads the compacted shard."""
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
        await until(lambda: len(log.store) < 10)
        new = elsewhere(broker, old)
        broker.move_coordinator("g", new)
        assert await committed(clients[new]) == {"t": 99}


async def test_a_consumer_reads_what_compaction_left(tmp_path: Path) -> None:
    """confluent-kafka finds the last value of each key, also after a restart."""
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
        # Of 3 MB only the newest segment is not compacted.
        await until(lambda: topic.partitions[0].size_in_bytes < 1_200_000)
        assert await asyncio.to_thread(consume, servers) == expected
    async with broker_on(path) as broker:
        found = await asyncio.to_thread(consume, broker.bootstrap_servers)
        assert found == expected


def damaged(now_ms: int) -> bytes:
    """A batch with a valid checksum and a damaged record."""
    data = bytearray(build_batch([Record(0, now_ms, b"k", b"v")]))
    data[HEADER_SIZE] = 0x7E
    data[17:21] = crc_of(data[21:]).to_bytes(4, "big")
    return bytes(data)


async def test_a_topic_made_anew_is_compacted_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The damage of a log is forgotten with its topic."""
    async with Broker(OFTEN) as broker:
        cluster, now_ms = broker.cluster, broker.cluster.now_ms()
        old = cluster.create_topic("t", 1, overrides={"cleanup.policy": "delete"})
        log = old.partitions[0]
        log.append_own(damaged(now_ms), now_ms=now_ms)  # own batches are not checked
        log.append(build_batch([Record(0, now_ms, b"k", b"v")]), now_ms=now_ms)
        cluster.topics.configure(old, DIRTY)
        await until(lambda: "never_compacted_again" in capsys.readouterr().err)
        delete_topic(broker, "t")
        log = cluster.create_topic("t", 1, overrides=DIRTY).partitions[0]
        for _ in range(10):
            log.append(build_batch([Record(0, now_ms, b"k", b"v")]), now_ms=now_ms)
        await until(lambda: len(log.store) < 3)


async def test_a_log_that_cannot_be_read_does_not_keep_others_dirty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes one warning a round, and the others are compacted."""
    path = tmp_path / "data"
    async with Broker(OFTEN, data_dir=path) as broker:
        cluster, now_ms = broker.cluster, broker.cluster.now_ms()
        # Only its age makes it due, so its records are read.
        old = {"min.cleanable.dirty.ratio": "1.0", "max.compaction.lag.ms": "1"}
        damaged = cluster.create_topic("a", 1, overrides=DIRTY | old).partitions[0]
        fill(damaged, now_ms - 60_000)
        os.truncate(path / "a-0" / "00000000000000000000.log", 0)
        await until(lambda: "compaction_failed" in capsys.readouterr().err)
        log = cluster.create_topic("b", 1, overrides=DIRTY).partitions[0]
        fill(log, now_ms - 60_000)
        await until(lambda: len(log.store) < 3)


async def test_compaction_waits_for_its_backoff() -> None:
    """Two hours here: no maximum shortens the interval."""
    config = {"log.cleaner.backoff.ms": 7_200_000}
    async with Broker(config, clock="manual") as broker:
        log = broker.cluster.create_topic("t", 1, overrides=DIRTY).partitions[0]
        fill(log, broker.cluster.now_ms())
        await broker.clock.advance(7199)
        assert len(log.store) == 10
        await broker.clock.advance(2)
        assert len(log.store) < 3


async def test_silent_producers_are_forgotten_at_their_own_interval() -> None:
    """Then a batch that is sent again is appended again, as in Kafka."""
    config = {
        "producer.id.expiration.ms": 1_000,
        "producer.id.expiration.check.interval.ms": 2_000,
    }
    async with Broker(config, clock="manual") as broker:
        (partition,) = broker.cluster.create_topic("t", 1).partitions
        record = Record(0, broker.cluster.now_ms(), None, b"x", ())
        batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
        for seconds, end in ((0, 1), (1.9, 1), (0.2, 2)):
            await broker.clock.advance(seconds)
            assert not partition.append(batch, now_ms=record.timestamp_ms).error_code
            assert partition.log_end_offset == end


async def test_retention_lets_requests_come_in_between() -> None:
    """It checks some partitions in a turn of the event loop, not all of them."""
    config = {"log.retention.check.interval.ms": 1}
    async with Broker(config) as broker:
        topic = broker.cluster.create_topic("t", 3 * PARTITIONS_AT_ONCE)
        batch = build_batch([Record(0, 1_000, b"k", b"v")])
        for log in topic.partitions:
            assert not log.append(batch, now_ms=broker.cluster.now_ms()).error_code
        left = [len(topic.partitions)]
        while left[-1]:
            await asyncio.sleep(0)
            left.append(sum(log.size_in_bytes > 0 for log in topic.partitions))
        dropped = {before - after for before, after in itertools.pairwise(left)}
        assert max(dropped) <= PARTITIONS_AT_ONCE


def fill(log: Partition, time_ms: int) -> None:
    """Ten batches with the same key, and a new segment for the last one."""
    config = log.config
    for number in range(10):
        if number == 9:
            log.config = replace(config, segment_ms=1)
        batch = build_batch([Record(0, time_ms + number * 1000, b"k", b"v")])
        assert not log.append(batch, now_ms=time_ms + number * 1000).error_code
    log.config = config
