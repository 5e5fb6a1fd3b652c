"""The codecs of record batches: gzip, snappy, lz4, zstd.

A client may decompress a batch as a whole (`decompress`). A broker cannot: 10 KB may
become 100 MB. It takes a piece at a time (`decompress_in_pieces`), and serves other
requests in between. No size that a batch declares is trusted.

The codecs' libraries are imported on first use: a broker passes batches on unchanged,
and reads the records of few.
"""

from __future__ import annotations

import functools
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by number, as in the three lowest bits of a batch's attributes."""

LIMIT: Final = 100 * 1024 * 1024
"""Maximum bytes that a batch may decompress to. ``socket.request.max.bytes`` allows as
many uncompressed, so a compression bomb gains nothing over a plain request."""

PIECE: Final = 256 * 1024
"""Bytes decompressed at a time: half a millisecond of gzip, the slowest."""

_INPUT = 64 * 1024
"""Bytes of gzip that are decompressed at a time. zlib copies unused input: a whole
batch would be copied for each piece."""

_SMALL = 32 * 1024
"""Bytes below which parts are joined: a block of snappy or a member of gzip may have a
single byte."""

_MANY = 256
"""Parts checked for one piece: 0.2 ms."""

_ZSTD_WINDOW = 2**27
"""The largest window of a zstd frame, that of ``compression.zstd.level`` 22. zstd
itself refuses larger ones, in Apache Kafka too."""

_SNAPPY_RATIO = 22
"""Snappy makes at most 64 bytes from 3: a block that declares more is damaged."""

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"

# snappy-java's stream format: a header of magic, version, and the oldest version that
# can read it; then blocks, each after its size.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024

# An LZ4 frame's descriptor: version 1, independent blocks of up to 64 KiB, no
# checksums, and the descriptor's own check byte. Java's client refuses frames of linked
# blocks, the only ones that cramjam makes, so frames are made here.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = bytes(4)

_FIRST_GUESS = 64 * 1024


_LZ4_DEFAULT = 9
_ZSTD_DEFAULT = 3
_ZSTD_QUICK = 9
"""The highest level that compresses 128 KB in a few milliseconds."""
_ZSTD_SLOW_INPUT = 4 * 1024

_LZ4_FLAGS = 4
_LZ4_INDEPENDENT = 0x20

# Appended to the data to detect a truncated frame: its bytes are then taken for the
# missing ones. It ends with a checksum, so not with its content.
_ZSTD_CONTENT = b"the end."
_ZSTD_END = bytes.fromhex("28b52ffd240841000074686520656e642e60c29d4a")


class TooLargeError(WireError):
    """Data decompresses to more bytes than are allowed."""


class DamagedError(WireError):
    """Data cannot be decompressed."""


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compresses data for a batch of this codec.

    Args:
        codec: 0 to 4.
        data: the data.
        level: as in ``compression.*.level``; None is the codec's default.

    Raises:
        WireError: the codec is unknown.
    """
    if codec == NONE:
        return data
    if codec == ZSTD:
        import cramjam

        return bytes(cramjam.zstd.compress(data, level))
    return b"".join(compress_pieces(codec, [data], level))


def compress_in_pieces(codec: int, data: Buffer) -> Iterator[bytes]:
    """Compresses data for a batch of this codec, as parts to be joined.

    Each part takes a few milliseconds at most; some are empty.

    Raises:
        WireError: the codec is unknown.
    """
    return compress_pieces(codec, [data])


def compress_pieces(
    codec: int, pieces: Iterable[Buffer], level: int | None = None
) -> Iterator[bytes]:
    """Like `compress_in_pieces`, for data in pieces.

    Args:
        codec: 0 to 4.
        pieces: the data.
        level: as in ``compression.*.level``; None is the codec's default.

    Raises:
        WireError: the codec is unknown.
    """
    if codec not in _PARTS:
        raise WireError(f"codec {codec} does not exist")
    return _PARTS[codec](pieces, level)


def _slices(data: Buffer, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield bytes(data[start : start + size])


def _resliced(pieces: Iterable[Buffer], size: int) -> Iterator[bytes]:
    """Slices the data into parts of one size; the last may be shorter.

    A slice is empty if a piece was too short for one.
    """
    rest = b""
    for piece in pieces:
        data = rest + piece if rest else piece
        whole = len(data) - len(data) % size
        yield from _slices(data[:whole], size) if whole else (b"",)
        rest = bytes(data[whole:])
    if rest:
        yield rest


def _plain_parts(pieces: Iterable[Buffer], _level: int | None) -> Iterator[bytes]:
    return _resliced(pieces, PIECE)


def _gzip_parts(pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
    # Without a timestamp, equal records make equal batches.
    packer = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_FORMAT)
    for piece in _resliced(pieces, _INPUT):
        yield packer.compress(piece)
    yield packer.flush()


def _snappy_parts(pieces: Iterable[Buffer], _level: int | None) -> Iterator[bytes]:
    import cramjam

    yield _XERIAL_HEADER
    for piece in _resliced(pieces, _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(piece)) if piece else b""
        yield struct.pack(">i", len(block)) + block if piece else b""


def _lz4_parts(pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
    import lz4.block

    # Kafka uses the fast compressor for its default level, the other one otherwise.
    is_quick = level in (None, _LZ4_DEFAULT)
    mode = {} if is_quick else {"mode": "high_compression", "compression": level}
    yield _LZ4_HEADER
    for block in _resliced(pieces, _LZ4_BLOCK):
        packed = lz4.block.compress(block, store_size=False, **mode)
        if not block:
            yield b""
        elif len(packed) < len(block):
            yield struct.pack("<I", len(packed)) + packed
        else:
            yield struct.pack("<I", len(block) | _LZ4_STORED) + block
    yield _LZ4_END


def _zstd_parts(pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
    import zstandard

    level = _ZSTD_DEFAULT if level is None else level
    # As for a megabyte: the largest levels take 700 MB for data of any size.
    chosen = zstandard.ZstdCompressionParameters.from_level(level, source_size=2**20)
    packer = zstandard.ZstdCompressor(compression_params=chosen).compressobj()
    is_slow = level > _ZSTD_QUICK
    for piece in _resliced(pieces, _ZSTD_SLOW_INPUT if is_slow else _INPUT):
        yield packer.compress(piece)
        if is_slow and piece:
            # Otherwise 128 KB are compressed at once, which takes 50 ms.
            yield packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    yield packer.flush()


_PARTS: Final = {
    NONE: _plain_parts,
    GZIP: _gzip_parts,
    SNAPPY: _snappy_parts,
    LZ4: _lz4_parts,
    ZSTD: _zstd_parts,
}


def decompress(codec: int, data: Buffer, *, limit: int = LIMIT) -> bytes:
    """Decompresses the records of a batch, whichever client compressed them.

    Args:
        codec: 0 to 4.
        data: the records of a batch as they are on the wire.
        limit: maximum size of the result, in bytes.

    Raises:
        TooLargeError: the result has more than `limit` bytes.
        DamagedError: the data is damaged.
        WireError: unknown codec.
    """
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == ZSTD:
        return _decompress_zstd(data, limit)
    return b"".join(_parts(codec, data, limit))


def decompress_in_pieces(
    codec: int, data: Buffer, *, limit: int = LIMIT
) -> Iterator[bytes]:
    """Decompresses as `decompress` does, a piece at a time.

    A piece has little more than `PIECE` bytes, so that it needs little memory and time.
    It is empty if the data has very many parts without bytes. Only a block of raw
    snappy, which has no smaller parts, is decompressed at once; it has at most
    `_SNAPPY_RATIO` times its size.

    Args:
        codec: 0 to 4.
        data: the records of a batch as they are on the wire.
        limit: maximum size of the result, in bytes.

    Raises:
        As `decompress`.
    """
    small_size = 0
    small: list[bytes] = []
    for part in _parts(codec, data, limit):
        if len(part) >= _SMALL and not small:
            yield part
            continue
        small.append(part)
        small_size += len(part)
        if small_size >= _SMALL or len(small) >= _MANY:
            yield b"".join(small)
            small_size = 0
            small.clear()
    if small:
        yield b"".join(small)


def _parts(codec: int, data: Buffer, limit: int) -> Iterator[bytes]:
    """The parts of the data, of any size, as they are decompressed."""
    if codec not in _IN_PIECES:
        raise WireError(f"codec {codec} does not exist")
    size = 0
    for part in _IN_PIECES[codec](data, limit):
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        yield part


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"decompresses to more than {limit} bytes")


def _pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    if len(data) > limit:
        raise _too_large(limit)
    yield from _slices(data, PIECE)


def _gzip_pieces(data: Buffer, _limit: int) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP_FORMAT)
    rest, position = b"", 0
    while True:
        if not rest:
            rest = bytes(data[position : position + _INPUT])
            position += len(rest)
        is_last = not rest
        try:
            piece = unpacker.decompress(rest, PIECE)
        except zlib.error as error:
            raise DamagedError(f"gzip: {error}") from None
        yield piece
        rest = unpacker.unconsumed_tail
        if unpacker.eof:
            rest = unpacker.unused_data
            if len(rest) < len(_GZIP_MAGIC):
                rest += bytes(data[position : position + _INPUT])
                position += _INPUT
            # A gzip file may have several members; other bytes are padding.
            if not rest.startswith(_GZIP_MAGIC):
                return
            unpacker = zlib.decompressobj(_GZIP_FORMAT)
        elif is_last and not piece:
            raise DamagedError("gzip: ends too early")


def _snappy_pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield from _pieces(_decompress_snappy_block(bytes(data), limit, limit), limit)
        return
    left = limit
    for block in _xerial_blocks(data):
        unpacked = _decompress_snappy_block(bytes(block), left, limit)
        left -= len(unpacked)
        yield unpacked[:PIECE]
        yield from _pieces(memoryview(unpacked)[PIECE:], limit)


def _lz4_pieces(data: Buffer, _limit: int) -> Iterator[bytes]:
    import lz4.frame

    if len(data) > _LZ4_FLAGS and not data[_LZ4_FLAGS] & _LZ4_INDEPENDENT:
        raise DamagedError("lz4: linked blocks, which Apache Kafka refuses")
    unpacker = lz4.frame.LZ4FrameDecompressor()
    position = 0
    while not unpacker.eof:
        part = b""
        if unpacker.needs_input:
            part = bytes(data[position : position + _INPUT])
            position += len(part)
            if not part:
                raise DamagedError("lz4: ends too early")
        try:
            piece = unpacker.decompress(part, PIECE)
        except RuntimeError as error:
            raise DamagedError(f"lz4: {error}") from None
        yield piece


def _zstd_pieces(data: Buffer, _limit: int) -> Iterator[bytes]:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    ended = bytes(data) + _ZSTD_END
    held = b""
    with unpacker.stream_reader(ended, read_across_frames=True) as reader:
        while True:
            try:
                piece = reader.read(PIECE)
            except zstandard.ZstdError as error:
                raise DamagedError(f"zstd: {error}") from None
            if not piece:
                break
            held += piece
            yield held[: -len(_ZSTD_CONTENT)]
            held = held[-len(_ZSTD_CONTENT) :]
    if held != _ZSTD_CONTENT:
        raise DamagedError("zstd: ends too early")


_IN_PIECES: Final = {
    NONE: _pieces,
    GZIP: _gzip_pieces,
    SNAPPY: _snappy_pieces,
    LZ4: _lz4_pieces,
    ZSTD: _zstd_pieces,
}


def _xerial_blocks(data: Buffer) -> Iterator[Buffer]:
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise DamagedError("snappy: ends too early")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise DamagedError(f"snappy: a block of {size} bytes")
        yield data[position : position + size]
        position += size


def _decompress_snappy_block(block: bytes, left: int, limit: int) -> bytes:
    import cramjam

    try:
        # The size precedes the data, and is trusted only if it is allowed.
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise _too_large(limit)
        if size > _SNAPPY_RATIO * len(block):
            raise DamagedError(f"snappy: {len(block)} bytes that declare {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DamagedError(f"snappy: {error}") from None


class _Unpackers(threading.local):
    """A zstd decompressor for each thread: a new one takes three times a batch."""

    def __init__(self) -> None:
        import zstandard

        self.zstd = zstandard.ZstdDecompressor()


@functools.cache
def _unpackers() -> _Unpackers:
    return _Unpackers()


def _decompress_zstd_frame(data: Buffer, limit: int) -> bytes | None:
    """Decompresses data that is one frame with its size declared; None for other."""
    import zstandard

    try:
        if not 0 < zstandard.frame_content_size(data) <= limit:
            return None
        return _unpackers().zstd.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    """Decompresses into buffers of fixed size, larger ones until it fits.

    A frame need not declare its size, and cramjam has no limit except the size of the
    buffer that it writes to.
    """
    import cramjam

    size = min(max(4 * len(data), _FIRST_GUESS), limit)
    found = _decompress_zstd_frame(data, size)
    if found is not None:
        return found
    while True:
        out = bytearray(size)
        try:
            count = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            # The only message about our buffer, not about the data.
            if "whole buffer" not in str(error):
                raise DamagedError(f"zstd: {error}") from None
            if size == limit:
                raise _too_large(limit) from None
            size = min(4 * size, limit)
        else:
            return bytes(memoryview(out)[:count])
