"""Streams that stand still, break, and come in pieces, on pipes of the system."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from kohort.control.kafka import streams
from kohort.control.kafka.streams import Stream, lines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe: to read from, to write to."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        with contextlib.suppress(OSError):
            os.close(fd)


def forever() -> bool:
    """That nothing ends before its end."""
    return False


async def all_of(reading: AsyncIterator[list[bytes]]) -> list[bytes]:
    """The lines that are left."""
    return [line async for some in reading for line in some]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\nb\r\n", [b"a", b"", b"b\r"]),
        (b"\xff\0\n", [b"\xff\0"]),
    ],
)
async def test_lines(pipe: tuple[int, int], data: bytes, found: list[bytes]) -> None:
    """Text after the last line end is a line, unless it is empty."""
    os.write(pipe[1], data)
    os.close(pipe[1])
    assert await all_of(lines(Stream(pipe[0], writes=False), forever)) == found


async def test_lines_in_pieces(pipe: tuple[int, int]) -> None:
    """A line is there once its end is, however it comes."""
    reading = lines(Stream(pipe[0], writes=False), forever)
    first = asyncio.ensure_future(anext(reading))
    os.write(pipe[1], b"a")
    for _ in range(3):
        await asyncio.sleep(0)
    assert not first.done()
    os.write(pipe[1], b"b\nc")
    assert await first == [b"ab"]
    os.write(pipe[1], b"d\ne\nf")
    assert await anext(reading) == [b"cd", b"e"]
    os.close(pipe[1])
    assert await all_of(reading) == [b"f"]


async def test_a_reader_lets_others_run(pipe: tuple[int, int]) -> None:
    """Nothing comes, and the loop goes on; `stop` ends it."""
    stream = Stream(pipe[0], writes=False)
    over = False
    reading = asyncio.ensure_future(all_of(lines(stream, lambda: over)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reading.done()
    over = True
    stream.stop()
    assert await reading == []


async def test_a_line_without_end(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is too long for any broker does not fill the memory."""
    monkeypatch.setattr(streams, "LONGEST_LINE", 10)
    os.write(pipe[1], b"short\n" + b"x" * 20)
    os.close(pipe[1])
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        await all_of(lines(Stream(pipe[0], writes=False), forever))


async def test_a_writer_waits_for_its_reader(pipe: tuple[int, int]) -> None:
    """More than the pipe takes: the loop goes on, and everything arrives in order."""
    stream = Stream(pipe[1], writes=True)
    data = bytes(range(256)) * 2000
    writing = asyncio.ensure_future(stream.write(data))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not writing.done()
    reader, received = Stream(pipe[0], writes=False), b""
    while len(received) < len(data):
        await reader.ready()
        received += os.read(pipe[0], 50_000)
    await writing
    assert received == data
    assert not stream.is_broken


async def test_a_writer_that_waits_can_be_cancelled(pipe: tuple[int, int]) -> None:
    """A stopped pager does not keep a command from ending."""
    stream = Stream(pipe[1], writes=True)
    writing = asyncio.ensure_future(stream.write(b"x" * 1_000_000))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not writing.done()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    # The descriptor is free again for other waits.
    waiting = asyncio.ensure_future(stream.ready())
    await asyncio.sleep(0)
    os.read(pipe[0], 1 << 20)
    await waiting


async def test_a_reader_that_has_gone(pipe: tuple[int, int]) -> None:
    """It is seen before anything is written, and said when something is."""
    stream = Stream(pipe[1], writes=True)
    assert not stream.is_broken
    os.close(pipe[0])
    assert stream.is_broken
    with pytest.raises(BrokenPipeError):
        await stream.write(b"x")
