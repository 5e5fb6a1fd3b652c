"""Responses that are encoded before they are sent; some are equal but for one field."""

from __future__ import annotations

import struct
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from kohort.protocol.fields import Buffer
from kohort.protocol.generated_calls import uvarint

_INT16: Final = struct.Struct(">h").pack
_INT32: Final = struct.Struct(">i").pack
_SHORT: Final = tuple(bytes((size + 1,)) for size in range(0x7F))
"""Compact lengths of one byte."""


class Encoded(NamedTuple):
    """A response that is encoded already, in parts, and without its header."""

    parts: list[Buffer]
    errors: AbstractSet[int]
    """The error codes in it; 0 counts as none."""


def with_error(body: bytes, error_code: int) -> bytes | Encoded:
    """An encoded response with an error code, which may be 0."""
    return Encoded([body], {error_code}) if error_code else body


class Template:
    """A response without one field: a string, or bytes.

    Args:
        body: the encoded response with the field empty.
        behind: bytes behind the field.
        width: bytes of the field's length; 0 if it is compact.
    """

    __slots__ = ("_head", "_tail", "_width")

    def __init__(self, body: bytes, behind: int, width: int) -> None:
        self._head = body[: -behind - (width or 1)]
        self._tail = body[-behind:] if behind else b""
        self._width = width

    def filled(self, value: str | bytes) -> bytes:
        """The response with a value of the field."""
        # Not `isinstance`: each member of a rebalance comes here twice.
        data: bytes = value.encode() if type(value) is str else value  # type: ignore[assignment]
        size = len(data)
        if size < 0x7F and not self._width:
            return b"".join((self._head, _SHORT[size], data, self._tail))
        length = length_of(data, self._width)
        return b"".join((self._head, length, data, self._tail))


def length_of(value: bytes, width: int) -> bytes:
    """The encoded length of a string, or of bytes.

    Args:
        value: the string or bytes.
        width: bytes of the length; 0 if it is compact.
    """
    size = len(value)
    if not width:
        return _SHORT[size] if size < 0x7F else uvarint(size + 1)
    return _INT16(size) if width == 2 else _INT32(size)
