"""Reading a frame costs no more than its bytes are worth."""

from __future__ import annotations

import struct
import tracemalloc
from collections import Counter

from hypothesis import given, settings
from tests.fuzz.frames import mutated_frames

from kohort.protocol.framing import (
    Frame,
    Framer,
    FrameSizeError,
    Received,
)
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_KEY

LIMIT = 2**20


def _read(buffer: Received, start: int, end: int) -> object:
    """A request, read as a broker reads it."""
    key, version, _, client_id_size = struct.unpack_from(">hhih", buffer, start)
    api = BY_KEY.get(key)
    if api is None or not api.accepts(version):
        raise WireError(f"API key {key} version {version}")
    position = start + 10 + max(client_id_size, 0)
    if api.is_flexible(version):
        position = skip_tags(buffer, position)
    message, position = api.request(version).decode(buffer, position, end)
    assert start < position <= end
    return message


def _frames(framer: Framer, data: bytes) -> tuple[list[Frame], bool]:
    """Returns the frames, and whether the stream goes on."""
    try:
        return framer.feed(data), True
    except FrameSizeError as error:
        return error.frames, False


def _outcomes(stream: bytes) -> Counter[str]:
    """The results of the requests in a stream."""
    outcomes: Counter[str] = Counter()
    frames, goes_on = _frames(Framer(LIMIT), stream)
    for buffer, start, end in frames:
        if end - start < 10:
            outcomes["short"] += 1
            continue
        try:
            message = _read(buffer, start, end)
        except (WireError, IndexError, ValueError):
            outcomes["refused"] += 1
        else:
            assert type(message).__name__.endswith("Request")
            outcomes["read"] += 1
    if not goes_on:
        outcomes["size"] += 1
    return outcomes


@given(stream=mutated_frames())
def test_reading_costs_what_came_in(stream: bytes) -> None:
    """No length in a frame is trusted before its bytes are there."""
    _outcomes(stream)  # codecs are made on first use
    tracemalloc.start()
    try:
        _outcomes(stream)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000 + 100 * len(stream)


def test_the_streams_are_worth_reading() -> None:
    """The strategy makes streams that are read, refused, or have a wrong size."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, database=None, derandomize=True)
    @given(stream=mutated_frames())
    def look(stream: bytes) -> None:
        seen.update(_outcomes(stream))

    look()
    total = seen.total()
    assert seen["read"] > total / 10
    assert seen["refused"] > total / 10
    assert seen["size"] > 5
