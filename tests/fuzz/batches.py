"""Fuzz target: record batches, from Produce's checks to the cleaner's rewriting.

Lengths and CRCs are corrected after the fuzzer's changes, and records may be compressed
only then, so that the fuzzer gets past the checks that would stop it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tests.fuzz.target import Target

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import finish
from kohort.protocol import compression, rebuilding, records
from kohort.protocol.messages import WireError
from kohort.protocol.record_rows import RecordRow
from kohort.protocol.records import BatchHeader, Record
from kohort.protocol.varints import bytes_at, varint_at

T = TypeVar("T")

_SEALED, _PACKED, _OLD = 1, 2, 4
"""Flags: length and CRC are set; records are compressed by the codec that the batch
names; Produce is older than zstd."""
_LIMIT = 1 << 20
"""Bytes that a batch may decompress to."""
_MOST = 1 << 20
"""``max.message.bytes``."""
_NOW_MS = 1_700_000_000_000
_INT32 = range(-(2**31), 2**31)
_TIMES = (0, _NOW_MS, 2**62)

_LENGTH_AT, _COVERED_AT, _ATTRIBUTES_AT = 8, 21, 22
_FIELDS = ((0, "q"), (12, "i"), (21, "h"), (23, "i"), (27, "q"), (35, "q"))
_MORE_FIELDS = ((43, "q"), (51, "h"), (53, "i"), (57, "i"))


def batch_of(data: bytes) -> bytes:
    """The batch of an input: flags, then a header, then records."""
    flags, batch = data[0], data[1:]
    if len(batch) < records.HEADER_SIZE:
        return batch
    head, body = batch[: records.HEADER_SIZE], batch[records.HEADER_SIZE :]
    codec = head[_ATTRIBUTES_AT] & records.CODEC_MASK
    if flags & _PACKED and codec <= compression.ZSTD:
        body = compression.compress(codec, body)
    return sealed(head + body) if flags & _SEALED else head + body


def sealed(batch: bytes) -> bytes:
    """The batch with its length and CRC set right."""
    made = bytearray(batch)
    struct.pack_into(">i", made, _LENGTH_AT, len(made) - records.LOG_OVERHEAD)
    crc = records.crc_of(memoryview(made)[_COVERED_AT:])
    struct.pack_into(">I", made, _COVERED_AT - 4, crc)
    return bytes(made)


def batches(data: bytes) -> None:
    """A batch is accepted or refused, and an accepted batch can be read back."""
    if not data:
        return
    batch = batch_of(data)
    _taken(records.read_headers(batch))
    _taken(_rows(batch))
    if records.check_framing(batch, zstd=not data[0] & _OLD) is not None:
        return
    header = records.read_header(batch)
    batch = batch[: header.size]
    refused = records.check_batch(header, batch, _MOST)
    _append(batch, accepted=refused is None, zstd=not data[0] & _OLD)
    if refused is None:
        _read(header, batch)


def _append(batch: bytes, *, accepted: bool, zstd: bool) -> None:
    partition = Partition("t-0")
    result = partition.append(batch, now_ms=_NOW_MS, zstd=zstd)
    assert not result.error_code or partition.log_end_offset == 0
    if not result.error_code:
        assert accepted
        end = partition.log_end_offset
        assert end == result.last_offset + 1
        found = partition.read(end - 1, _MOST, minimum_one=True)
        assert found.size_in_bytes == len(batch)
        for time in _TIMES:
            found_at = finish(find_offset(partition, time))
            assert -(2**63) <= found_at.timestamp_ms < 2**63
            assert -1 <= found_at.offset < 2**63


def _read(header: BatchHeader, batch: bytes) -> None:
    """Every way to read the records gives the same."""
    assert records.crc_of(batch[_COVERED_AT:]) == header.crc
    packed = memoryview(batch)[records.HEADER_SIZE :]
    try:
        data = compression.decompress(header.codec, packed, limit=_LIMIT)
    except WireError:
        return
    rows, is_whole = _taken(_rows(batch))
    slowly, is_whole_slowly = _taken(_slowly(header, data))
    assert rows == slowly
    assert is_whole == is_whole_slowly
    count, base = header.record_count, header.base_offset
    spans, is_scanned = _taken(rebuilding.scan_records(data, 0, count, base))
    if is_whole:
        assert is_scanned, "records that can be read can be compacted"
        kept = [(start, stop) for *_, start, stop in spans]
        _rewrite(header, batch, data, rows, kept)


def _rows(batch: bytes) -> Iterator[RecordRow]:
    for some in records.read_rows(batch, limit=_LIMIT):
        yield from some


def _taken(found: Iterable[T]) -> tuple[list[T], bool]:
    """The values before an error, and whether there is none."""
    taken: list[T] = []
    try:
        taken.extend(found)
    except WireError:
        return taken, False
    return taken, True


def _slowly(header: BatchHeader, data: bytes) -> Iterator[RecordRow]:
    """The records by the format's documentation, varint by varint."""
    position = 0
    stamp = header.max_timestamp if header.is_log_append_time else None
    try:
        for _ in range(header.record_count):
            size, position = varint_at(data, position)
            stop = position + size
            if size < 0 or stop > len(data):
                raise WireError("a record is too long")
            time, position = varint_at(data, position + 1)
            delta, position = varint_at(data, position)
            if delta not in _INT32:
                raise WireError("an offset that is far away")
            key, position = bytes_at(data, position, stop)
            value, position = bytes_at(data, position, stop)
            count, position = varint_at(data, position)
            if count < 0:
                raise WireError("a negative number of headers")
            headers = []
            for _ in range(count):
                name, position = bytes_at(data, position, stop)
                if name is None:
                    raise WireError("a header without a name")
                value_of, position = bytes_at(data, position, stop)
                headers.append((name.decode(errors="replace"), value_of))
            if position != stop:
                raise WireError("a record ends elsewhere")
            time = _int64(header.base_timestamp + time) if stamp is None else stamp
            yield header.base_offset + delta, time, key, value, headers or ()
    except IndexError as error:
        raise WireError(str(error)) from None
    if position != len(data):
        raise WireError("bytes behind the last record")


def _int64(value: int) -> int:
    return int.from_bytes((value % 2**64).to_bytes(8, "big"), "big", signed=True)


def _rewrite(
    header: BatchHeader,
    batch: bytes,
    data: bytes,
    rows: list[RecordRow],
    spans: list[tuple[int, int]],
) -> None:
    """The cleaner and a change of the timestamp type change nothing else in a batch."""
    for made in (
        finish(rebuilding.rebuild_in_pieces(header, data, spans)),
        finish(rebuilding.rebuild_in_pieces(header, data, spans, _NOW_MS)),
    ):
        again, is_whole = _taken(_rows(made))
        assert is_whole
        assert again == rows
    first = records.with_timestamps(batch, is_append_time=True, max_timestamp=_NOW_MS)
    assert records.read_header(first).max_timestamp == _NOW_MS
    empty = rebuilding.empty_batch(header)
    assert not list(records.read_rows(empty))
    assert records.read_header(empty).last_offset == header.last_offset


def _seeds() -> Iterator[bytes]:
    one = [Record(0, _NOW_MS, b"key", b"value")]
    several = [
        Record(0, _NOW_MS, None, b"v" * 70),
        Record(0, _NOW_MS + 5, b"k", None, (("h", b"1"), ("i", None))),
        Record(0, _NOW_MS - 9, b"", b""),
    ]
    for codec in range(len(compression.CODECS)):
        yield bytes((_SEALED,)) + records.build_batch(several, codec=codec)
        plain = records.build_batch(several)
        head = bytearray(plain)
        head[_ATTRIBUTES_AT] = codec
        yield bytes((_SEALED | _PACKED,)) + bytes(head)
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}
    yield bytes((_SEALED,)) + records.build_batch(one, **producer)
    yield bytes((_SEALED,)) + records.build_batch(one, attributes=records.CONTROL)
    stamped = records.LOG_APPEND_TIME | records.DELETE_HORIZON
    yield bytes((_SEALED,)) + records.build_batch(one, attributes=stamped)
    yield bytes((0,)) + records.build_batch(one) * 2


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Sets a field of the header, or builds the batch from other records."""
    made = bytearray(data)
    if len(made) <= records.HEADER_SIZE:
        return bytes((_SEALED,)) + records.build_batch([_record(chance)])
    how = chance.randrange(4)
    if how == 0:
        at, kind = chance.choice(_FIELDS + _MORE_FIELDS)
        top = 2 ** (8 * struct.calcsize(f">{kind}") - 1)
        value = chance.choice((0, 1, 2, 3, -1, -2, 100, top - 1, -top))
        struct.pack_into(f">{kind}", made, 1 + at, value)
    elif how == 1:
        made[0] = chance.randrange(8)
    elif how == 2:
        made[1 + _ATTRIBUTES_AT] = chance.randrange(256)
    else:
        some = [_record(chance) for _ in range(chance.choice((1, 1, 2, 5, 300)))]
        codec = chance.randrange(5)
        return bytes((_SEALED,)) + records.build_batch(some, codec=codec)
    return bytes(made)


def _record(chance: random.Random) -> Record:
    sizes = (0, 1, 5, 63, 64, 127, 128, 300)

    def some() -> bytes | None:
        size = chance.choice(sizes)
        return None if chance.random() < 0.2 else chance.randbytes(size)

    time = chance.choice((0, -1, _NOW_MS, 2**62, -(2**62)))
    headers = [("h" * chance.choice(sizes), some()) for _ in range(chance.randrange(3))]
    return Record(0, time, some(), some(), headers)


BATCHES = Target(batches, _seeds, _mutate)
