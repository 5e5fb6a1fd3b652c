"""Receives responses from a socket: long ones are not copied again."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence

from kohort.protocol.framing import MAPPED_FRAME, Framer
from kohort.protocol.generated_calls import Source

Response = tuple[Source, int, int]
"""(buffer, start, end) of a response, without its size."""


class _Scratch(threading.local):
    """Memory for the next bytes, shared by all connections of a thread.

    No other code of the thread runs between `Receiver.space` and `Receiver.filled`.
    """

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(64 * 1024))


_SCRATCH = _Scratch()


class Receiver:
    """Cuts the stream of a connection into responses.

    Once the size of a long one is known, its bytes are received where they stay.

    Args:
        limit: maximum bytes of a response.
    """

    __slots__ = ("_filled", "_framer", "_long")

    def __init__(self, limit: int) -> None:
        self._framer = Framer(limit)
        self._long: bytearray | mmap.mmap | None = None
        self._filled = 0

    @property
    def unfinished(self) -> int:
        """Bytes of an incomplete response."""
        return self._framer.unfinished + self._filled

    def space(self) -> memoryview:
        """The memory for the next bytes."""
        if self._long is None:
            return _SCRATCH.memory
        return memoryview(self._long)[self._filled :]

    def filled(self, count: int) -> Sequence[Response]:
        """Returns the responses that the first `count` bytes of `space` complete.

        Raises:
            FrameSizeError: the size of a response is negative or above the limit.
        """
        if self._long is None:
            data = bytes(_SCRATCH.memory[:count])
            if self._framer.is_frame(data):
                return ((data, 4, count),)
            found = self._framer.feed(data)
            if self._framer.long_size:
                self._begin(*self._framer.hand_over())
            return found
        self._filled += count
        size = len(self._long)
        if self._filled < size:
            return ()
        response, self._long, self._filled = self._long, None, 0
        return ((response, 0, size),)

    def _begin(self, size: int, begun: bytes) -> None:
        # The system allocates mapped memory as it is filled, so that no response
        # blocks the loop for long. Private memory costs less than shared memory.
        if size < MAPPED_FRAME:
            self._long = bytearray(size)
        else:
            self._long = mmap.mmap(-1, size, access=mmap.ACCESS_COPY)
        self._filled = len(begun)
        self._long[: self._filled] = begun
