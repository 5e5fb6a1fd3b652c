"""Compares with Apache Kafka 4.3's cleaner, byte for byte, for the same batches.

Recorded from a broker of one node (kafka-server 4.3.0, log.cleaner.backoff.ms=500) with
topics of one partition, cleanup.policy=compact, segment.ms=1000 and
min.cleanable.dirty.ratio=1.0, so that nothing is cleaned early. Each test produces the
same batches (raw Produce v7 requests) in the same order; the last batch before a
cleaning is 10 s younger than the ones before it, so that Kafka begins a segment with
it. Then min.cleanable.dirty.ratio=0.01, until the topic's line in
cleaner-offset-checkpoint has the base offset of the newest segment, and 1.0 again. The
literals are the batches of all .log files except the newest (kafka-dump-log
--print-data-log shows the same). The time of a cleaning is in its delete horizons,
minus delete.retention.ms, which is a day unless a test sets 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kohort.broker.log import compaction
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.protocol import compression
from kohort.protocol.records import (
    HEADER_SIZE,
    Record,
    build_batch,
    read_header,
    read_headers,
    read_records,
)

TIME = 1_700_000_000_000
DAY = 86_400_000
EVERYTHING = 10**9


def batches(text: str) -> list[str]:
    """The hexadecimal digits of batches, separated by commas."""
    return ["".join(one.split()) for one in text.split(",")]


KEYS = batches("""
    00000000000000030000004c00000000029d89dded004000000001000001a2026fdd44000001
    8bcfe56804ffffffffffffffffffffffffffff000000021a0081d5d3a8c60500026102320018
    00ffd4d3a8c6050202620100,
    00000000000000050000003a00000000025ec046ff0000000000000000018bcfe56805000001
    8bcfe56805ffffffffffffffffffffffffffff00000001100000000264023100,
    00000000000000060000003a00000000026cdf6d4e0000000000010000018bcfe56806000001
    8bcfe56806ffffffffffffffffffffffffffff00000001100000020263023300
""")
KEYS_AGAIN = batches("""
    00000000000000030000004c00000000029d89dded004000000001000001a2026fdd44000001
    8bcfe56804ffffffffffffffffffffffffffff000000021a0081d5d3a8c60500026102320018
    00ffd4d3a8c6050202620100,
    00000000000000060000003a00000000026cdf6d4e0000000000010000018bcfe56806000001
    8bcfe56806ffffffffffffffffffffffffffff00000001100000020263023300,
    00000000000000080000003d0000000002d4849c260000000000000000018bcfe58f10000001
    8bcfe58f10ffffffffffffffffffffffffffff000000011600000008726f6c6c023100,
    00000000000000090000003a0000000002487855e20000000000000000018bcfe5b620000001
    8bcfe5b620ffffffffffffffffffffffffffff00000001100000000264023200
""")
PRODUCERS = batches("""
    0000000000000002000000310000000002e5344546000000000001ffffffffffffffff000001
    8bcfe56803000000000000000700000000000200000000,
    00000000000000050000003e000000000206cfab2c004000000001000001a1fd4991c4000001
    8bcfe568050000000000000009000000000000000000011800fda6a1d6c5050202740100,
    00000000000000070000003a000000000242de5ffc0000000000000000018bcfe56806000001
    8bcfe56806000000000000000800000000000100000001100000000262023400,
    00000000000000080000003a0000000002da4056ea0000000000000000018bcfe56806000001
    8bcfe56806000000000000000a00000000000000000001100000000261023900
""")
PRODUCERS_AGAIN = batches("""
    0000000000000002000000310000000002e5344546000000000001ffffffffffffffff000001
    8bcfe56803000000000000000700000000000200000000,
    0000000000000005000000310000000002dc976506000000000001ffffffffffffffff000001
    8bcfe56805000000000000000900000000000000000000,
    00000000000000070000003a000000000242de5ffc0000000000000000018bcfe56806000001
    8bcfe56806000000000000000800000000000100000001100000000262023400,
    00000000000000080000003a0000000002da4056ea0000000000000000018bcfe56806000001
    8bcfe56806000000000000000a00000000000000000001100000000261023900,
    00000000000000090000003d00000000029d0181770000000000000000018bcfe58f10000001
    8bcfe58f10000000000000000a000000000001000000011600000008726f6c6c023100,
    000000000000000a0000003a0000000002487855e20000000000000000018bcfe5b620000001
    8bcfe5b620ffffffffffffffffffffffffffff00000001100000000264023200
""")
KEYLESS = batches("""
    0000000000000000000000480000000002af8397bd0000000000020000018bcfe56800000001
    8bcfe56800ffffffffffffffffffffffffffff000000021000000002610231001a0081a0abfe
    f962040262023100,
    0000000000000003000000310000000002cdc87394000000000001ffffffffffffffff000001
    8bcfe56803ffffffffffffffffffffffffffff00000000
""")
KEYLESS_AGAIN = batches("""
    0000000000000000000000480000000002af8397bd0000000000020000018bcfe56800000001
    8bcfe56800ffffffffffffffffffffffffffff000000021000000002610231001a0081a0abfe
    f962040262023100,
    00000000000000050000003d0000000002d4849c260000000000000000018bcfe58f10000001
    8bcfe58f10ffffffffffffffffffffffffffff000000011600000008726f6c6c023100
""")
APPEND_TIME = batches("""
    00000000000000000000003a000000000232f3d1de000800000001000001a1fd49b046000001
    a1fd49b046ffffffffffffffffffffffffffff00000001100000020262023100,
    0000000000000002000000480000000002cc0ec1cc004800000001000001a20270138f000001
    a1fd49b049ffffffffffffffffffffffffffff0000000216008b8db35200026102320014008b
    8db3520202630100
""")
GZIP = batches("""
    0000000000000000000000520000000002504bf5e50001000000010000018bcfe56801000001
    8bcfe56801ffffffffffffffffffffffffffff000000011f8b08000000000000ffbbc1c8c0c0
    c4947482b18c0e8001000e4edcec6e000000,
    000000000000000200000031000000000226e4d9a9000000000000ffffffffffffffff000001
    8bcfe56802000000000000000500000000000000000000,
    00000000000000030000004e00000000024acdda1b0001000000000000018bcfe56803000001
    8bcfe56803ffffffffffffffffffffffffffff000000011f8b08000000000000031360606060
    4a643266000087247c4409000000
""")
SNAPPY = batches("""
    0000000000000000000000590000000002458631bb0002000000010000018bcfe56801000001
    8bcfe56801ffffffffffffffffffffffffffff0000000182534e415050590000000001000000
    01000000146e24d8010000020262c80176fe01008a01000000,
    000000000000000200000031000000000226e4d9a9000000000000ffffffffffffffff000001
    8bcfe56802000000000000000500000000000000000000,
    00000000000000030000005000000000021e694e660002000000000000018bcfe56803000001
    8bcfe56803ffffffffffffffffffffffffffff0000000182534e415050590000000001000000
    010000000b0920100000000261023300
""")
LZ4 = batches("""
    00000000000000000000005400000000028a80c8770003000000010000018bcfe56801000001
    8bcfe56801ffffffffffffffffffffffffffff0000000104224d1860408214000000afd80100
    00020262c8017601004c50767676760000000000,
    000000000000000200000031000000000226e4d9a9000000000000ffffffffffffffff000001
    8bcfe56802000000000000000500000000000000000000,
    0000000000000003000000490000000002e9b41b490003000000000000018bcfe56803000001
    8bcfe56803ffffffffffffffffffffffffffff0000000104224d186040820900008010000000
    026102330000000000
""")
ZSTD = batches("""
    00000000000000000000004e0000000002f2c5e3bf0004000000010000018bcfe56801000001
    8bcfe56801ffffffffffffffffffffffffffff0000000128b52ffd00588c000058d801000002
    0262c80176000100200548010000,
    000000000000000200000031000000000226e4d9a9000000000000ffffffffffffffff000001
    8bcfe56802000000000000000500000000000000000000,
    0000000000000003000000430000000002c1d8639f0004000000000000018bcfe56803000001
    8bcfe56803ffffffffffffffffffffffffffff0000000128b52ffd2009490000100000000261
    023300
""")
HORIZON = batches("""
    00000000000000000000005a0000000002fbbd5b0b004000000002000001a202703bd3000001
    8bcfe56802ffffffffffffffffffffffffffff000000031a00a5cfd6a8c60500026102310018
    00a3cfd6a8c60502027401001a00a1cfd6a8c605040262023100
""")
HORIZON_AGAIN = batches("""
    00000000000000000000004c0000000002f0d6ce91004000000002000001a202703bd3000001
    8bcfe56802ffffffffffffffffffffffffffff000000021800a3cfd6a8c60502027401001a00
    a1cfd6a8c605040262023100,
    00000000000000030000003d0000000002d4849c260000000000000000018bcfe58f10000001
    8bcfe58f10ffffffffffffffffffffffffffff000000011600000008726f6c6c023100,
    00000000000000040000003a0000000002ee1fcea90000000000000000018bcfe5b620000001
    8bcfe5b620ffffffffffffffffffffffffffff00000001100000000261023200
""")


class Scene:
    """A compacted topic with Kafka's settings."""

    def __init__(self, **config: Any) -> None:
        self.fields = {
            "cleanup_policy": "compact",
            "min_cleanable_dirty_ratio": 0.01,
            **config,
        }
        self.partition = Partition("t-0", LogConfig(**self.fields))

    def set(self, **config: Any) -> None:
        """Alters the topic's configuration."""
        self.fields.update(config)
        self.partition.config = LogConfig(**self.fields)

    def send(
        self,
        *some: tuple[bytes | None, bytes | None, int],
        now_ms: int = TIME,
        **fields: Any,
    ) -> None:
        """Appends a batch of (key, value, ms after TIME)."""
        made = [Record(0, TIME + time, key, value) for key, value, time in some]
        batch = build_batch(made, **fields)
        assert not self.partition.append(batch, now_ms=now_ms).error_code

    def produce(self, producer_id: int, sequence: int, *some: Any) -> None:
        """Appends a batch of an idempotent producer."""
        ids = {"producer_id": producer_id, "base_sequence": sequence}
        self.send(*some, producer_epoch=0, **ids)

    def clean(self, now_ms: int) -> list[str]:
        """Cleans, and returns all batches except the newest, in hexadecimal digits."""
        for _ in compaction.clean(self.partition, now_ms):
            pass
        start = self.partition.log_start_offset
        found = self.partition.read(start, EVERYTHING, minimum_one=True)
        data = b"".join(found.buffers)
        return [data[at : at + h.size].hex() for h, at in read_headers(data)][:-1]


def time_of(batches: Sequence[str], index: int, retention_ms: int = DAY) -> int:
    """The time of Kafka's cleaning, from the delete horizon of a batch."""
    return read_header(bytes.fromhex(batches[index])).base_timestamp - retention_ms


def test_keys_and_a_tombstone() -> None:
    """The newest record of each key stays; a batch without losses is unchanged.

    The batch with a tombstone gets a delete horizon, and keeps it when the retention
    changes.
    """
    scene = Scene()
    headers = (("h", b"x"), ("n", None))
    first = [
        Record(0, TIME, b"a", b"1"),
        Record(0, TIME + 1, b"b", b"1", headers),
        Record(0, TIME + 2, b"c", b"1"),
    ]
    scene.partition.append(build_batch(first), now_ms=TIME)
    scene.send((b"a", b"2", 3), (b"b", None, 4))
    scene.send((b"d", b"1", 5))
    scene.send((b"c", b"2", 9), (b"c", b"3", 6))
    scene.send((b"roll", b"1", 10_000))
    assert scene.clean(time_of(KEYS, 0)) == KEYS

    scene.set(delete_retention_ms=0)
    scene.send((b"d", b"2", 20_000))
    scene.send((b"roll2", b"1", 30_000))
    assert scene.clean(time_of(KEYS, 0) + 3000) == KEYS_AGAIN


def test_the_last_batch_of_a_producer_stays() -> None:
    """It stays without records, so that the producer's sequence survives.

    With delete.retention.ms=0 a tombstone is dropped by the second cleaning that sees
    it.
    """
    scene = Scene(delete_retention_ms=0)
    scene.produce(7, 0, (b"a", b"1", 0), (b"b", b"1", 1))
    scene.produce(7, 2, (b"a", b"2", 2), (b"b", b"2", 3))
    scene.produce(8, 0, (b"a", b"3", 4))
    scene.produce(9, 0, (b"b", None, 5), (b"t", None, 5))
    scene.produce(8, 1, (b"b", b"4", 6))
    scene.produce(10, 0, (b"a", b"9", 6))
    scene.produce(10, 1, (b"roll", b"1", 10_000))
    now_ms = time_of(PRODUCERS, 1, 0)
    assert scene.clean(now_ms) == PRODUCERS

    scene.send((b"d", b"2", 20_000))
    scene.send((b"roll2", b"1", 30_000))
    assert scene.clean(now_ms) == PRODUCERS_AGAIN


def test_records_without_a_key_go() -> None:
    """Records without a key, from before compaction, are dropped.

    The last batch of a cleaning stays without records, until the next one.
    """
    scene = Scene(cleanup_policy="delete", retention_ms=-1)
    scene.send((b"a", b"1", 0), (None, b"x", 1), (b"b", b"1", -TIME - 1))
    scene.send((None, b"x", 2), (None, b"y", 3), codec=compression.GZIP)
    scene.set(cleanup_policy="compact")
    scene.send((b"roll", b"1", 10_000))
    assert scene.clean(TIME) == KEYLESS

    scene.send((b"roll", b"2", 20_000))
    assert scene.clean(TIME) == KEYLESS_AGAIN


def test_log_append_time() -> None:
    """All records of a batch keep their common time."""
    scene = Scene(message_timestamp_type=LOG_APPEND_TIME)
    headers = [read_header(bytes.fromhex(batch)) for batch in APPEND_TIME]
    scene.send((b"a", b"1", 0), (b"b", b"1", 1), now_ms=headers[0].max_timestamp)
    scene.send((b"a", b"2", 0), (b"c", None, 1), now_ms=headers[1].max_timestamp)
    scene.send((b"roll", b"1", 0), now_ms=headers[1].max_timestamp + 1500)
    assert scene.clean(time_of(APPEND_TIME, 1)) == APPEND_TIME


def test_a_batch_with_a_horizon_loses_a_record() -> None:
    """The horizon does not change."""
    scene = Scene()
    scene.send((b"a", b"1", 0), (b"t", None, 1), (b"b", b"1", 2))
    scene.send((b"roll", b"1", 10_000))
    now_ms = time_of(HORIZON, 0)
    assert scene.clean(now_ms) == HORIZON

    scene.send((b"a", b"2", 20_000))
    scene.send((b"roll", b"2", 30_000))
    assert scene.clean(now_ms + 3000) == HORIZON_AGAIN


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (compression.GZIP, GZIP),
        (compression.SNAPPY, SNAPPY),
        (compression.LZ4, LZ4),
        (compression.ZSTD, ZSTD),
    ],
    ids=compression.CODECS[1:],
)
def test_compressed_batches(codec: int, expected: Sequence[str]) -> None:
    """A rewritten batch has the same codec, and the same decompressed bytes.

    The compression ratio differs. A batch without records has no codec.
    """
    scene = Scene()
    scene.send((b"a", b"1", 0), (b"b", b"v" * 100, 1), codec=codec)
    ids = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    scene.send((b"a", b"2", 2), codec=codec, **ids)
    scene.send((b"a", b"3", 3), codec=codec)
    scene.send((b"roll", b"1", 10_000), codec=codec)
    found = scene.clean(TIME)
    assert [shown(batch) for batch in found] == [shown(batch) for batch in expected]


def shown(digits: str) -> tuple[Any, ...]:
    """A batch without the fields that depend on compression."""
    batch = bytes.fromhex(digits)
    header = read_header(batch)
    assert header.size == len(batch)
    packed = memoryview(batch)[HEADER_SIZE:]
    data = compression.decompress(header.codec, packed) if packed else b""
    fields = [getattr(header, name) for name in BATCH_FIELDS]
    return (*fields, data, list(read_records(batch)) if packed else [])


BATCH_FIELDS = (
    "base_offset",
    "partition_leader_epoch",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
