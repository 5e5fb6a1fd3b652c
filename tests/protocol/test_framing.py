"""Frames are cut at their ends, however the stream arrives; headers."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.kio_bridge import kio_class
from tests.protocol.strategies import SIDES

from kohort.protocol.framing import (
    LONG_FRAME,
    Framer,
    FrameSizeError,
)
from kohort.protocol.registry import APIS

LIMIT = 4 * LONG_FRAME
SIZES = st.integers(0, 40) | st.sampled_from(
    (LONG_FRAME - 5, LONG_FRAME - 1, LONG_FRAME, LONG_FRAME + 1, LIMIT)
)


def _frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _fed(framer: Framer, data: bytes) -> list[bytes]:
    return [bytes(buffer[start:end]) for buffer, start, end in framer.feed(data)]


@given(sizes=st.lists(SIZES, max_size=6), data=st.data())
def test_frames_do_not_depend_on_how_they_arrive(
    sizes: list[int], data: st.DataObject
) -> None:
    """Any cuts of a stream give the same frames, at the byte that completes them."""
    payloads = [bytes([i]) * size for i, size in enumerate(sizes)]
    stream = b"".join(map(_frame, payloads))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    framer = Framer(LIMIT)
    got: list[bytes] = []
    begin = 0
    for cut in [*sorted(cuts), len(stream)]:
        got += _fed(framer, stream[begin:cut])
        begin = cut
        ends = [
            len(b"".join(map(_frame, payloads[: i + 1]))) for i in range(len(sizes))
        ]
        assert len(got) == sum(end <= cut for end in ends)
        # The size of a long frame may have arrived, and nothing else.
        is_between = not framer.unfinished and not framer.long_size
        assert is_between == (cut in {0, *ends})
    assert got == payloads


@given(sizes=st.lists(SIZES, max_size=6), data=st.data())
def test_frames_that_are_read_into_place(sizes: list[int], data: st.DataObject) -> None:
    """The same frames, whichever parts of a long one are read into its memory."""
    payloads = [bytes([65 + i]) * size for i, size in enumerate(sizes)]
    stream = b"".join(map(_frame, payloads))
    framer = Framer(LIMIT)
    got: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        if framer.long_size and data.draw(st.booleans()):
            room = framer.room
            size = min(size, len(room))
            room[:size] = stream[:size]
            got += [bytes(b[s:e]) for b, s, e in framer.filled(size)]
        else:
            got += _fed(framer, stream[:size])
        stream = stream[size:]
    assert got == payloads
    assert not framer.unfinished


def test_memory_of_a_long_frame_grows_with_its_bytes() -> None:
    """There is room for four times the bytes that have arrived, and no more."""
    framer = Framer(2**31 - 1)
    framer.feed(struct.pack(">i", 1_000_000) + bytes(10_000))
    assert len(framer.room) == 30_000
    framer.filled(30_000)
    assert len(framer.room) == 120_000
    framer.filled(120_000)
    framer.filled(len(framer.room))
    assert len(framer.room) == framer.long_size - 640_000


@pytest.mark.parametrize("size", [1, 100, LONG_FRAME, LIMIT])
def test_a_stream_that_comes_byte_by_byte(size: int) -> None:
    """A slow client costs memory by the bytes that it sent, not by their number."""
    payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    framer = Framer(LIMIT)
    tracemalloc.start()
    try:
        got = [
            frame
            for byte in struct.iter_unpack("c", _frame(payload))
            for frame in _fed(framer, byte[0])
        ]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert got == [payload]
    assert peak < 20_000 + 6 * size


def test_whole_frames_are_not_copied() -> None:
    """Frames that arrive whole are offsets into the received bytes."""
    stream = _frame(b"one") + _frame(b"two")
    frames = Framer(LIMIT).feed(stream)
    assert frames == [(stream, 4, 7), (stream, 11, 14)]
    assert all(buffer is stream for buffer, _, _ in frames)


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [0, 2, 4, 9])
def test_a_size_that_cannot_be(size: int, cut: int) -> None:
    """The frames before it are in the error."""
    stream = _frame(b"one") + struct.pack(">i", size) + b"more"
    framer = Framer(LIMIT)
    before = _fed(framer, stream[:cut])
    with pytest.raises(FrameSizeError, match=f"{size} bytes") as caught:
        framer.feed(stream[cut:])
    assert before + [b[s:e] for b, s, e in caught.value.frames] == [b"one"]


def test_a_long_frame_that_is_announced_costs_nothing() -> None:
    """Memory follows the received bytes, not the announced size."""
    framer = Framer(2**31 - 1)
    tracemalloc.start()
    try:
        assert framer.feed(struct.pack(">i", 2**31 - 1) + b"start") == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000
    assert framer.unfinished


def test_header_versions() -> None:
    """Response headers and messages have the same form as kio's."""
    for side in SIDES:
        api, version = side.api, side.version
        theirs = kio_class(api.key, version, is_request=side.is_request)
        if not side.is_request:
            found = api.response_header_version(version)
            assert found == theirs.__header_schema__.__version__, side
        assert api.is_flexible(version) == theirs.__flexible__, side


def test_versions_out_of_range() -> None:
    """The registry accepts exactly its listed versions."""
    for api in APIS:
        assert [v for v in range(-1, 30) if api.accepts(v)] == list(
            range(api.oldest, api.newest + 1)
        )
