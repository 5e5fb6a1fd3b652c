"""``--events FILE``: the stream as a file, one JSON object per line.

Lines are written in batches, by a thread, so that a slow disk does not block the
broker. If the disk is full, the batch is retried every second. Meanwhile new events
wait in the reader's buffer; events that do not fit are missing from the file, which
then has the `events_lost` that every slow reader of the stream gets.

The file always ends with a whole line; after a kill, from the next time it is opened.
It is locked, as two brokers would cut off each other's lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from typing import Final

from kohort.broker import telemetry
from kohort.broker.events.bus import Events
from kohort.broker.events.views.reading import json_of, pause, take

LINGER_S: Final = 0.05
"""Pause between two writes: a kill loses at most this much of the stream, and a busy
broker writes 20 times a second."""
RETRY_S: Final = 1.0
"""Pause before a failed write is retried."""
CLOSE_S: Final = 5.0
"""How long closing waits for a disk that does not answer."""
LONGEST_WRITE: Final = 1024 * 1024
"""Bytes per write, some 2,000 events; a failed write is retried as a whole."""
LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes at the end in which the start of the last line is searched: the longest events,
commits of 100,000 offsets, have a tenth of that."""

_BEGIN: Final = b'{"schema":'
"""The first bytes of every event's line."""

log = telemetry.Logger("events")


class EventsFile:
    """Appends the stream to a file, which must be a regular file or not exist yet.

    An incomplete last line, left by a broker that was killed, is removed first. If the
    last line is not an event, it is kept and gets its end of line.

    Args:
        path: of the file.
        events: the stream.
        size: number of events that may wait while the file cannot be written.

    Raises:
        OSError: from the constructor: the file cannot be written, or another broker
            writes to it.
    """

    def __init__(
        self, path: str | os.PathLike[str], events: Events, *, size: int = 10_000
    ) -> None:
        self._path = os.fspath(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        # Opening a pipe without a reader would block forever. (And Windows would write
        # CRLF.)
        flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        self._file = os.open(path, flags, 0o644)
        try:
            _claim(self._file)
            cut = _mend(self._file)
        except BaseException:
            os.close(self._file)
            raise
        if cut:
            log.warning("torn_line_removed", file=self._path, bytes=cut)
        self._events = events
        self._reader = events.subscribe(size=size, past=True)
        self._closing = asyncio.Event()
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write, on the running loop."""
        self._events.hold_accounts()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Writes the events so far, in one attempt, and closes the file."""
        if self._task is not None:
            self._events.finish_accounts()
            self._events.release_accounts()
        self._reader.close()
        self._closing.set()
        if self._task is not None:
            _, unfinished = await asyncio.wait({self._task}, timeout=CLOSE_S)
            if unfinished:
                # Its thread uses the file: closing it would free its number for another
                # file.
                self._task.cancel()
                log.error("events_not_written", file=self._path, reason="no answer")
                return
            self._task.result()
        os.close(self._file)

    async def _run(self) -> None:
        reader = self._reader
        while True:
            await reader.wait()
            lines = await self._lines()
            if not lines:
                return  # closed, and everything is written
            while not await self._write(lines):
                if self._closing.is_set():
                    lost = lines.count(b"\n") + len(reader)
                    log.error("events_not_kept", file=self._path, count=lost)
                    return
                await pause(self._closing, RETRY_S)
            await pause(self._closing, LINGER_S)

    async def _lines(self) -> bytes:
        """The next batch of events as lines, up to `LONGEST_WRITE` bytes."""
        lines: list[bytes] = []
        size = 0
        while size < LONGEST_WRITE and (events := take(self._reader)):
            made = [json_of(event) for event in events]
            lines += made
            size += sum(map(len, made))
            # Let other tasks run.
            await asyncio.sleep(0)
        lines.append(b"")
        return b"\n".join(lines)

    async def _write(self, lines: bytes) -> bool:
        """Appends lines, all of them or none; returns False if that failed."""
        try:
            await asyncio.to_thread(_append, self._file, lines)
        except OSError as error:
            if not self._is_failing:
                # One line, not one per second.
                self._is_failing = True
                reason = error.strerror or str(error)
                log.warning("events_not_written", file=self._path, reason=reason)
            return False
        if self._is_failing:
            self._is_failing = False
            log.warning("events_written_again", file=self._path)
        return True


def _claim(file: int) -> None:
    """Locks a regular file until it is closed, if the file system has locks.

    Raises:
        OSError: it is not a regular file, or another process has locked it.
    """
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError("it is no regular file")
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError("another broker writes to it; each needs its own") from None
    except OSError:
        return  # some network drives have no locks


def _mend(file: int) -> int:
    """Removes an incomplete last line; returns the number of bytes removed."""
    size = os.fstat(file).st_size
    line = _last_line(file, size)
    if not line:
        return 0
    if _is_torn(line):
        os.ftruncate(file, size - len(line))
        return len(line)
    os.write(file, b"\n")
    return 0


def _last_line(file: int, size: int) -> bytes:
    """The bytes after the last end of line; gives up after `LONGEST_LINE`."""
    tail, chunk = b"", 4096
    while b"\n" not in tail and len(tail) < min(size, LONGEST_LINE):
        chunk = min(2 * chunk, size)
        os.lseek(file, size - chunk, os.SEEK_SET)
        tail = os.read(file, chunk)
    return tail.rpartition(b"\n")[2]


def _is_torn(line: bytes) -> bool:
    """Returns whether a line is an incomplete event."""
    if not _BEGIN.startswith(line[: len(_BEGIN)]):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _append(file: int, lines: bytes) -> None:
    """Appends all bytes or, unless the disk prevents it, none.

    Raises:
        OSError: none were appended.
    """
    before = os.fstat(file).st_size
    rest = memoryview(lines)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.ftruncate(file, before)
        raise
