"""Frames and headers: where a request starts and ends in a stream of bytes.

A frame is an int32 size and that many bytes: a header, then a body. Nothing is
copied for frames that arrive whole: they are given as offsets into the bytes
received.
"""

from __future__ import annotations

import struct
from typing import Annotated

from kohort.protocol.messages import (
    Int16,
    Int32,
    String,
    V,
    WireError,
    slotted,
)

LONG_FRAME = 16 * 1024
"""Bytes from which on the pieces of a frame are gathered and joined once."""

_SMALL_PIECE = 1024
"""Bytes below which pieces are collected in one buffer: an object per piece
would cost a hundred times what a peer sends that sends byte by byte."""

_SIZE = struct.Struct(">i").unpack_from

Frame = tuple[bytes, int, int]
"""(buffer, start, end) of what follows the size."""


@slotted
class RequestHeader:
    """The header of a request: v0 has no client id, v2 is flexible (KIP-482)."""

    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: Annotated[String | None, V(1, classic=True)] = ""


@slotted
class ResponseHeader:
    """The header of a response; v1 is flexible."""

    correlation_id: Int32 = 0


class Framer:
    """Cuts a stream into frames.

    Args:
        limit: the largest size of a frame in bytes (``socket.request.max.bytes``).
    """

    __slots__ = ("_kept", "_limit", "_missing", "_pieces")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = b""
        # A long frame that is under way: its pieces, and how much is missing.
        self._pieces: list[bytes | bytearray] = []
        self._missing = 0

    @property
    def unfinished(self) -> int:
        """Bytes that are kept of a frame that has not come whole."""
        return len(self._kept) + sum(map(len, self._pieces))

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            WireError: the size of a frame is negative or above the limit. What
                was complete before that is in the error's `frames`.
        """
        frames: list[Frame] = []
        if self._pieces:
            if len(data) < self._missing:
                self._gather(data)
                return frames
            self._pieces.append(data[: self._missing])
            frame = b"".join(self._pieces)
            frames.append((frame, 0, len(frame)))
            data = data[self._missing :]
            self._pieces = []
        elif self._kept:
            data = self._kept + data
            self._kept = b""
        position, end = 0, len(data)
        while end - position >= 4:
            (size,) = _SIZE(data, position)
            if not 0 <= size <= self._limit:
                raise FrameSizeError(size, self._limit, frames)
            start = position + 4
            position = start + size
            if position > end:
                if size < LONG_FRAME:
                    position = start - 4
                    break
                self._pieces = [data[start:]]
                self._missing = position - end
                return frames
            frames.append((data, start, position))
        if position < end:
            self._kept = data[position:] if position else data
        return frames

    def _gather(self, data: bytes) -> None:
        """Takes a piece from the middle of a long frame."""
        self._missing -= len(data)
        last = self._pieces[-1]
        if len(data) >= _SMALL_PIECE:
            self._pieces.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            self._pieces.append(bytearray(data))


class FrameSizeError(WireError):
    """A frame of a size that cannot be.

    Attributes:
        frames: the frames before it.
    """

    def __init__(self, size: int, limit: int, frames: list[Frame]) -> None:
        super().__init__(f"a frame of {size} bytes; the limit is {limit}")
        self.frames = frames
