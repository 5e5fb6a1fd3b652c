"""Invalid batches, and unusual ones that Kafka accepts.

Each is the records of one partition in a Produce request. They are made byte by byte,
without kohort's codecs, so that no defect of those hides another. `malformed_batches`
has all of them by name, for a broker whose clock shows `now_ms`.
"""

from __future__ import annotations

import gzip
import struct
from typing import Any, Final

import cramjam
import lz4.frame
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS: Final = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
NO_PRODUCER: Final = (-1, -1, -1)
NO_TIMESTAMP: Final = -1
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
NULL: Final = b"\x01"
"""-1 as a varint."""

_UP_TO_CRC = struct.Struct(">qiib").pack
_COVERED = struct.Struct(">hiqqqhii").pack


def unsigned(value: int, length: int = 0) -> bytes:
    """An unsigned varint, of at least `length` bytes."""
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < length:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int, length: int = 0) -> bytes:
    """A zigzag varint, of at least `length` bytes."""
    return unsigned((value << 1) ^ (value >> 63), length)


def body(
    delta: bytes = b"\x00",
    time: bytes = b"\x00",
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    attributes: bytes = b"\x00",
) -> bytes:
    """A record without its size, from encoded fields."""
    return attributes + time + delta + key + value + headers


def sized(data: bytes) -> bytes:
    """Bytes after their size."""
    return varint(len(data)) + data


def record(delta: int = 0, time: int = 0) -> bytes:
    """A valid record."""
    return sized(body(varint(delta), varint(time)))


def good(count: int = 3) -> bytes:
    """Valid records."""
    return b"".join(map(record, range(count)))


def compressed(codec: int, data: bytes) -> bytes:
    """The data in one of Kafka's codecs."""
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        return bytes(lz4.frame.compress(data, block_linked=False))
    return bytes(cramjam.zstd.compress(data)) if codec == ZSTD else data


def xerial(*blocks: bytes) -> bytes:
    """Snappy blocks as Java's library frames them."""
    packed = [compressed(SNAPPY, block) for block in blocks]
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(some)) + some for some in packed)


def batch(
    now_ms: int,
    data: bytes,
    count: int = 3,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    epoch: int = -1,
    last_delta: int | None = None,
    max_time: int | None = None,
    producer: tuple[int, int, int] = NO_PRODUCER,
    length: int | None = None,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """A batch around bytes; length, CRC and the like are right unless given."""
    last_delta = count - 1 if last_delta is None else last_delta
    max_time = now_ms if max_time is None else max_time
    fields = attributes, last_delta, now_ms, max_time, *producer, count
    covered = _COVERED(*fields) + data
    length = len(covered) + 9 if length is None else length
    crc = crc32c(covered) if crc is None else crc
    return _UP_TO_CRC(base_offset, length, epoch, magic) + crc.to_bytes(4) + covered


def packed(now_ms: int, codec: int, data: bytes, count: int = 3) -> bytes:
    """A batch of records, compressed."""
    return batch(now_ms, compressed(codec, data), count, attributes=codec)


def framing(now: int) -> dict[str, bytes]:
    """Bytes that are not one batch."""
    one = batch(now, good())
    return {
        "empty": b"",
        "11 zeros": bytes(11),
        "12 zeros": bytes(12),
        "length 13": batch(now, good(), length=13),
        "length 14": batch(now, good(), length=14),
        "length -1": batch(now, good(), length=-1),
        "length 0": batch(now, good(), length=0),
        "length of 32 bytes": batch(now, b"", length=20)[:32],
        "length of 60 bytes": batch(now, b"", length=48)[:60],
        "last byte missing": one[:-1],
        "half a header": one[:30],
        "no records": batch(now, b""),
        "no records, count 0": batch(now, b"", 0),
        "magic -1": batch(now, good(), magic=-1),
        "magic 0": batch(now, good(), magic=0),
        "magic 1": batch(now, good(), magic=1),
        "magic 3": batch(now, good(), magic=3),
        "two batches": one + one,
        "part of a second batch": one + one[:-1],
        "zeros behind": one + bytes(30),
        "3 bytes behind": one + b"abc",
        "wrong crc": batch(now, good(), crc=5),
        "base offset 1": batch(now, good(), base_offset=1),
        "base offset -1": batch(now, good(), base_offset=-1),
        "base offset 1, wrong crc": batch(now, good(), base_offset=1, crc=5),
    }


def headers(now: int) -> dict[str, bytes]:
    """Fields of the batch that contradict one another, or that clients must not set."""
    return {
        "count 2 of 3": batch(now, good(), 2),
        "count 4 of 3": batch(now, good(), 4),
        "count 2, last delta 2": batch(now, good(), 2, last_delta=2),
        "count -1": batch(now, good(), -1, last_delta=2),
        "count 0": batch(now, good(), 0, last_delta=2),
        "last delta -1": batch(now, good(), 3, last_delta=-1),
        "last delta 3": batch(now, good(), 3, last_delta=3),
        "last delta 2^31 - 1": batch(now, good(), 3, last_delta=2**31 - 1),
        "control": batch(now, good(), attributes=CONTROL),
        "codec 5": batch(now, good(), attributes=5),
        "codec 7": batch(now, good(), attributes=7),
        "codec 5, count 2": batch(now, good(), 2, attributes=5),
        "delete horizon": batch(now, good(), attributes=DELETE_HORIZON),
        "unknown attributes": batch(now, good(), attributes=0x7F80),
        "producer without sequence": batch(now, good(), producer=(1, 0, -1)),
        "producer, epoch -1": batch(now, good(), producer=(77, -1, 0)),
        "producer -2": batch(now, good(), producer=(-2, 0, 0)),
        "sequence without producer": batch(now, good(), producer=(-1, 0, 5)),
        "transactional": batch(now, good(), attributes=TRANSACTIONAL),
        "transactional producer": batch(
            now, good(), attributes=TRANSACTIONAL, producer=(1, 0, 0)
        ),
    }


def times(now: int) -> dict[str, bytes]:
    """Timestamps, and types of timestamps."""

    def of(*deltas: int, **fields: Any) -> bytes:
        rows = b"".join(record(at, delta) for at, delta in enumerate(deltas))
        return batch(now, rows, len(deltas), **fields)

    without = record(0, NO_TIMESTAMP - now) + record(1, 5)
    return {
        "max time too low": of(0, 20, 10),
        "max time too high": of(0, 20, 10, max_time=now + 30),
        "max time 2 hours ahead": of(0, 20, 10, max_time=now + 2 * HOUR_MS),
        "2 hours ahead": of(0, 2 * HOUR_MS, 5),
        "2 hours ahead, max time now": of(0, 2 * HOUR_MS, 5, max_time=now),
        "a year ago": of(0, -365 * DAY_MS, 5),
        "no timestamp": batch(now, without, 2, max_time=now + 5),
        "no timestamps": batch(NO_TIMESTAMP, good()),
        "timestamp -2": batch(now, record(0, -2 - now), 1),
        "timestamps -2": batch(-2, good()),
        "least int64": batch(0, record(0, -(2**63)), 1),
        "beyond int64": batch(2**63 - 1, record(0) + record(1, 1), 2),
        "append time": of(0, 20, 10, attributes=LOG_APPEND_TIME),
        "append time ahead": of(
            0, attributes=LOG_APPEND_TIME, max_time=now + 2 * HOUR_MS
        ),
        "append time -1": of(0, 9, attributes=LOG_APPEND_TIME, max_time=NO_TIMESTAMP),
    }


def _damaged() -> dict[str, tuple[bytes, int]]:
    """Records, and their number, by the fault of the first."""
    header = b"\x02\x02h\x02w"
    rest = record(1) + record(2)
    size = body()
    whole = len(size)

    def one(**fields: bytes) -> tuple[bytes, int]:
        return sized(body(**fields)) + rest, 3

    return {
        "size too small": (varint(whole - 1) + size + rest, 3),
        "size too large": (varint(whole + 1) + size + rest, 3),
        "size 0": (varint(0) + size + rest, 3),
        "size -1": (varint(-1) + size + rest, 3),
        "size beyond the batch": (varint(10_000) + size, 1),
        "size 2^31 - 1": (varint(2**31 - 1) + size, 1),
        "size of 5 bytes": (varint(whole, 5) + size + rest, 3),
        "size of 6 bytes": (varint(whole, 6) + size + rest, 3),
        "size without an end": (b"\x80\x80\x80", 1),
        "size beyond 32 bits": (unsigned((1 << 32) + 2 * whole) + size + rest, 3),
        "attributes 255": one(attributes=b"\xff"),
        "time of 10 bytes": one(time=varint(0, 10)),
        "time of 11 bytes": one(time=varint(0, 11)),
        "delta of 5 bytes": one(delta=varint(0, 5)),
        "delta of 6 bytes": one(delta=varint(0, 6)),
        "delta beyond 32 bits": one(delta=unsigned(1 << 32)),
        "key null": one(key=NULL),
        "key -2": one(key=varint(-2)),
        "key beyond the record": one(key=varint(9) + b"k"),
        "key beyond the batch": one(key=varint(10_000) + b"k"),
        "key of 6 bytes": one(key=varint(1, 6) + b"k"),
        "value null": one(value=NULL),
        "value -2": one(value=varint(-2)),
        "value beyond the record": one(value=varint(9) + b"v"),
        "value beyond the batch": one(value=varint(10_000) + b"v"),
        "headers": one(headers=header),
        "headers -1": one(headers=varint(-1)),
        "headers 2 of 1": one(headers=b"\x04" + header[1:]),
        "headers 10,000": one(headers=varint(10_000)),
        "header key null": one(headers=b"\x02" + NULL + b"\x02w"),
        "header key empty": one(headers=b"\x02\x00\x02w"),
        "header key no UTF-8": one(headers=b"\x02\x02\xff\x02w"),
        "header value null": one(headers=b"\x02\x02h" + NULL),
        "header value -2": one(headers=b"\x02\x02h" + varint(-2)),
        "header value beyond the record": one(headers=b"\x02\x02h\x12w"),
        "bytes behind the headers": one(headers=b"\x00\x00"),
        "record without fields": (b"\x02\x00" + rest, 3),
        "one record more": (good(4), 3),
        "bytes behind": (good() + b"\x00", 3),
        "one record less": (good(2), 3),
        "last record cut off": (good()[:-2], 3),
        "offsets all 0": (record(0) * 3, 3),
        "offsets from 1": (record(1) + record(2) + record(3), 3),
        "offsets backwards": (record(2) + record(1) + record(0), 3),
        "offsets with a gap": (record(0) + record(1) + record(5), 3),
        "offset -1": (record(-1) + rest, 3),
    }


def records(now: int, codec: int = NONE) -> dict[str, bytes]:
    """Damaged and unusual records in a valid batch of a codec."""
    return {name: packed(now, codec, *made) for name, made in _damaged().items()}


def compression(now: int) -> dict[str, bytes]:
    """Compressed bytes that are damaged, or compressed in an unusual way."""
    found: dict[str, bytes] = {}
    for name, codec in CODECS.items():
        data = compressed(codec, good(30))
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]
        made = {
            "": data,
            ", no data": b"",
            ", not compressed": good(30),
            ", one byte missing": data[:-1],
            ", half of it": data[:middle],
            ", a byte flipped": flipped,
            ", last byte flipped": data[:-1] + bytes([data[-1] ^ 0x55]),
            ", zeros behind": data + bytes(12),
            ", in two frames": compressed(codec, good(30)[:50])
            + compressed(codec, good(30)[50:]),
        }
        for suffix, some in made.items():
            found[name + suffix] = batch(now, some, 30, attributes=codec)
    linked = lz4.frame.compress(good(30) * 5_000, block_linked=True)
    block = xerial(good(30)[:50], good(30)[50:])
    newer = block[:8] + struct.pack(">ii", 9, 9) + block[16:]
    return found | {
        "lz4, linked blocks": batch(now, linked, 150_000, attributes=LZ4),
        "snappy, framed": batch(now, block, 30, attributes=SNAPPY),
        "snappy, framed, cut off": batch(now, block[:-1], 30, attributes=SNAPPY),
        "snappy, framed, one block": batch(
            now, xerial(good(30)[:50]), 30, attributes=SNAPPY
        ),
        "snappy, framed, version 9": batch(now, newer, 30, attributes=SNAPPY),
    }


def malformed_batches(now_ms: int) -> dict[str, bytes]:
    """All of them, by name; compressed ones have the codec in their name."""
    found = framing(now_ms) | headers(now_ms) | times(now_ms) | records(now_ms)
    for name, codec in CODECS.items():
        made = records(now_ms, codec)
        found |= {f"{name}: {fault}": data for fault, data in made.items()}
    return found | compression(now_ms)
