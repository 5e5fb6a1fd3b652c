"""Zigzag varints, and the fields of records that consist of them (KIP-98)."""

from __future__ import annotations

import functools
from typing import Final

from kohort.protocol.fields import Buffer
from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import WireError

LONGEST_INT: Final = 5
"""Bytes of an int32."""


def varint_at(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint and the position behind it.

    Raises:
        WireError: it is longer than 64 bits need.
        IndexError: the data ends in it.
    """
    value = data[position]
    position += 1
    if value >= 0x80:
        value &= 0x7F
        shift = 7
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise WireError("a varint of more than 10 bytes")
        if shift == 63:
            value &= 2**64 - 1
    return (value >> 1) ^ -(value & 1), position


def int_at(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint of an int32, and the position behind it.

    Raises:
        WireError: it has more than five bytes, or is not an int32.
        IndexError: the data ends in it.
    """
    value, after = varint_at(data, position)
    if after - position > LONGEST_INT or not -(2**31) <= value < 2**31:
        raise WireError(f"a varint of {value} in {after - position} bytes")
    return value, after


def delta_at(data: Buffer, position: int) -> tuple[int, int]:
    """A record's offset relative to its batch's, and the position behind it.

    Raises:
        As `int_at`.
    """
    delta = data[position]
    if not delta & 0x81:
        # Nearly always one byte, and not negative: read without a call.
        return delta >> 1, position + 1
    return int_at(data, position)


def wrapped(timestamp: int) -> int:
    """A timestamp as an int64; wraps around at its ends, as in Java."""
    return (timestamp + 2**63) % 2**64 - 2**63


def bytes_at(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, and the position behind; -1 is null.

    Raises:
        WireError: they would end behind `end`.
        IndexError: the data ends before them.
    """
    size = data[position]
    if size & 0x81:
        size, position = varint_at(data, position)
        if size < 0:
            return None, position
    else:
        # Usually one byte, as in `delta_at`.
        size >>= 1
        position += 1
    if position + size > end:
        raise WireError(f"{size} bytes, where {end - position} are left")
    return bytes(data[position : position + size]), position + size


def put_varint(out: bytearray, value: int) -> None:
    """Appends a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@functools.lru_cache(1 << 14)
def varint(value: int) -> bytes:
    """A zigzag varint as in record batches; recent ones are cached."""
    return uvarint((value << 1) ^ (value >> 63))
