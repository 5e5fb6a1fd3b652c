"""Record batches: built, read, checked, and compared with other implementations."""

from __future__ import annotations

import importlib.machinery
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.other_clients import module_of

from kohort.broker.long_work import finish
from kohort.protocol import compression, rebuilding, records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchError, Record

CODECS = range(5)
NOW = 1_700_000_000_000
MAX_BYTES = 1048588

codecs = pytest.mark.parametrize("codec", CODECS, ids=lambda c: compression.CODECS[c])
libraries = pytest.mark.parametrize(
    "library",
    [
        module_of("aiokafka.record.default_records"),
        module_of("kafka.record.default_records"),
    ],
    ids=["aiokafka", "kafka-python"],
)

optional_bytes = st.none() | st.binary(max_size=200)
some_records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**42),
        optional_bytes,
        optional_bytes,
        st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def contents(found: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Everything in records except their offsets."""
    return [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in found]


def batch_of(count: int = 3, **fields: Any) -> bytes:
    """A batch of some small records."""
    return records.build_batch(
        [Record(0, NOW + i, b"k", b"value") for i in range(count)], **fields
    )


def patched(batch: bytes, layout: str, position: int, *values: int) -> bytes:
    """A batch with other bytes in its header, and the matching CRC."""
    made = bytearray(batch)
    struct.pack_into(layout, made, position, *values)
    if position >= records.CRC_START:
        struct.pack_into(">I", made, 17, records.crc_of(made[records.CRC_START :]))
    return bytes(made)


def accepted(data: bytes, max_bytes: int = MAX_BYTES) -> BatchError | None:
    """The log's answer to the data of one partition in Produce."""
    error = records.check_framing(data)
    if error is not None:
        return error
    header = records.read_header(data)
    return records.check_batch(header, data[: header.size], max_bytes)


@codecs
@given(some=some_records, base=st.integers(0, 2**60), extra=st.binary(max_size=5))
def test_records_come_back(
    codec: int, some: list[Record], base: int, extra: bytes
) -> None:
    """A built batch is read, at any position of a buffer; offsets are dense."""
    batch = records.build_batch(some, codec=codec, base_offset=base)
    found = list(records.read_records(memoryview(extra + batch + extra), len(extra)))
    assert contents(found) == contents(some)
    assert [r.offset for r in found] == list(range(base, base + len(some)))


@codecs
@libraries
@settings(max_examples=30)
@given(some=some_records)
def test_other_libraries_read_ours(
    library: Any, codec: int, some: list[Record]
) -> None:
    """Other clients find the same records and header fields in our batches."""
    batch = records.build_batch(
        some, codec=codec, producer_id=7, producer_epoch=3, base_sequence=11
    )
    theirs = library.DefaultRecordBatch(bytearray(batch))
    assert theirs.validate_crc()
    header = records.read_header(batch)
    assert theirs.producer_id == header.producer_id == 7
    assert theirs.base_sequence == header.base_sequence == 11
    assert theirs.compression_type == header.codec == codec
    assert theirs.max_timestamp == header.max_timestamp
    found = [(r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert found == contents(some)


@codecs
@libraries
@settings(max_examples=30)
@given(some=some_records)
def test_we_read_those_of_other_libraries(
    library: Any, codec: int, some: list[Record]
) -> None:
    """We find the same records in batches of other clients, and accept them."""
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        batch_size=1_000_000,
    )
    for position, record in enumerate(some):
        time, key, value = record.timestamp_ms, record.key, record.value
        builder.append(position, time, key, value, list(record.headers))
    batch = bytes(builder.build())
    assert accepted(batch) is None
    header = records.read_header(batch)
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert header.base_sequence == 11
    assert header.record_count == header.last_offset_delta + 1 == len(some)
    assert contents(list(records.read_records(batch))) == contents(some)


def test_a_batch_in_bytes() -> None:
    """The layout equals Apache Kafka 4.3's, byte for byte."""
    expected = bytes.fromhex(
        "00000000000000000000003e0000000002f0b0baa1000800000000000001a1fca66a65"
        "000001a1fca66a65000000000000004b0000000000000000000118000000026b0a7676"
        "76767600"
    )
    built = records.build_batch(
        [Record(0, 0x1A1FCA66A65, b"k", b"vvvvv")],
        producer_id=75,
        producer_epoch=0,
        base_sequence=0,
        partition_leader_epoch=0,
        attributes=records.LOG_APPEND_TIME,
    )
    assert built == expected


def test_flags_of_a_header() -> None:
    """Each attribute is recognised, and only where it is set."""
    flags = {
        records.LOG_APPEND_TIME: "is_log_append_time",
        records.TRANSACTIONAL: "is_transactional",
        records.CONTROL: "is_control",
        records.DELETE_HORIZON: "has_delete_horizon",
    }
    for flag in flags:
        header = records.read_header(batch_of(codec=3, attributes=flag))
        seen = {other for other, name in flags.items() if getattr(header, name)}
        assert seen == {flag}
        assert header.codec == 3


def test_the_last_offset_and_sequence() -> None:
    """Both follow from the first; sequences wrap."""
    header = records.read_header(batch_of(4, base_offset=10))
    assert header.last_offset == 13
    assert records.advance_sequence(2**31 - 2, header.last_offset_delta) == 1


def test_append_time_counts_for_every_record() -> None:
    """With LogAppendTime the largest timestamp in the header applies to all records."""
    batch = batch_of(attributes=records.LOG_APPEND_TIME)
    times = {r.timestamp_ms for r in records.read_records(batch)}
    assert times == {NOW + 2}


def test_headers_of_several_batches() -> None:
    """Fetch returns consecutive batches; a truncated one at the end is left out."""
    first, second = batch_of(3, base_offset=5), batch_of(2, codec=1, base_offset=8)
    third = batch_of(1, base_offset=10)
    for cut in (0, 5, 20, len(third) - 1):
        data = first + second + third[:cut]
        found = list(records.read_headers(memoryview(data)))
        assert [(h.base_offset, at) for h, at in found] == [(5, 0), (8, len(first))]
    assert len(list(records.read_headers(first + second + third))) == 3


@pytest.mark.parametrize(("position", "byte"), [(16, 1), (11, 0)])
def test_headers_of_something_else(position: int, byte: int) -> None:
    """Another magic, or a length below a header's, ends the reading."""
    data = bytearray(batch_of())
    data[position] = byte
    with pytest.raises(WireError, match="a batch of magic"):
        list(records.read_headers(data))


def test_a_header_needs_61_bytes() -> None:
    """Fewer bytes are neither a header nor records."""
    with pytest.raises(WireError, match="60 bytes are no batch header"):
        records.read_header(batch_of()[:60])
    with pytest.raises(WireError, match="no whole batch"):
        records.read_records(batch_of()[:-1])


@codecs
@given(some=some_records, position=st.integers(12), byte=st.integers(1, 255))
def test_damage_is_a_wire_error(
    codec: int, some: list[Record], position: int, byte: int
) -> None:
    """A flipped byte fails the CRC; reading the batch anyway is safe."""
    batch = bytearray(records.build_batch(some, codec=codec))
    position = 12 + position % (len(batch) - 12)
    batch[position] ^= byte
    damaged = bytes(batch)
    if position >= 16:  # the leader epoch before it may have any value
        assert accepted(damaged) is not None
    try:
        found = list(records.read_records(damaged, limit=1_000_000))
    except WireError:
        return
    assert all(isinstance(record, Record) for record in found)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\x07", "a record of -4 bytes"),
        (b"\x40\x00", "a record of 32 bytes"),
        (b"\x0a\x00\x00\x00\x01\x01\x02\x01\x01", "a header without a key"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", ""),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "a record ends"),
        (b"\x0e\x00\x00\x00\x01\x01\x01\x00", "-1 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "a header without a key"),
        (b"\x0c\x00\x00\x00\x20\x01\x00", "16 bytes, where"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "1 bytes behind"),
        (b"\xff" * 12, "varint"),
        (b"", "index out of range"),
    ],
)
def test_records_that_cannot_be(body: bytes, match: str) -> None:
    """Each wrong length is detected; the third body is valid."""
    batch = records.build_batch([Record()])[: records.HEADER_SIZE] + body
    batch = patched(batch, ">i", 8, len(batch) - records.LOG_OVERHEAD)
    if not match:
        assert list(records.read_records(batch)) == [Record(0, -1, None, None, ())]
        return
    with pytest.raises(WireError, match=match):
        list(records.read_records(batch))


def test_a_header_name_that_is_no_utf_8() -> None:
    """Kafka stores it, and Java's client reads it like this."""
    body = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    batch = records.build_batch([Record()])[: records.HEADER_SIZE] + body
    batch = patched(batch, ">i", 8, len(batch) - records.LOG_OVERHEAD)
    (found,) = records.read_records(batch)
    assert found.headers == [("\ufffd", None)]


def test_a_batch_has_records() -> None:
    """An empty batch, or a sixth codec, does not exist."""
    with pytest.raises(WireError, match="without records"):
        records.build_batch([])
    with pytest.raises(WireError, match="codec 5"):
        batch_of(codec=5)


GOOD = batch_of()
BEHIND = batch_of(1)


@pytest.mark.parametrize("size", [0, 1, 11, 12, 16, 17, len(BEHIND) - 1])
def test_part_of_a_batch_behind_is_ignored(size: int) -> None:
    """Kafka takes the one whole batch, drops the rest, and refuses bad heads."""
    assert accepted(GOOD + BEHIND[:size]) is None
    for field, value, least in ((">i", 8), 3, 12), (("b", 16), 7, 17):
        damaged = patched(BEHIND, *field, value)[:size]
        assert (accepted(GOOD + damaged) is not None) == (size >= least)
        assert accepted(damaged) is not None


def test_zstd_needs_a_version_that_has_it() -> None:
    """Produce v7 brought zstd (KIP-110)."""
    batch = batch_of(codec=compression.ZSTD)
    assert records.check_framing(batch) is None
    error = records.check_framing(batch, zstd=False)
    assert error is not None
    assert error.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert records.check_framing(batch_of(codec=3), zstd=False) is None


def test_a_codec_that_does_not_exist_in_an_old_produce() -> None:
    """Up to Produce v6 Kafka checks the codec before acks, topic and records."""
    batch = bytearray(batch_of())
    batch[records.ATTRIBUTES_AT] = 5
    error = records.check_framing(bytes(batch), zstd=False)
    assert error is not None
    assert error.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert records.check_framing(bytes(batch)) is None


def test_checks_come_in_kafkas_order() -> None:
    """Base offset before size, size before CRC, CRC before the codec."""
    bad_crc = patched(patched(GOOD, ">h", 21, 5), ">I", 17, 5)
    error = accepted(bad_crc)
    assert error is not None
    assert error.error_code == ErrorCode.CORRUPT_MESSAGE
    error = accepted(bad_crc, max_bytes=len(GOOD) - 1)
    assert error is not None
    assert error.error_code == ErrorCode.MESSAGE_TOO_LARGE
    error = accepted(patched(bad_crc, ">q", 0, 1), max_bytes=len(GOOD) - 1)
    assert error is not None
    assert error.error_code == ErrorCode.INVALID_RECORD


def test_the_largest_batch() -> None:
    """max.message.bytes counts the whole batch, and is itself allowed."""
    assert accepted(GOOD, max_bytes=len(GOOD)) is None
    error = accepted(GOOD, max_bytes=len(GOOD) - 1)
    assert error is not None
    assert error.error_code == ErrorCode.MESSAGE_TOO_LARGE


@codecs
def test_another_type_of_timestamp(codec: int) -> None:
    """As in Kafka, type, largest timestamp and CRC change; the rest stays."""
    batch = batch_of(codec=codec, attributes=0x180 | records.DELETE_HORIZON)
    head = records.with_timestamps(batch, is_append_time=True, max_timestamp=NOW + 900)
    stamped = head + batch[records.HEADER_SIZE :]
    assert accepted(stamped) is None
    after = records.read_header(stamped)
    # As in Kafka, bits without a meaning are dropped.
    kept = records.DELETE_HORIZON | codec
    assert after.attributes == kept | records.LOG_APPEND_TIME
    assert (after.max_timestamp, after.base_timestamp) == (NOW + 900, NOW)
    assert {r.timestamp_ms for r in records.read_records(stamped)} == {NOW + 900}

    head = records.with_timestamps(stamped, is_append_time=False, max_timestamp=NOW)
    plain = head + batch[records.HEADER_SIZE :]
    assert accepted(plain) is None
    assert records.read_header(plain).attributes == kept


def unfolded(batch: bytes) -> bytes:
    """The decompressed records of a batch."""
    codec = records.read_header(batch).codec
    return compression.decompress(codec, memoryview(batch)[records.HEADER_SIZE :])


def spans_of(batch: bytes) -> list[rebuilding.RecordSpan]:
    """The result of `scan_records` for a batch."""
    header = records.read_header(batch)
    data, count = unfolded(batch), header.record_count
    return list(rebuilding.scan_records(data, 0, count, header.base_offset))


@codecs
@given(some=some_records, data=st.data())
def test_a_batch_with_fewer_records(
    codec: int, some: list[Record], data: st.DataObject
) -> None:
    """The remaining records are unchanged, and so is the rest of the header."""
    batch = records.build_batch(
        some,
        codec=codec,
        base_offset=700,
        producer_id=9,
        producer_epoch=3,
        base_sequence=40,
        attributes=records.TRANSACTIONAL,
        partition_leader_epoch=6,
    )
    before = records.read_header(batch)
    spans = spans_of(batch)
    wanted = list(records.read_records(batch))
    assert [(r.offset, r.key, r.value is not None) for r in wanted] == [
        span[:3] for span in spans
    ]

    chosen = sorted(
        data.draw(st.sets(st.sampled_from(range(len(some))), min_size=1), label="kept")
    )
    horizon = data.draw(st.none() | st.integers(0, 2**42), label="horizon")
    places = [spans[at][3:] for at in chosen]
    made = finish(
        rebuilding.rebuild_in_pieces(before, unfolded(batch), places, horizon)
    )
    after = records.read_header(made)
    assert after.size == len(made)
    assert after.crc == records.crc_of(made[records.CRC_START :])
    assert list(records.read_records(made)) == [wanted[at] for at in chosen]
    assert after.max_timestamp == max(wanted[at].timestamp_ms for at in chosen)
    first = wanted[chosen[0]].timestamp_ms
    assert after.base_timestamp == (first if horizon is None else horizon)
    assert after.has_delete_horizon == (horizon is not None)
    assert after.record_count == len(chosen)
    same = (
        *("base_offset", "last_offset", "partition_leader_epoch", "codec"),
        *("producer_id", "producer_epoch", "base_sequence", "is_transactional"),
    )
    for name in same:
        assert getattr(after, name) == getattr(before, name), name


@libraries
@codecs
def test_other_clients_read_what_was_rebuilt(library: Any, codec: int) -> None:
    """Also with a delete horizon in place of a timestamp."""
    batch = batch_of(5, codec=codec)
    header = records.read_header(batch)
    places = [span[3:] for span in spans_of(batch)[1:4:2]]
    made = finish(
        rebuilding.rebuild_in_pieces(header, unfolded(batch), places, NOW + 10**8)
    )
    found = library.DefaultRecordBatch(made)
    assert found.validate_crc()
    assert [(r.offset, r.timestamp, r.value) for r in found] == [
        (1, NOW + 1, b"value"),
        (3, NOW + 3, b"value"),
    ]


def test_a_batch_without_records() -> None:
    """It keeps its offsets, its producer and its largest timestamp."""
    ids = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 40}
    before = records.read_header(
        batch_of(base_offset=700, codec=4, attributes=records.DELETE_HORIZON, **ids)
    )
    made = rebuilding.empty_batch(before)
    after = records.read_header(made)
    assert after.size == len(made) == records.HEADER_SIZE
    assert after.crc == records.crc_of(made[records.CRC_START :])
    assert (after.attributes, after.record_count) == (0, 0)
    assert (after.base_timestamp, after.max_timestamp) == (-1, NOW + 2)
    assert (after.last_offset, after.base_sequence) == (702, 40)
    assert list(records.read_records(made)) == []
    assert rebuilding.empty_batch(after) == made


@given(
    some=some_records,
    position=st.integers(0, 10**4),
    junk=st.binary(max_size=12),
    is_cut=st.booleans(),
)
def test_damaged_records_are_no_crash_for_compaction(
    some: list[Record], position: int, junk: bytes, is_cut: bool
) -> None:
    """Any bytes give a WireError or records."""
    data = unfolded(records.build_batch(some))
    at = position % (len(data) + 1)
    data = data[:at] + junk + (b"" if is_cut else data[at + len(junk) :])
    try:
        for _, _, _, start, stop in rebuilding.scan_records(data, 0, len(some), 0):
            assert 0 <= start < stop <= len(data)
    except WireError:
        pass


def test_a_checksum_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the library's extension has moved, the library itself is loaded."""
    found = importlib.machinery.PathFinder.find_spec

    def moved(name: str, *others: Any) -> Any:
        return None if name == "_crc32c" else found(name, *others)

    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", moved)
    records.crc32c.cache_clear()
    assert records.crc_of(b"123456789") == 0xE3069283
    records.crc32c.cache_clear()
