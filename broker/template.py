"""Responses that are equal but for one field: the rest is encoded once."""

from __future__ import annotations

import struct
from typing import Final

from kohort.protocol.generated_calls import uvarint

_HEAD: Final = struct.Struct(">ii").pack
_INT16: Final = struct.Struct(">h").pack
_INT32: Final = struct.Struct(">i").pack
_SHORT: Final = tuple(bytes((size + 1,)) for size in range(0x7F))
"""Compact lengths of one byte."""


class Template:
    """A response without one field: a string, or bytes.

    Args:
        body: the encoded response with the field empty.
        behind: bytes behind the field.
        width: bytes of the field's length; 0 if it is compact.
        is_tagged: whether the header of the response has tagged fields.
    """

    __slots__ = ("_head", "_size", "_tail", "_width")

    def __init__(
        self, body: bytes, behind: int, width: int, *, is_tagged: bool
    ) -> None:
        head = b"\0" if is_tagged else b""
        self._head = head + body[: -behind - (width or 1)]
        self._tail = body[-behind:] if behind else b""
        self._width = width
        # Without the field's length and value.
        self._size = 4 + len(self._head) + behind

    def framed(self, correlation_id: int, value: str | bytes) -> bytes:
        """The frame of the response with a value of the field."""
        # Not `isinstance`: each member of a rebalance comes here twice.
        data: bytes = value.encode() if type(value) is str else value  # type: ignore[assignment]
        size = len(data)
        if size < 0x7F and not self._width:
            head = _HEAD(self._size + 1 + size, correlation_id)
            return b"".join((head, self._head, _SHORT[size], data, self._tail))
        length = length_of(data, self._width)
        head = _HEAD(self._size + len(length) + size, correlation_id)
        return b"".join((head, self._head, length, data, self._tail))


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
