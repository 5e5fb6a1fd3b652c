"""Heads of records: reading in pieces gives the same as reading at once."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol import compression, records
from kohort.protocol.messages import WireError
from kohort.protocol.record_heads import HEADS, Heads, RecordHead
from kohort.protocol.records import (
    HEADER_SIZE,
    Record,
    build_batch,
    read_heads,
    read_records,
)

CODECS = range(len(compression.CODECS))

binary = st.none() | st.binary(max_size=40) | st.just(b"x" * 200)
headers = st.lists(st.tuples(st.text(max_size=4), binary), max_size=80)
made = st.builds(Record, st.just(0), st.integers(0, 2**40), binary, binary, headers)


def heads_of(some: Sequence[Record]) -> list[RecordHead]:
    """The expected heads."""
    return [(r.offset, r.timestamp_ms, r.key is not None) for r in some]


def read_all(batch: bytes, **options: int) -> list[RecordHead]:
    """All heads of a batch."""
    return [head for some in read_heads(batch, **options) for head in some]


@pytest.mark.parametrize("codec", CODECS)
def test_heads_of_every_codec(codec: int) -> None:
    """Short records, one longer than a piece, and one with very many headers."""
    some = [Record(0, 1000 + n, b"k" if n % 3 else None, b"v") for n in range(3000)]
    some.insert(70, Record(0, 5, b"k" * 600_000, b"v" * 900_000))
    some.insert(90, Record(0, 6, None, None, [("h", b"x")] * 700))
    batch = build_batch(some, codec=codec, base_offset=40)
    assert read_all(batch) == heads_of(list(read_records(batch)))


@given(st.lists(made, min_size=1, max_size=8), st.integers(1, 60))
def test_heads_whatever_the_pieces(some: list[Record], size: int) -> None:
    """Bytes may be cut anywhere."""
    batch = build_batch(some)
    data = batch[HEADER_SIZE:]
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    base = records.read_header(batch).base_timestamp
    heads = [head for few in Heads(pieces, len(some), 0, base).read() for head in few]
    assert heads == heads_of(list(read_records(batch)))


@given(
    st.lists(made, min_size=1, max_size=3),
    st.integers(0),
    st.integers(1, 255),
    st.integers(1, 99),
)
def test_damage_is_one_error(
    some: list[Record], position: int, byte: int, size: int
) -> None:
    """Any bytes give heads or a `WireError`."""
    data = bytearray(build_batch(some)[HEADER_SIZE:])
    data[position % len(data)] ^= byte
    pieces = (bytes(data[at : at + size]) for at in range(0, len(data), size))
    try:
        for _ in Heads(pieces, len(some), 0, 0).read():
            pass
    except WireError:
        return


def test_log_append_time_is_that_of_all_records() -> None:
    """The header has it; the times of the records are ignored."""
    batch = build_batch([Record(0, 5, b"k"), Record(0, 7)], attributes=8)
    assert read_all(batch) == [(0, 7, True), (1, 7, False)]


def test_records_are_read_a_few_at_a_time() -> None:
    """Other work can run after some of them, however many there are."""
    batch = build_batch([Record()] * 20_000, codec=compression.ZSTD)
    assert max(map(len, read_heads(batch))) <= HEADS


def test_headers_are_read_a_few_at_a_time() -> None:
    """A record of very many headers takes many pieces, too."""
    batch = build_batch([Record(headers=[("", None)] * 50_000)])
    assert sum(1 for _ in read_heads(batch)) > 50_000 // HEADS


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_needs_little_memory(codec: int) -> None:
    """One record of 40 MB, in some kilobytes, is read without storing it."""
    batch = build_batch([Record(0, 9, b"k", bytes(40_000_000))], codec=codec)
    read_all(build_batch([Record()], codec=codec))  # imports the codec
    tracemalloc.start()
    try:
        assert read_all(batch) == [(0, 9, True)]
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_given_up_early(codec: int) -> None:
    """Not a byte beyond the limit is decompressed, and only a few pieces."""
    batch = build_batch([Record(0, 9, b"k", bytes(9_000_000))] * 5, codec=codec)
    pieces: list[int] = []
    with pytest.raises(compression.TooLargeError):
        pieces.extend(map(len, read_heads(batch, limit=2_000_000)))
    assert len(pieces) <= 2_000_000 // 32_768 + 2


@pytest.mark.parametrize(
    ("count", "data"),
    [
        (1, b""),
        (2, b"\x0e\0\0\0\1\1\0"),
        (1, b"\x0e\0\0\0\1\1\0more"),
        (1, b"\x0c\0\0\0\1\1\1"),
        (1, b"\x0f"),
        (1, b"\xff" * 11),
        (1, b"\x10\0\0\0\1\1\2\1\1"),
        (1, b"\x0e\0\0\0\1\1\1"),
    ],
)
def test_records_that_are_none(count: int, data: bytes) -> None:
    """Too few or too many bytes, impossible sizes, and headers without a name."""
    for size in (1, 100):
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        with pytest.raises(WireError):
            list(Heads(pieces, count, 0, 0).read())


def test_a_batch_that_is_not_whole() -> None:
    """An incomplete batch is not read beyond its end."""
    batch = bytearray(build_batch([Record()]))
    with pytest.raises(WireError, match="no whole batch"):
        list(read_heads(batch[:-1]))
    struct.pack_into(">i", batch, 8, 20)
    with pytest.raises(WireError, match="no whole batch"):
        list(read_heads(batch))
