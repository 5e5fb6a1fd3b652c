"""Responses are cut at their ends, wherever their bytes are received."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.network.receiving import Receiver
from kohort.protocol.framing import LONG_FRAME, MAPPED_FRAME, FrameSizeError

SIZES = st.integers(0, 40) | st.sampled_from(
    (LONG_FRAME - 1, LONG_FRAME, LONG_FRAME + 1, 5 * LONG_FRAME)
)


def _stream(payloads: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(each)) + each for each in payloads)


def _received(receiver: Receiver, data: bytes) -> list[bytes]:
    """The responses in these bytes, which come as a socket would deliver them."""
    got = []
    while data:
        space = receiver.space()
        size = min(len(space), len(data))
        space[:size] = data[:size]
        data = data[size:]
        got += [bytes(buffer[a:b]) for buffer, a, b in receiver.filled(size)]
    return got


@given(sizes=st.lists(SIZES, max_size=5), data=st.data())
def test_responses_do_not_depend_on_how_they_arrive(
    sizes: list[int], data: st.DataObject
) -> None:
    """Any cuts of a stream give the same responses."""
    payloads = [bytes([i]) * size for i, size in enumerate(sizes)]
    stream = _stream(payloads)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    receiver = Receiver(10 * LONG_FRAME)
    got: list[bytes] = []
    begin = 0
    for cut in [*sorted(cuts), len(stream)]:
        got += _received(receiver, stream[begin:cut])
        begin = cut
    assert got == payloads
    assert not receiver.unfinished


def test_a_very_long_response() -> None:
    """It is received into mapped memory, and the next one after it."""
    payloads = [bytes(range(256)) * (MAPPED_FRAME // 256 + 1), b"next"]
    receiver = Receiver(2 * MAPPED_FRAME)
    stream = _stream(payloads)
    begun = _received(receiver, stream[: MAPPED_FRAME // 2])
    assert begun == []
    assert receiver.unfinished == MAPPED_FRAME // 2 - 4
    assert _received(receiver, stream[MAPPED_FRAME // 2 :]) == payloads


def test_a_size_above_the_limit() -> None:
    """The error names the size."""
    with pytest.raises(FrameSizeError, match="a frame of 101 bytes"):
        _received(Receiver(100), _stream([bytes(101)]))
