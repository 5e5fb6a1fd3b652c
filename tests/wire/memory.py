"""A connection in memory, between a client of the tests and a broker's `Connection`."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.broker.connection import Connection
from kohort.broker.long_reads import LongReads


class Transport(asyncio.Transport):
    """The client's end of a connection.

    Attributes:
        sent: bytes that the client sent and the connection took.
        received: bytes that the client got.
        is_lost: whether the connection is gone.
    """

    def __init__(self, number: int) -> None:
        super().__init__({"peername": (f"10.0.0.{number}", 9000)})
        self.sent = bytearray()
        self.received = bytearray()
        self.is_lost = False
        self._protocol: Connection | LongReads
        self._loop = asyncio.get_running_loop()
        self._high = 64 * 1024
        self._waiting = bytearray()
        self._unread = 0
        self._is_closing = False
        self._is_paused = False
        self._is_read = True
        self._is_blocked = False
        self._has_eof = False

    def connect(self, protocol: Connection) -> None:
        """Opens the connection."""
        self._protocol = protocol
        protocol.connection_made(self)

    # -- calls of a client

    def send(self, data: bytes) -> None:
        """Sends bytes; they wait while the connection does not read."""
        if not self._has_eof:
            self._waiting += data
            self._deliver()

    def send_eof(self) -> None:
        """Sends the end of the stream."""
        if not self._has_eof:
            self._has_eof = True
            self._deliver()

    def lose(self) -> None:
        """Disconnects without a word."""
        self._is_closing = True
        self._lost()

    def read(self, *, goes_on: bool) -> None:
        """Reads received bytes and goes on reading, or stops reading."""
        self._is_read = goes_on
        if goes_on:
            self._unread = 0
            if self._is_blocked and not self.is_lost:
                self._is_blocked = False
                self._protocol.resume_writing()

    def _deliver(self) -> None:
        if self._is_paused or self._is_closing:
            return
        while self._waiting and not self._is_paused and not self._is_closing:
            self._pass_on()
        if self._has_eof and not self._waiting and not self._is_paused:
            keeps_open = self._protocol.eof_received()
            if not keeps_open:
                self.close()

    def _pass_on(self) -> None:
        """Passes waiting bytes on: all, or as many as there is room for."""
        room = None
        if isinstance(self._protocol, LongReads):
            room = self._protocol.get_buffer(-1)
        data = bytes(self._waiting[: None if room is None else len(room)])
        del self._waiting[: len(data)]
        self.sent += data
        if isinstance(self._protocol, Connection):
            self._protocol.data_received(data)
        elif room is not None:
            room[: len(data)] = data
            self._protocol.buffer_updated(len(data))

    def _lost(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._protocol.connection_lost(None)

    # -- calls of the connection

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Passes on everything to another protocol from now on."""
        assert isinstance(protocol, LongReads)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol in use."""
        return self._protocol

    def set_write_buffer_limits(
        self,
        high: int | None = None,
        low: int | None = None,
    ) -> None:
        """Sets the number of bytes that may wait for the client."""
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client."""
        return self._unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Takes bytes for the client."""
        if self._is_closing:
            return
        self.received += data
        if not self._is_read:
            self._unread += len(data)
            if self._unread > self._high and not self._is_blocked:
                self._is_blocked = True
                self._protocol.pause_writing()

    def writelines(self, parts: Any) -> None:
        """Takes bytes for the client."""
        self.write(b"".join(parts))

    def pause_reading(self) -> None:
        """Holds back the client's bytes."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Goes on with the client's bytes."""
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        """True while the connection reads."""
        return not self._is_paused

    def is_closing(self) -> bool:
        """True if it is closed, or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Closes the connection in the next turn."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lost)

    def abort(self) -> None:
        """Closes the connection in the next turn."""
        self.close()
