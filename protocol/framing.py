"""Frames: where a request starts and ends in a stream of bytes.

A frame is an int32 size and that many bytes: a header, then a body. Nothing is
copied for frames that arrive whole: they are given as offsets into the bytes
received. Long ones are gathered as their bytes arrive, and copied once, when they are
whole: an announced size alone takes no memory.
"""

from __future__ import annotations

import mmap
import struct

from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError

LONG_FRAME = 16 * 1024
"""Bytes from which on the pieces of a frame are gathered and joined once."""

MAPPED_FRAME = 4 * 1024 * 1024
"""Bytes of a frame from which on it is gathered in memory that the system gives as it
is filled: joining 100 MB of pieces at the end would take 40 to 120 ms."""

_SMALL_PIECE = 1024
"""Bytes below which pieces are collected in one buffer: if a peer sends byte by
byte, an object per piece would take a hundred times the memory of the data."""

_SIZE = struct.Struct(">i").unpack_from

Received = bytes | mmap.mmap
"""Bytes received; those of a long frame are in memory that is mapped."""

Frame = tuple[Received, int, int]
"""(buffer, start, end) of a frame, without its size."""


class Framer:
    """Cuts a stream into frames.

    Args:
        limit: the largest size of a frame in bytes (``socket.request.max.bytes``).

    Attributes:
        gathered: bytes of a long frame that has not come whole.
    """

    __slots__ = ("_kept", "_limit", "_mapped", "_missing", "_pieces", "gathered")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = b""
        # A long frame that is under way: its pieces or memory for it, how much there
        # is, and how much is missing.
        self._pieces: list[Buffer] = []
        self._mapped: mmap.mmap | None = None
        self.gathered = 0
        self._missing = 0

    @property
    def unfinished(self) -> int:
        """Bytes that are kept of a frame that has not come whole."""
        return len(self._kept) + self.gathered

    @property
    def long_size(self) -> int:
        """The size of the long frame that is under way; 0 if there is none."""
        return self.gathered + self._missing if self._missing else 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete.

        Raises:
            WireError: the size of a frame is negative or above the limit. The
                complete frames before it are in the error's `frames`.
        """
        frames: list[Frame] = []
        if self._missing:
            if len(data) < self._missing:
                self._gather(data)
                return frames
            rest = data[self._missing :]
            self._gather(memoryview(data)[: self._missing])
            frames.append(self._gathered_frame())
            data = rest
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
                if size >= MAPPED_FRAME:
                    self._mapped = mmap.mmap(-1, size)
                self._missing = size
                self._gather(memoryview(data)[start:])
                return frames
            frames.append((data, start, position))
        if position < end:
            self._kept = data[position:] if position else data
        return frames

    def _gather(self, data: Buffer) -> None:
        """Takes a piece of a long frame."""
        before, self.gathered = self.gathered, self.gathered + len(data)
        self._missing -= len(data)
        if self._mapped is not None:
            self._mapped[before : self.gathered] = data
        elif len(data) >= _SMALL_PIECE:
            self._pieces.append(data)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))

    def _gathered_frame(self) -> Frame:
        """The long frame, now that it is whole."""
        size, self.gathered = self.gathered, 0
        frame: Received
        if self._mapped is not None:
            frame, self._mapped = self._mapped, None
        else:
            frame, self._pieces = b"".join(self._pieces), []
        return frame, 0, size


class FrameSizeError(WireError):
    """A frame of an invalid size.

    Attributes:
        frames: the frames before it.
    """

    def __init__(self, size: int, limit: int, frames: list[Frame]) -> None:
        super().__init__(f"a frame of {size} bytes; the limit is {limit}")
        self.frames = frames
