"""The codecs of record batches, against other libraries and against bombs."""

from __future__ import annotations

import bz2
import gzip
import random
import struct
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.other_clients import module_of

from kohort.protocol import compression
from kohort.protocol.messages import WireError

PACKING = [
    compression.GZIP,
    compression.SNAPPY,
    compression.LZ4,
    compression.ZSTD,
]
EVERY = [compression.NONE, *PACKING]

# Long enough for several blocks of snappy and lz4; partly incompressible.
LONG = random.Random(1).randbytes(150_000) + bytes(100_000) + b"kohort" * 9_000

codecs = pytest.mark.parametrize("codec", EVERY, ids=lambda c: compression.CODECS[c])
packers = pytest.mark.parametrize("codec", PACKING, ids=lambda c: compression.CODECS[c])
libraries = pytest.mark.parametrize(
    "library",
    [module_of("aiokafka.codec"), module_of("kafka.codec")],
    ids=["aiokafka", "kafka-python"],
)


@codecs
@given(data=st.binary(max_size=2_000))
def test_what_was_packed_comes_back(codec: int, data: bytes) -> None:
    """Any bytes, the empty ones too."""
    assert compression.decompress(codec, compression.compress(codec, data)) == data


@codecs
def test_long_data_comes_back(codec: int) -> None:
    """Data of several blocks, read from a view as the wire gives it."""
    packed = compression.compress(codec, LONG)
    assert compression.decompress(codec, memoryview(b"#" + packed)[1:]) == LONG


@packers
def test_equal_data_packs_equally(codec: int) -> None:
    """No time of compression or the like gets in, so runs can be repeated."""
    assert compression.compress(codec, LONG) == compression.compress(codec, LONG)


@packers
@libraries
def test_other_libraries_read_ours(codec: int, library: object) -> None:
    """What we pack is unpacked by the codecs of other Kafka clients."""
    name = compression.CODECS[codec]
    unpack = getattr(library, f"{name}_decode")
    assert bytes(unpack(compression.compress(codec, LONG))) == LONG


@packers
@libraries
def test_we_read_those_of_other_libraries(codec: int, library: object) -> None:
    """What the codecs of other Kafka clients pack is unpacked by us."""
    name = compression.CODECS[codec]
    pack = getattr(library, f"{name}_encode")
    assert compression.decompress(codec, pack(LONG)) == LONG


def test_raw_snappy_is_read() -> None:
    """What librdkafka sends: one block, without Java's framing."""
    raw = bytes(cramjam.snappy.compress_raw(LONG))
    assert compression.decompress(compression.SNAPPY, raw) == LONG


def test_lz4_blocks_are_independent() -> None:
    """Java's client refuses frames whose blocks refer to one another."""
    descriptor = compression.compress(compression.LZ4, LONG)[4]
    assert descriptor & 0b0010_0000


def test_linked_lz4_blocks_are_read() -> None:
    """Clients that link blocks, as cramjam does by itself, are understood."""
    packed = bytes(cramjam.lz4.compress(LONG))
    assert not packed[4] & 0b0010_0000
    assert compression.decompress(compression.LZ4, packed) == LONG


def test_gzip_members_are_joined() -> None:
    """A gzip stream may have several members, and padding behind them."""
    packed = gzip.compress(b"one ") + gzip.compress(b"two") + bytes(8)
    assert compression.decompress(compression.GZIP, packed) == b"one two"


@codecs
def test_the_limit_is_exact(codec: int) -> None:
    """As many bytes as the limit may come out, and not one more."""
    packed = compression.compress(codec, LONG)
    assert compression.decompress(codec, packed, limit=len(LONG)) == LONG
    with pytest.raises(WireError, match=f"more than {len(LONG) - 1} bytes"):
        compression.decompress(codec, packed, limit=len(LONG) - 1)


@packers
def test_a_bomb_does_not_go_off(codec: int) -> None:
    """50 MB of zeros, in some kilobytes, stop at a limit of 1 MB."""
    bomb = compression.compress(codec, bytes(50_000_000))
    with pytest.raises(WireError, match="more than 1000000 bytes"):
        compression.decompress(codec, bomb, limit=1_000_000)


def test_a_snappy_block_may_lie_about_its_size() -> None:
    """The announced size is refused before anybody allocates it."""
    announced = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(WireError, match="more than"):
        compression.decompress(compression.SNAPPY, announced)


@packers
@given(cut=st.floats(0, 0.99))
def test_truncated_data_is_an_error(codec: int, cut: float) -> None:
    """Half a stream is no shorter stream, unless it was cut between two blocks."""
    packed = compression.compress(codec, LONG)
    part = packed[: int(len(packed) * cut)]
    try:
        found = compression.decompress(codec, part)
    except WireError:
        return
    # Java's snappy stream has no end mark.
    assert codec == compression.SNAPPY
    assert LONG.startswith(found)


@packers
@given(data=st.binary(max_size=300), position=st.integers(0), byte=st.integers(1, 255))
def test_damage_never_gets_out_as_another_error(
    codec: int, data: bytes, position: int, byte: int
) -> None:
    """Whatever a client sends, `WireError` or bytes is what comes of it."""
    packed = bytearray(compression.compress(codec, data))
    packed[position % len(packed)] ^= byte
    for damaged in (bytes(packed), data):
        try:
            found = compression.decompress(codec, damaged, limit=10_000_000)
        except WireError:
            continue
        assert isinstance(found, bytes)


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 100])
def test_snappy_blocks_of_impossible_sizes(size: int) -> None:
    """A block that ends before it starts, or behind the data."""
    header = compression.compress(compression.SNAPPY, b"")
    with pytest.raises(WireError, match="a block of"):
        compression.decompress(
            compression.SNAPPY, header + struct.pack(">i", size) + b"abc"
        )


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    """Three bits have room for eight codecs; there are five."""
    with pytest.raises(WireError, match=f"codec {codec}"):
        compression.compress(codec, b"")
    with pytest.raises(WireError, match=f"codec {codec}"):
        compression.decompress(codec, b"")


def test_other_formats_are_refused() -> None:
    """Neither zlib nor bzip2 is gzip."""
    for packed in (zlib.compress(LONG), bz2.compress(LONG)):
        with pytest.raises(WireError, match="gzip"):
            compression.decompress(compression.GZIP, packed)


def test_nothing_is_imported_before_it_is_needed() -> None:
    """Starting to serve costs neither cramjam nor crc32c."""
    program = (
        "import sys; import kohort.broker.log.partition; "
        "print(sorted({'cramjam', 'crc32c'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"
