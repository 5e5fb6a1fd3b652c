"""Frames: the requests in a stream of bytes.

A frame is an int32 size and that many bytes: a header, then a body. Frames that arrive
whole are not copied: they are offsets into the received bytes. A long one that does not
gets memory, into which the rest of it may be read (`Framer.room`). That memory grows as
the bytes arrive: an announced size alone uses none.
"""

from __future__ import annotations

import mmap
import struct

from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError

LONG_FRAME = 16 * 1024
"""Length from which the bytes of a frame are gathered in memory for all of it."""

MAPPED_FRAME = 4 * 1024 * 1024
"""Length from which that memory is mapped: the system allocates it as it is filled.
Clearing 100 MB, and copying it when it grows, would take 40 to 120 ms."""

_GROWTH = 4
"""Memory of an incomplete frame, as a multiple of the bytes that have arrived."""
_SMALLEST = 1024
"""Bytes of memory for the first bytes of a frame."""

_SIZE = struct.Struct(">i").unpack_from

Received = bytes | bytearray | mmap.mmap
"""Received bytes, which do not change any more."""

Frame = tuple[Received, int, int]
"""(buffer, start, end) of a frame, without its size."""


class Framer:
    """Cuts a stream into frames.

    Args:
        limit: the largest size of a frame in bytes (``socket.request.max.bytes``).

    Attributes:
        gathered: bytes received of an incomplete long frame.
    """

    __slots__ = ("_kept", "_limit", "_missing", "_place", "gathered")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = b""
        # An incomplete long frame: its memory, the size so far, and the missing size.
        self._place: bytearray | mmap.mmap = bytearray()
        self.gathered = 0
        self._missing = 0

    @property
    def unfinished(self) -> int:
        """Bytes kept of an incomplete frame."""
        return len(self._kept) + self.gathered

    @property
    def long_size(self) -> int:
        """The size of the incomplete long frame; 0 without one."""
        return self.gathered + self._missing if self._missing else 0

    def feed(self, data: bytes) -> list[Frame]:
        """Returns the frames that these bytes complete.

        Raises:
            WireError: the size of a frame is negative or above the limit. The complete
                frames before it are in the error's `frames`.
        """
        if self._missing:
            return self._feed_long(data)
        if self._kept:
            data = self._kept + data
            self._kept = b""
        return self._cut(data, [])

    def is_frame(self, data: bytes) -> bool:
        """Returns whether these bytes are exactly one frame, as they usually are.

        Then its offsets are 4 and the end, and they need not be fed.
        """
        size = len(data) - 4
        return (
            not self._missing
            and not self._kept
            and size >= 0
            and _SIZE(data, 0)[0] == size <= self._limit
        )

    def _feed_long(self, data: bytes) -> list[Frame]:
        """The same within a long frame."""
        if len(data) < self._missing:
            self._gather(data)
            return []
        rest = data[self._missing :]
        self._gather(memoryview(data)[: self._missing])
        return self._cut(rest, [self._gathered_frame()])

    def _cut(self, data: bytes, frames: list[Frame]) -> list[Frame]:
        """Adds the complete frames in these bytes; keeps the rest."""
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
                self._begin(size, memoryview(data)[start:])
                return frames
            frames.append((data, start, position))
        if position < end:
            self._kept = data[position:] if position else data
        return frames

    def hand_over(self) -> tuple[int, bytes]:
        """Gives up the incomplete long frame; returns its size and its first bytes.

        For a caller that receives the rest by itself, into memory of the whole size.
        The next bytes for `feed` are those behind the frame.
        """
        size, self._missing = self.long_size, 0
        begun, _, end = self._gathered_frame()
        return size, bytes(begun[:end])

    @property
    def room(self) -> memoryview:
        """Memory for the next bytes of the incomplete long frame; see `filled`."""
        there = self.gathered
        if there == len(self._place):
            # Not in place: the memory cannot move while a reader has a view of it.
            more = bytes(min((_GROWTH - 1) * there, self._missing))
            self._place = bytearray().join((self._place, more))
        return memoryview(self._place)[there:]

    def filled(self, size: int) -> list[Frame]:
        """Takes bytes that were read into `room`; returns the frame if it is complete.

        Args:
            size: the number of bytes.
        """
        self.gathered += size
        self._missing -= size
        return [] if self._missing else [self._gathered_frame()]

    def _begin(self, size: int, data: memoryview) -> None:
        """Begins a long frame with its first bytes."""
        self._missing = size
        if size >= MAPPED_FRAME:
            self._place = mmap.mmap(-1, size)
        else:
            first = max(_GROWTH * len(data), _SMALLEST)
            self._place = bytearray(min(first, size))
        self._gather(data)

    def _gather(self, data: Buffer) -> None:
        """Adds bytes of the incomplete long frame, at most the missing ones."""
        data = memoryview(data)
        while data:
            room = self.room
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self.gathered += size
            self._missing -= size
            data = data[size:]

    def _gathered_frame(self) -> Frame:
        """Returns the long frame, which is complete."""
        size, self.gathered = self.gathered, 0
        frame, self._place = self._place, bytearray()
        return frame, 0, size


class FrameSizeError(WireError):
    """A frame of an invalid size.

    Attributes:
        size: the size.
        frames: the frames before it.
    """

    def __init__(self, size: int, limit: int, frames: list[Frame]) -> None:
        super().__init__(f"a frame of {size} bytes; the limit is {limit}")
        self.size = size
        self.frames = frames
