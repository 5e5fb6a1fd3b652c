"""Back-pressure: keeps clients that send much, or read slowly, from filling memory.

A connection stops reading from its socket for any of four reasons, and reads again when
none is left. TCP then holds the client back.

| reason | begins | ends |
| --- | --- | --- |
| unread responses | `WRITE_BUFFER` bytes wait for the client | it has caught up |
| read ahead | `READ_AHEAD` bytes wait behind a request | all of them are handled |
| memory | long requests use too much of it (`request_memory`) | there is room again |
| quota | a response tells the client to wait (KIP-219) | the time is over |

While responses are unread, or the client is throttled, requests that have arrived are
not handled either. `Unread` adds up the unread bytes of all connections: while there
are many, fetches get less.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kohort.broker.clock import Timer
from kohort.broker.log.store import PIECE

READ_AHEAD: Final = 64 * 1024
"""Bytes of further requests read while one waits: room for a client's pipelined
heartbeats and commits; a Produce stays in the client."""
WRITE_BUFFER: Final = 1024 * 1024
"""Bytes of responses that may wait for the client to read them."""
MOST_UNREAD: Final = 256 * 1024 * 1024
"""Bytes that may be unread before fetches get less: four responses of
``fetch.max.bytes``, which is 55 MB."""


class Unread:
    """Bytes of responses that clients have not read yet, over all connections.

    A fetch of 55 MB from files is memory until the client has read it, and a client may
    ask on many connections and never read. So while `MOST_UNREAD` bytes are unread,
    fetches get less, down to one piece. A client never waits for another one to read.

    Attributes:
        size: bytes that are unread, or being read for responses at the moment.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    @property
    def spare(self) -> int:
        """The most bytes to read for one more fetch."""
        return max(MOST_UNREAD - self.size, PIECE)


class FlowControl:
    """Back-pressure of one connection.

    Args:
        unread: adds up the unread bytes of all connections.

    Attributes:
        is_blocked: responses are unread, or the client is throttled: handle no further
            requests.
        is_reading: whether the socket is read.
    """

    __slots__ = (
        "_is_held_back",
        "_is_write_blocked",
        "_throttle",
        "_transport",
        "_unread",
        "_unread_own",
        "is_blocked",
        "is_reading",
    )

    def __init__(self, unread: Unread) -> None:
        self.is_blocked = False
        self.is_reading = True
        self._is_write_blocked = False
        self._throttle: Timer | None = None
        self._is_held_back = False
        self._unread = unread
        self._unread_own = 0
        self._transport: asyncio.Transport

    def connect(self, transport: asyncio.Transport) -> None:
        """Takes the transport of the connection."""
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER)

    def disconnect(self) -> None:
        """The connection is closed: none of its bytes are unread any more."""
        if self._throttle is not None:
            self._throttle.cancel()
        self._count_unread(0)

    def read_ahead(self, size: int) -> None:
        """Counts bytes that wait behind a request; stops reading if there are many."""
        if size > READ_AHEAD:
            self._pause()

    def block_writing(self) -> None:
        """The client reads too slowly: stops reading and handling."""
        self.is_blocked = self._is_write_blocked = True
        self._count_unread(self._transport.get_write_buffer_size())
        self._pause()

    def unblock_writing(self) -> None:
        """The client has caught up; `resume` follows."""
        self._is_write_blocked = False
        self.is_blocked = self._throttle is not None
        self._count_unread(0)

    def throttle(self, timer: Timer) -> None:
        """The client has to wait: stops reading and handling until the timer fires."""
        self.is_blocked = True
        self._throttle = timer
        self._pause()

    def end_throttle(self) -> None:
        """The client has waited; `resume` follows."""
        self._throttle = None
        self.is_blocked = self._is_write_blocked

    def hold_back(self) -> None:
        """Memory is short: stops reading."""
        self._is_held_back = True
        self._pause()

    def release(self) -> None:
        """There is memory again; `resume` follows."""
        self._is_held_back = False

    def resume(self) -> None:
        """Reads again if no reason is left. Call it when no request waits."""
        if self.is_reading or self.is_blocked or self._is_held_back:
            return
        self.is_reading = True
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _pause(self) -> None:
        if self.is_reading and not self._transport.is_closing():
            self.is_reading = False
            self._transport.pause_reading()

    def _count_unread(self, size: int) -> None:
        """Counts bytes that the client has not read; not exact below `WRITE_BUFFER`."""
        self._unread.size += size - self._unread_own
        self._unread_own = size
