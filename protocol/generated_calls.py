"""Functions that generated codecs call, and the limits that they enforce.

The limits apply only to received bytes, not to encoding.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any

Source = bytes | bytearray | mmap.mmap

_UVARINT_BYTES = 5
"""Bytes of the longest unsigned varint: 32 bits by 7."""

_STRING_LIMIT = 0x7FFF
"""Bytes of the longest string, in the compact form too."""

MOST_TAGS = 100
"""Tagged fields in one section. Kafka's messages define at most three, clients send no
others, and newer versions of a client may send a few more. Kafka has no limit: it reads
each empty tagged field of two bytes into an object, and blocks on a frame full of them.
"""

MOST_ITEMS = 100_000
"""Items of arrays, and tagged fields, in one request. An item of a few bytes becomes
objects of 50 to 200, and others in the response. They are read and made in pieces, but
freed at once: a hundred thousand take 10 to 20 ms. The largest request of Kafka's own
tests has some ten thousand. Kafka has no limit, and runs out of memory: its heap has 1
GB by default."""

PIECE = 500
"""Items that are decoded or encoded between two yields: about 0.5 ms."""

BYTES_SHIFT = 6
"""Bytes of text that cost as much as an item, as a power of two: replacing invalid
UTF-8 takes 0.1 us a byte."""

_FIXED_PIECE = 8192
"""Numbers in one array that are read or written between two yields: about 0.3 ms."""


def read_uvarint(buffer: Source, position: int) -> tuple[int, int]:
    """An unsigned varint of up to 32 bits: (value, position behind it).

    As in Kafka, the value is an int32, negative if bit 31 is set, and higher bits are
    dropped.
    """
    value = 0
    for shift in range(0, 7 * _UVARINT_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000, position
    raise ValueError("varint of more than 5 bytes")


def read_string_length(buffer: Source, position: int) -> tuple[int, int]:
    """The length of a compact string, plus one: (value, position behind it)."""
    value, position = read_uvarint(buffer, position)
    if value > _STRING_LIMIT + 1:
        raise ValueError(f"string of {value - 1} bytes")
    return value, position


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buffer: Source, position: int) -> int:
    """The position behind a section of unknown tagged fields."""
    count, position = read_uvarint(buffer, position)
    if count > MOST_TAGS:
        too_many_tags(count)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if size < 0:
            bad_length("a tagged field", size)
        position += size
    return position


def bad_length(what: str, length: int) -> None:
    """Raises for an invalid length of a field."""
    raise ValueError(f"length {length} of {what}")


def too_many_tags(count: int) -> None:
    """Raises for a section with too many tagged fields."""
    raise ValueError(f"{count} tagged fields in a section; the limit is {MOST_TAGS}")


def too_many_items() -> None:
    """Raises for a request with too many rows."""
    raise ValueError(f"more than {MOST_ITEMS:,} items and tagged fields in a request")


def unpack_in_pieces(
    fmt: str, count: int, buffer: Source, position: int
) -> Generator[None, None, list[Any]]:
    """The values of an array of fixed-size items; yields between its pieces."""
    found: list[Any] = []
    size = struct.calcsize(f">{fmt}")
    for start in range(0, count, _FIXED_PIECE):
        piece = min(count - start, _FIXED_PIECE)
        if fmt == "16s":
            until = position + size * piece
            found += [bytes(buffer[i : i + 16]) for i in range(position, until, 16)]
        else:
            found += struct.unpack_from(f">{piece}{fmt}", buffer, position)
        position += size * piece
        if start + piece < count:
            yield
    return found


def pack_in_pieces(
    fmt: str, items: Sequence[Any], append: Callable[[bytes], object]
) -> Generator[None, None, None]:
    """Writes an array of fixed-size items; yields between its pieces."""
    for start in range(0, len(items), _FIXED_PIECE):
        chunk = items[start : start + _FIXED_PIECE]
        append(struct.pack(f">{len(chunk)}{fmt}", *chunk))
        if start + _FIXED_PIECE < len(items):
            yield
