"""The codecs of record batches: other libraries, and compression bombs."""

from __future__ import annotations

import bz2
import gzip
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.other_clients import module_of

from kohort.protocol import compression
from kohort.protocol.compression import DamagedError
from kohort.protocol.fields import Buffer
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


def together(codec: int, data: Buffer, *, limit: int = compression.LIMIT) -> bytes:
    """Joins all pieces, none of which may be too long."""
    pieces = list(compression.decompress_in_pieces(codec, data, limit=limit))
    assert all(len(piece) < 2 * compression.PIECE for piece in pieces)
    return b"".join(pieces)


Unpack = Callable[..., bytes]

ways = pytest.mark.parametrize("unpack", [compression.decompress, together])
codecs = pytest.mark.parametrize("codec", EVERY, ids=lambda c: compression.CODECS[c])
packers = pytest.mark.parametrize("codec", PACKING, ids=lambda c: compression.CODECS[c])
libraries = pytest.mark.parametrize(
    "library",
    [module_of("aiokafka.codec"), module_of("kafka.codec")],
    ids=["aiokafka", "kafka-python"],
)


@ways
@codecs
@given(data=st.binary(max_size=2_000))
def test_what_was_packed_comes_back(unpack: Unpack, codec: int, data: bytes) -> None:
    """Any bytes are restored, including none."""
    assert unpack(codec, compression.compress(codec, data)) == data


@ways
@codecs
def test_long_data_comes_back(unpack: Unpack, codec: int) -> None:
    """Data of several blocks is restored, from a view as on the wire."""
    packed = compression.compress(codec, LONG)
    assert unpack(codec, memoryview(b"#" + packed)[1:]) == LONG


@pytest.mark.parametrize(("codec", "low", "high"), [(1, 1, 9), (3, 1, 17), (4, -9, 19)])
def test_a_higher_level_packs_more(codec: int, low: int, high: int) -> None:
    """All levels are read alike."""
    data = b"".join(b"%d;" % (n * n % 10_007) for n in range(20_000))
    packed = [compression.compress(codec, data, level) for level in (low, high)]
    assert len(packed[1]) < len(packed[0])
    for each in packed:
        assert compression.decompress(codec, each, limit=len(data)) == data


@packers
def test_equal_data_packs_equally(codec: int) -> None:
    """No timestamp is included, so runs are repeatable."""
    assert compression.compress(codec, LONG) == compression.compress(codec, LONG)


@packers
@libraries
def test_other_libraries_read_ours(codec: int, library: object) -> None:
    """The codecs of other Kafka clients decompress our data."""
    name = compression.CODECS[codec]
    unpack = getattr(library, f"{name}_decode")
    assert bytes(unpack(compression.compress(codec, LONG))) == LONG


@ways
@packers
@libraries
def test_we_read_those_of_other_libraries(
    unpack: Unpack, codec: int, library: object
) -> None:
    """We decompress the data of other Kafka clients' codecs."""
    name = compression.CODECS[codec]
    pack = getattr(library, f"{name}_encode")
    assert unpack(codec, pack(LONG)) == LONG


@ways
def test_raw_snappy_is_read(unpack: Unpack) -> None:
    """Raw snappy, as librdkafka sends it, is one block without Java's framing."""
    raw = bytes(cramjam.snappy.compress_raw(LONG))
    assert unpack(compression.SNAPPY, raw) == LONG


def test_lz4_blocks_are_independent() -> None:
    """Java's client refuses frames whose blocks refer to one another."""
    descriptor = compression.compress(compression.LZ4, LONG)[4]
    assert descriptor & 0b0010_0000


@ways
def test_linked_lz4_blocks_are_refused(unpack: Unpack) -> None:
    """Java's client cannot read blocks that refer to one another, cramjam's default."""
    packed = bytes(cramjam.lz4.compress(LONG))
    assert not packed[4] & 0b0010_0000
    with pytest.raises(DamagedError, match="linked"):
        unpack(compression.LZ4, packed)


@ways
def test_gzip_members_are_joined(unpack: Unpack) -> None:
    """A gzip stream may have several members, and padding after them."""
    packed = gzip.compress(b"one ") + gzip.compress(b"two") + bytes(8)
    assert unpack(compression.GZIP, packed) == b"one two"


@ways
@codecs
def test_the_limit_is_exact(unpack: Unpack, codec: int) -> None:
    """Exactly the limit is allowed, and not a byte more."""
    packed = compression.compress(codec, LONG)
    assert unpack(codec, packed, limit=len(LONG)) == LONG
    with pytest.raises(WireError, match=f"more than {len(LONG) - 1} bytes"):
        unpack(codec, packed, limit=len(LONG) - 1)


@ways
@packers
def test_a_bomb_does_not_go_off(unpack: Unpack, codec: int) -> None:
    """50 MB of zeros, in some kilobytes, stop at a limit of 1 MB."""
    bomb = compression.compress(codec, bytes(50_000_000))
    with pytest.raises(WireError, match="more than 1000000 bytes"):
        unpack(codec, bomb, limit=1_000_000)


@ways
def test_a_snappy_block_may_lie_about_its_size(unpack: Unpack) -> None:
    """An excessive declared size is refused before it is allocated."""
    announced = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(WireError, match="more than"):
        unpack(compression.SNAPPY, announced)


@ways
@packers
@given(cut=st.floats(0, 0.99))
def test_truncated_data_is_an_error(unpack: Unpack, codec: int, cut: float) -> None:
    """A truncated stream is an error, unless it was cut between two blocks."""
    packed = compression.compress(codec, LONG)
    part = packed[: int(len(packed) * cut)]
    try:
        found = unpack(codec, part)
    except WireError:
        return
    # Java's snappy stream has no end mark, and zstd without a frame is empty.
    assert codec == compression.SNAPPY or not part
    assert LONG.startswith(found)


@ways
@packers
@given(data=st.binary(max_size=300), position=st.integers(0), byte=st.integers(1, 255))
def test_damage_never_gets_out_as_another_error(
    unpack: Unpack, codec: int, data: bytes, position: int, byte: int
) -> None:
    """Any input gives bytes or a `WireError`."""
    packed = bytearray(compression.compress(codec, data))
    packed[position % len(packed)] ^= byte
    for damaged in (bytes(packed), data):
        try:
            found = unpack(codec, damaged, limit=10_000_000)
        except WireError:
            continue
        assert isinstance(found, bytes)


@ways
@pytest.mark.parametrize("size", [-1, 2**31 - 1, 100])
def test_snappy_blocks_of_impossible_sizes(unpack: Unpack, size: int) -> None:
    """A block with a negative size, or beyond the data, is an error."""
    header = compression.compress(compression.SNAPPY, b"")
    with pytest.raises(WireError, match="a block of"):
        unpack(compression.SNAPPY, header + struct.pack(">i", size) + b"abc")


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    """Three bits allow eight codecs; only five exist."""
    with pytest.raises(WireError, match=f"codec {codec}"):
        compression.compress(codec, b"")
    with pytest.raises(WireError, match=f"codec {codec}"):
        compression.decompress(codec, b"")


@ways
def test_other_formats_are_refused(unpack: Unpack) -> None:
    """The formats of zlib and bzip2 are not gzip."""
    for packed in (zlib.compress(LONG), bz2.compress(LONG)):
        with pytest.raises(WireError, match="gzip"):
            unpack(compression.GZIP, packed)


def test_nothing_is_imported_before_it_is_needed() -> None:
    """Starting to serve imports neither a codec nor crc32c."""
    program = (
        "import sys; import kohort.broker.log.partition; "
        "print(sorted({'cramjam', 'crc32c', 'lz4', 'zstandard'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (
            compression.SNAPPY,
            compression.compress(compression.SNAPPY, b"")
            + struct.pack(">ib", 1, 0) * 10_000,
        ),
        (compression.GZIP, gzip.compress(b"") * 10_000),
    ],
    ids=["snappy", "gzip"],
)
def test_parts_without_bytes_take_turns(codec: int, packed: bytes) -> None:
    """Empty blocks and members are work, too: a piece has few of them."""
    pieces = list(compression.decompress_in_pieces(codec, packed))
    assert len(pieces) > 30
    assert not any(pieces)


def test_small_parts_are_joined() -> None:
    """Blocks of one byte each are joined to larger pieces."""
    block = bytes(cramjam.snappy.compress_raw(b"x"))
    packed = compression.compress(compression.SNAPPY, b"")
    packed += (struct.pack(">i", len(block)) + block) * 10_000
    pieces = list(compression.decompress_in_pieces(compression.SNAPPY, packed))
    assert b"".join(pieces) == b"x" * 10_000
    assert len(pieces) < 100
