"""Record times and offset deltas at the limits of their types, as in Java."""

from __future__ import annotations

import pytest

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import finish
from kohort.protocol import rebuilding, records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record
from kohort.protocol.varints import varint

FAR = 2**62
LAST = 2**63 - 1
NOW = 1_700_000_000_000


def batch_of_times(base_timestamp: int, *deltas: int) -> bytes:
    """A batch of one-byte records with these deltas from its base timestamp."""
    body = b""
    for position, delta in enumerate(deltas):
        record = b"\0" + varint(delta) + varint(position) + b"\x02k\x02v\0"
        body += varint(len(record)) + record
    return sealed(base_timestamp, len(deltas), body)


def sealed(base_timestamp: int, count: int, body: bytes) -> bytes:
    """A client's batch, whose largest timestamp is now."""
    length = records.HEADER_SIZE - records.LOG_OVERHEAD + len(body)
    fields = [0, length, -1, 2, 0, 0, count - 1, base_timestamp, NOW, -1, -1, -1, count]
    covered = records.HEADER.pack(*fields)[records.CRC_START :] + body
    fields[4] = records.crc_of(covered)
    return records.HEADER.pack(*fields)[: records.CRC_START] + covered


def times_of(batch: bytes) -> list[int]:
    """The timestamps of its records, by both ways of reading."""
    heads = [head for some in records.read_heads(batch) for head in some]
    times = [record.timestamp_ms for record in records.read_records(batch)]
    assert times == [time for _, time, _ in heads]
    return times


@pytest.mark.parametrize(
    ("base", "delta", "time"),
    [
        (FAR, FAR, -(2**63)),
        (LAST, 1, -(2**63)),
        (-FAR, -FAR - 1, LAST),
        (-1, -(2**63), LAST),
        (LAST, 0, LAST),
    ],
)
def test_a_time_beyond_the_last_goes_on_at_the_first(
    base: int, delta: int, time: int
) -> None:
    """As in Java, the sum is an int64 and wraps around."""
    assert times_of(batch_of_times(base, delta)) == [time]


def test_a_time_of_more_than_64_bits_is_cut() -> None:
    """Ten bytes of a varint have room for 70 bits."""
    body = b"\x10\0" + b"\xfe" + b"\xff" * 8 + b"\x7f" + b"\0\x02k\x02v\0"
    body = varint(len(body) - 1) + body[1:]
    assert times_of(sealed(0, 1, body)) == [LAST]


def test_an_offset_by_time_is_one_that_can_be_answered() -> None:
    """A log from elsewhere may have times that Produce refuses."""
    partition = Partition("t-0")
    partition.append_own(batch_of_times(FAR, 0, FAR), now_ms=NOW)
    found = finish(find_offset(partition, NOW))
    assert (found.timestamp_ms, found.offset) == (FAR, 0)
    partition = Partition("t-0")
    partition.append_own(batch_of_times(FAR, FAR), now_ms=NOW)
    assert finish(find_offset(partition, NOW)).offset == -1


@pytest.mark.parametrize("base", [-FAR, 0, FAR])
def test_compaction_keeps_times_of_any_distance(base: int) -> None:
    """A base timestamp outside of int64 would stop the cleaner."""
    batch = batch_of_times(base, FAR, -FAR, 2**63 - 1, 0)
    header = records.read_header(batch)
    data = batch[records.HEADER_SIZE :]
    spans = [
        (start, stop) for *_, start, stop in rebuilding.scan_records(data, 0, 4, 0)
    ]
    assert times_of(
        finish(rebuilding.rebuild_in_pieces(header, data, spans))
    ) == times_of(batch)
    rebuilt = finish(rebuilding.rebuild_in_pieces(header, data, spans[1:]))
    assert times_of(rebuilt) == times_of(batch)[1:]


def test_building_keeps_times_of_any_distance() -> None:
    """The delta of the first two takes 65 bits."""
    some = [Record(0, time, b"k", b"v") for time in (-(2**63), LAST, 0)]
    assert times_of(records.build_batch(some)) == [-(2**63), LAST, 0]


@pytest.mark.parametrize("number", [0, 63, 64, -1, -64, -65, 2**31 - 1])
@pytest.mark.parametrize("size", [0, 63, 64])
def test_compaction_reads_varints_of_any_length(number: int, size: int) -> None:
    """One byte of a varint has room for -64 to 63."""
    key = b"k" * size
    record = b"\0" + varint(number) * 2 + varint(size) + key + b"\1\0"
    batch = sealed(NOW, 1, varint(len(record)) + record)
    ((offset, found, has_value, start, stop),) = rebuilding.scan_records(
        batch, records.HEADER_SIZE, 1, 100
    )
    assert (offset, found, has_value) == (100 + number, key, False)
    assert batch[start:stop] == record


@pytest.mark.parametrize("delta", [2**31, -(2**31) - 1, 2**40, 2**63 - 1])
def test_an_offset_delta_is_an_int32(delta: int) -> None:
    """Otherwise ListOffsets would return an offset that no log has."""
    record = b"\0\0" + varint(delta) + b"\x02k\x02v\0"
    batch = sealed(NOW, 1, varint(len(record)) + record)
    with pytest.raises(WireError, match="varint"):
        list(records.read_records(batch))
    with pytest.raises(WireError, match="varint"):
        list(rebuilding.scan_records(batch, records.HEADER_SIZE, 1, 0))
    partition = Partition("t-0")
    result = partition.append(batch, now_ms=NOW)
    assert result.error_code == ErrorCode.INVALID_RECORD
    partition.append_own(batch, now_ms=NOW)
    assert finish(find_offset(partition, NOW)).offset == -1
