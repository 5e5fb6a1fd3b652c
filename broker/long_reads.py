"""Reads long requests into their memory, without a copy on the way."""

from __future__ import annotations

import asyncio
import threading
from typing import Final, Protocol

from kohort.broker.request_memory import STEP
from kohort.protocol.framing import Framer

FIRST_READ: Final = 32 * 1024
"""Bytes read at the start of a request: its size, and of a long one the first part,
which is copied. The rest is read into place."""
MOST_READ: Final = STEP
"""Bytes of the longest read, after which the connection may be held back."""


class _Scratch(threading.local):
    """Memory for first reads.

    All connections of a thread use the same: each read ends before the next one begins.
    """

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(FIRST_READ))


_scratch = _Scratch()


class Reader(Protocol):
    """A connection."""

    def data_received(self, data: bytes) -> None:
        """Handles bytes."""

    def bytes_placed(self, size: int) -> None:
        """Handles bytes that were read into the framer's `room`."""

    def eof_received(self) -> bool:
        """The client sends no more."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""

    def pause_writing(self) -> None:
        """The client reads too slowly."""

    def resume_writing(self) -> None:
        """The client has caught up."""


class LongReads(asyncio.BufferedProtocol):
    """A transport's protocol in place of a connection that gets long requests.

    asyncio hands a `Protocol` new bytes for each read, and those of a long request must
    then be joined. This one offers the memory of the request.

    Args:
        connection: takes over from its first long request on.
        framer: the connection's framer.
    """

    __slots__ = ("_connection", "_first", "_framer", "_is_first")

    def __init__(self, connection: Reader, framer: Framer) -> None:
        self._connection = connection
        self._framer = framer
        self._first = _scratch.memory
        self._is_first = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - sizes are known
        """The memory for the next read."""
        self._is_first = not self._framer.long_size
        return self._first if self._is_first else self._framer.room[:MOST_READ]

    def buffer_updated(self, nbytes: int) -> None:
        """Passes on what was read."""
        if self._is_first:
            self._connection.data_received(bytes(self._first[:nbytes]))
        else:
            self._connection.bytes_placed(nbytes)

    def eof_received(self) -> bool:
        """See `Connection.eof_received`; the same for the others."""
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._connection.resume_writing()
