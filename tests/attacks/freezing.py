"""The attacks that once froze kohort; each is a generator, see `Attack.program`."""

from __future__ import annotations

import socket
import struct
import time

from tests.attacks.attack import Attack, Program
from tests.attacks.target import (
    Line,
    Target,
    batch,
    producing,
)
from tests.wire import frames as wire
from tests.wire.requests import (
    commit_offsets,
    create_topics,
    fetch_offsets,
    join_group,
    list_offsets,
    metadata,
)

from kohort.protocol import compression
from kohort.protocol.apis import k01_fetch as fetch
from kohort.protocol.apis import k32_describe_configs as configs
from kohort.protocol.generated_calls import uvarint

FOREVER_MS = 2**31 - 1
CENTURY_MS = 100 * 365 * 24 * 3600 * 1000
MINIMAL = bytes([0x0C, 0, 0, 0, 1, 1, 0])
"""A record of seven bytes: no key, no value, no headers, all deltas 0."""
KEYED = bytes([0x0E, 0, 0, 0, 2, ord("k"), 1, 0])
"""A minimal record with a key: a tombstone, which a compacted topic takes."""
RECORDS = 14_900_000
"""Minimal records in 100 MiB, the limit for a decompressed batch."""


def record_of(value: bytes) -> bytes:
    """A valid record without a key."""
    behind_size = b"\0\0\0\1" + _varint(len(value)) + value + b"\0"
    return _varint(len(behind_size)) + behind_size


def bomb(record: bytes, count: int, codec: int = compression.ZSTD) -> bytes:
    """A batch of one record many times, with a time in the far future."""
    packed = compression.compress(codec, record * count)
    now = int(time.time() * 1000)
    return batch(packed, count, codec, (now, now + CENTURY_MS))


def find_time(topic: str) -> bytes:
    """ListOffsets for a time that the batch claims to have, but no record has."""
    when = int(time.time() * 1000) + CENTURY_MS // 2
    return wire.request("ListOffsets", 5, list_offsets(topic, 0, timestamp=when))


def _zstd_bomb(target: Target) -> Program:
    target.create("bomb")
    data = producing("bomb", bomb(MINIMAL, RECORDS))
    yield
    produced = target.ask(data)
    return f"Produce: {produced}; ListOffsets: {target.ask(find_time('bomb'))}"


def _many_records(target: Target) -> Program:
    target.create("many")
    data = producing("many", _valid(b"\1"))
    yield
    produced = target.ask(data)
    return f"Produce: {produced}; ListOffsets: {target.ask(find_time('many'))}"


def _valid(key: bytes) -> bytes:
    """A batch of a million valid records, the maximum in kohort."""
    out = bytearray()
    for number in range(1_000_000):
        record = b"\0\0" + _varint(number) + key + b"\1\0"
        out += _varint(len(record)) + record
    packed = compression.compress(compression.ZSTD, bytes(out))
    now = int(time.time() * 1000)
    return batch(packed, 1_000_000, compression.ZSTD, (now, now + CENTURY_MS))


def _zstd_bomb_compacted(target: Target) -> Program:
    return _compacted(target, bomb(KEYED, 13_000_000))


def _many_records_compacted(target: Target) -> Program:
    return _compacted(target, _valid(b"\2k"))


def _compacted(target: Target, records: bytes) -> Program:
    target.create(
        "compacted",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_ms="100",
        min_compaction_lag_ms="0",
    )
    data = producing("compacted", records)
    yield
    produced = []
    for _ in range(3):  # the cleaner leaves the last segment alone
        produced.append(target.ask(data))
        time.sleep(ROLL_S)
    found = target.ask(find_time("compacted"))
    time.sleep(CLEANED_S)
    return f"Produce: {', '.join(produced)}; ListOffsets: {found}"


ROLL_S = 0.2
"""Twice segment.ms: the next batch begins another segment."""
CLEANED_S = 5.0
"""The cleaner checks once a second in this attack (log.cleaner.backoff.ms)."""
TAGS = 50_000_000


def _tags(target: Target) -> Program:
    # Tag 1, empty, repeatedly: in the header, and then in the body.
    many = uvarint(TAGS) + b"\1\0" * TAGS
    head = struct.pack(">hhih", 18, 3, 1, 0)
    software = b"\2a\2b"
    frames = [head + many + software + b"\0", head + b"\0" + software + many]
    yield
    answers = [target.ask(wire.frame(each)) for each in frames]
    return f"in the header: {answers[0]}; in the body: {answers[1]}"


def _metadata_repeated(target: Target) -> Program:
    target.create("m1k", 1_000)
    data = wire.request("Metadata", 9, metadata(*["m1k"] * 2_000))
    yield
    return target.ask(data)


def _offset_fetch_repeated(target: Target) -> Program:
    text = "m" * 4_000  # offset.metadata.max.bytes is 4,096
    for number in range(10):
        target.create(f"wide-{number}", 1_000)
        for first in range(0, 1_000, 200):
            # A commit is one batch, of up to 1 MB.
            rows = [(first + i, 1, -1, text) for i in range(200)]
            request = commit_offsets(f"wide-{number}", *rows, group="wide")
            found = target.call("OffsetCommit", 7, request).topics[0].partitions
            errors = {each.error_code for each in found}
            assert errors == {0}, errors
    data = wire.request("OffsetFetch", 8, fetch_offsets(*["wide"] * 20))
    yield
    return target.ask(data)


def _small() -> bytes:
    return batch(b"\x0e\0\0\0\1\2v\0", 1)


def _fetch_repeated(target: Target) -> Program:
    target.create("thin")
    row = struct.pack(">iqi", 0, 0, 1 << 20)
    rows = struct.pack(">i", 90_000) + row * 90_000
    head = struct.pack(">iiiib", -1, 10_000, 1 << 30, 1 << 30, 0)
    body = head + struct.pack(">ih", 1, 4) + b"thin" + rows
    data = wire.request("Fetch", 4, body)
    yield
    line = target.line()
    line.send_bytes(data)
    appends = _appends(target, "thin", 10)
    return f"{appends}; Fetch: {line.answer()}"


def _appends(target: Target, topic: str, count: int) -> str:
    """Appends small batches one after the other; returns the longest time."""
    longest = 0.0
    for _ in range(count):
        began = time.monotonic()
        target.produce(topic, _small())
        longest = max(longest, time.monotonic() - began)
    return f"longest of {count} appends {longest:.2f} s"


def _commit_rows(target: Target) -> Program:
    target.create("rows", 1_000)
    rows = b"".join(
        struct.pack(">iqi", number, 1, -1) + b"\1\0" for number in range(1_000)
    )
    head = b"\5rows" + struct.pack(">i", -1) + b"\1\0"
    commits = []
    for times in (90, 1_000):
        topic = b"\2" + b"\5rows" + uvarint(1_000 * times + 1) + rows * times
        commits.append(wire.request("OffsetCommit", 8, head + topic + b"\0\0"))
    yield
    return ", ".join(map(target.ask, commits))


def _new_topics(target: Target) -> Program:
    names = [f"new-{i}" for i in range(1_000)]
    data = wire.request("Metadata", 9, metadata(*names))
    yield
    return target.ask(data)


def _parts_of_create_topics(target: Target) -> Program:
    names = [f"part-{i}" for i in range(7_000)]
    data = wire.request("CreateTopics", 5, create_topics(*names))
    yield
    return target.ask(data)


def _parts_of_describe_configs(target: Target) -> Program:
    node = target.call("Metadata", 9, metadata()).brokers[0].node_id
    rows = [configs.DescribeConfigsResource(4, str(node), None)] * 300
    request = configs.DescribeConfigsRequest(rows, True, True)
    data = wire.request("DescribeConfigs", 4, request)
    yield
    return target.ask(data)


def _waiting_fetches(target: Target) -> Program:
    target.create("large")
    # One record of 999,000 bytes; there are 50, which is below fetch.max.bytes.
    data = batch(record_of(bytes(999_000)), 1)
    for _ in range(50):
        assert target.produce("large", data) == "NONE"
    waiting = fetching("large", 20_000, FOREVER_MS)
    yield
    for _ in range(40):
        target.line().send_bytes(waiting)
    return _appends(target, "large", 30)


def fetching(topic: str, max_wait_ms: int, min_bytes: int) -> bytes:
    """A Fetch of partition 0 from its beginning."""
    row = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=FOREVER_MS)
    request = fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[fetch.FetchTopic(topic, partitions=[row])],
    )
    return wire.request("Fetch", 4, request)


def _varint(value: int) -> bytes:
    return uvarint(value << 1)


def joining(group: str) -> bytes:
    """A JoinGroup that waits for all the others, as long as allowed."""
    request = join_group(group, session_ms=1_800_000, rebalance_ms=FOREVER_MS)
    return wire.request("JoinGroup", 3, request)


def _gone(target: Target) -> Program:
    target.create("quiet")
    # A member that joins after this one waits for it to rejoin.
    target.ask(joining("gone"))
    yield
    lines: list[Line] = []
    for number in range(200):
        line = target.line()
        waiting = number % 2
        line.send_bytes(
            joining("gone") if waiting else fetching("quiet", FOREVER_MS, 1)
        )
        lines.append(line)
    time.sleep(ARRIVAL_S)
    for number, line in enumerate(lines):
        if number % 3 == 0:
            line.vanish()
        elif number % 3 == 1:
            line.socket.close()
        else:
            line.socket.shutdown(socket.SHUT_WR)
    time.sleep(NOTICED_S)
    half_closed = lines[2::3]
    left = sum(not line.is_closed() for line in half_closed)
    found = f"{left} of {len(half_closed)} half-closed connections are open"
    return f"{found} after {NOTICED_S:.0f} s"


ARRIVAL_S = 0.5
"""By then all requests wait in the broker, which no response can show."""
NOTICED_S = 1.0
"""Time for a broker to notice; kfake closes all of them within it."""


def _unfinished(target: Target) -> Program:
    size = 90_000_000
    data = struct.pack(">i", size) + wire.request("ApiVersions", 0, b"")[4:]
    data += bytes(size + 3 - len(data))
    yield
    whole = 0
    for _ in range(30):
        line = target.line()
        line.socket.settimeout(UNFINISHED_S)
        whole += line.send_bytes(data)
    return f"took all but one byte of {whole}"


UNFINISHED_S = 2.0
"""Seconds after which a broker that refuses a frame has closed the connection."""

FREEZING = [
    Attack(
        "zstd-bomb",
        "Produce of 10 KB with 14.9 million records; ListOffsets by time",
        _zstd_bomb,
    ),
    Attack(
        "many-records",
        "Produce of 1 million records as they should be; ListOffsets by time",
        _many_records,
    ),
    Attack(
        "zstd-bomb-compacted",
        "the bomb three times with keys, to a compacted topic",
        _zstd_bomb_compacted,
        config={"log.cleaner.backoff.ms": "1000"},
        data=True,
    ),
    Attack(
        "many-records-compacted",
        "1 million records with keys three times, to a compacted topic",
        _many_records_compacted,
        config={"log.cleaner.backoff.ms": "1000"},
        data=True,
    ),
    Attack("tags", "one frame of 100 MB with 50 million empty tagged fields", _tags),
    Attack(
        "metadata-repeated",
        "Metadata that names a topic of 1,000 partitions 2,000 times",
        _metadata_repeated,
    ),
    Attack(
        "offset-fetch-repeated",
        "OffsetFetch v8 that names a group with 10,000 offsets, 40 MB, 20 times",
        _offset_fetch_repeated,
    ),
    Attack(
        "fetch-repeated",
        "Fetch that names a partition 90,000 times and waits; 10 appends",
        _fetch_repeated,
    ),
    Attack(
        "commit-rows",
        "OffsetCommit of 90,000 rows, and of 1 million",
        _commit_rows,
    ),
    Attack(
        "new-topics", "Metadata that names 1,000 new topics", _new_topics, data=True
    ),
    Attack("parts-created", "CreateTopics of 7,000 topics", _parts_of_create_topics),
    Attack(
        "parts-configs",
        "DescribeConfigs with documentation that names the broker 300 times",
        _parts_of_describe_configs,
    ),
    Attack(
        "waiting-fetches",
        "40 fetches of 50 MB that wait for more; 30 appends",
        _waiting_fetches,
        data=True,
    ),
    Attack(
        "gone",
        "200 clients that wait in Fetch or JoinGroup and go: RST, FIN, half-closed",
        _gone,
    ),
    Attack(
        "unfinished",
        "30 frames of 90 MB without their last byte",
        _unfinished,
        config={"queued.max.request.bytes": "209715200"},
    ),
]
