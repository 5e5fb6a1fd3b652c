"""stdin, stdout and files, without keeping the event loop waiting for them.

Heartbeats go on while a pager blocks, and records are delivered while the user types
the next one. File descriptors stay blocking: a non-blocking terminal would be
non-blocking for all processes that share it.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Callable

PIECE = getattr(select, "PIPE_BUF", 512)
"""Bytes that a pipe takes without waiting when it says that it takes some."""
READ = 1 << 16
LONGEST_LINE = 1 << 28
"""Bytes; no broker takes a record of that size."""


class Stream:
    """A file descriptor that is read or written when it can be.

    Attributes:
        fd: the descriptor.
    """

    def __init__(self, fd: int, *, writes: bool) -> None:
        self.fd = fd
        self._writes = writes
        self._waiting: asyncio.Future[None] | None = None
        # Windows has none, and waits.
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(fd, select.POLLOUT if writes else select.POLLIN)

    @property
    def is_broken(self) -> bool:
        """True if the reader of the pipe is gone."""
        if self._poll is None:
            return False
        gone = select.POLLERR | select.POLLHUP | select.POLLNVAL
        return any(event & gone for _, event in self._poll.poll(0))

    async def ready(self) -> None:
        """Returns when the next read or write does not wait, or after `stop`."""
        if self._poll is None or self._poll.poll(0):
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        add, remove = (
            (loop.add_writer, loop.remove_writer)
            if self._writes
            else (loop.add_reader, loop.remove_reader)
        )
        add(self.fd, self.stop)
        try:
            await self._waiting
        finally:
            self._waiting = None
            remove(self.fd)

    def stop(self) -> None:
        """Wakes the waiter."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def write(self, data: bytes) -> None:
        """Writes all of it.

        Raises:
            BrokenPipeError: the reader of the pipe is gone.
            OSError: it cannot be written.
        """
        view = memoryview(data)
        while view:
            await self.ready()
            view = view[os.write(self.fd, view[:PIECE]) :]


async def lines(
    stream: Stream, is_over: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    """Lines as they arrive, without line ends; several at once if available.

    Args:
        stream: to read from.
        is_over: whether nothing more is to be read; `Stream.stop` has it asked.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is too long.
    """
    pieces: list[bytes] = []
    size = 0
    while not is_over():
        await stream.ready()
        if is_over():
            return
        piece = os.read(stream.fd, READ)
        first, newline, rest = piece.partition(b"\n")
        pieces.append(first)
        size += len(first)
        if size > LONGEST_LINE:
            raise ValueError(f"is longer than {LONGEST_LINE} bytes")
        if not newline:
            if piece:
                continue
            # The bytes behind the last end of a line, if any, are a line, too.
            if size:
                yield [b"".join(pieces)]
            return
        *whole, last = rest.split(b"\n")
        yield [b"".join(pieces), *whole]
        pieces, size = [last], len(last)
