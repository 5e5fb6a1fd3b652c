"""The codecs of record batches: gzip, snappy, lz4, zstd.

cramjam is imported by the first call that needs it: a broker passes batches on
as they are, and reads into them only for a lookup by timestamp.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from kohort.protocol.messages import Buffer, WireError

if TYPE_CHECKING:
    from types import ModuleType

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by number, as in the three lowest bits of a batch's attributes."""

LIMIT: Final = 100 * 1024 * 1024
"""Bytes that a batch may unfold to: what ``socket.request.max.bytes`` lets
somebody send uncompressed, so a bomb gains nothing over a plain request."""

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"

# snappy-java's stream format: a header of magic, version, and the oldest
# version that can read it; then blocks, each behind its size.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024

# An LZ4 frame's descriptor: version 1, independent blocks of up to 64 KiB, no
# checksums, and the descriptor's own check byte. Java's client refuses frames
# of linked blocks, which are what cramjam makes, so frames are made here.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = bytes(4)

_FIRST_GUESS = 64 * 1024


def compress(codec: int, data: bytes) -> bytes:
    """The data as a batch of this codec holds it.

    Raises:
        WireError: there is no such codec.
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        # Without a time of compression, equal records make equal batches.
        packer = zlib.compressobj(wbits=_GZIP_FORMAT)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        return _compress_lz4(data)
    if codec == ZSTD:
        import cramjam  # noqa: PLC0415 - see the module's docstring

        return bytes(cramjam.zstd.compress(data))
    raise WireError(f"codec {codec} does not exist")


def decompress(codec: int, data: Buffer, *, limit: int = LIMIT) -> bytes:
    """What `compress` of any client was given.

    Args:
        codec: 0 to 4.
        data: the records of a batch as they are on the wire.
        limit: the most bytes that may come out.

    Raises:
        WireError: no such codec, damaged data, or more than `limit` bytes.
    """
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(bytes(data), limit)
    if codec in (LZ4, ZSTD):
        import cramjam  # noqa: PLC0415 - see the module's docstring

        module = cramjam.lz4 if codec == LZ4 else cramjam.zstd
        return _decompress_growing(module, data, limit)
    raise WireError(f"codec {codec} does not exist")


def _too_large(limit: int) -> WireError:
    return WireError(f"decompresses to more than {limit} bytes")


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    out: list[bytes] = []
    size = 0
    rest = bytes(data)
    while True:
        unpacker = zlib.decompressobj(_GZIP_FORMAT)
        try:
            out.append(unpacker.decompress(rest, limit + 1 - size))
        except zlib.error as error:
            raise WireError(f"gzip: {error}") from None
        size += len(out[-1])
        if size > limit:
            raise _too_large(limit)
        if not unpacker.eof:
            raise WireError("gzip: ends too early")
        rest = unpacker.unused_data
        # A gzip file may have several members; what is no member is padding.
        if not rest.startswith(_GZIP_MAGIC):
            return b"".join(out)


def _compress_snappy(data: bytes) -> bytes:
    import cramjam  # noqa: PLC0415 - see the module's docstring

    out = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK])
        out += struct.pack(">i", len(block)), bytes(block)
    return b"".join(out)


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    """Both forms: Java's stream of blocks, and librdkafka's single raw block."""
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, limit, limit)
    out: list[bytes] = []
    left = limit
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if position + 4 > len(data):
            raise WireError("snappy: ends too early")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise WireError(f"snappy: a block of {size} bytes")
        out.append(
            _decompress_snappy_block(data[position : position + size], left, limit)
        )
        left -= len(out[-1])
        position += size
    return b"".join(out)


def _decompress_snappy_block(block: bytes, left: int, limit: int) -> bytes:
    import cramjam  # noqa: PLC0415 - see the module's docstring

    try:
        # The size stands in front, and is believed only if it is allowed.
        if cramjam.snappy.decompress_raw_len(block) > left:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise WireError(f"snappy: {error}") from None


def _compress_lz4(data: bytes) -> bytes:
    import cramjam  # noqa: PLC0415 - see the module's docstring

    out = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        block = data[start : start + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += struct.pack("<I", len(packed)), packed
        else:
            out += struct.pack("<I", len(block) | _LZ4_STORED), block
    out.append(_LZ4_END)
    return b"".join(out)


def _decompress_growing(module: ModuleType, data: Buffer, limit: int) -> bytes:
    """Decompresses into buffers of fixed size, larger ones until it fits.

    A frame need not say how much it holds, and cramjam takes no limit but the
    size of the buffer that it writes to.
    """
    import cramjam  # noqa: PLC0415 - see the module's docstring

    size = min(max(4 * len(data), _FIRST_GUESS), limit)
    while True:
        out = bytearray(size)
        try:
            count = module.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            # The one message that speaks of our buffer, not of the data.
            if "whole buffer" not in str(error):
                name = module.__name__.rpartition(".")[2]
                raise WireError(f"{name}: {error}") from None
            if size == limit:
                raise _too_large(limit) from None
            size = min(4 * size, limit)
        else:
            return bytes(memoryview(out)[:count])
