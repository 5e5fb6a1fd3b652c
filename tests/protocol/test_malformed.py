"""Malformed bytes: each is refused, at a cost no higher than their length."""

from __future__ import annotations

import contextlib
import itertools
import struct
import tracemalloc

import pytest
from tests.protocol.strategies import Side, every_api, filled, sides_of

from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_NAME, Api

LIES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07")
"""The largest lengths, as an int32 (and so also an int16) and as a varint."""
COST = 100_000
"""Maximum bytes that decoding may allocate for a message of some hundred bytes."""


def _sample(side: Side) -> bytes:
    return side.codec.encode(filled(side.declared, side.version))


@every_api
def test_every_truncation_is_refused(api: Api) -> None:
    """A truncated message is refused, even if the next frame follows."""
    for side in sides_of(api):
        encoded = _sample(side)
        for end in range(len(encoded)):
            with pytest.raises(WireError):
                side.codec.decode(encoded[:end], 0, end)
            with pytest.raises(WireError):
                side.codec.decode(encoded, 0, end)


@every_api
def test_lies_about_lengths_cost_nothing(api: Api) -> None:
    """A wrong length, in any place, allocates almost nothing."""
    for side in sides_of(api):
        encoded = _sample(side)
        decode = side.codec.decode
        tracemalloc.start()
        try:
            for at, lie in itertools.product(range(len(encoded)), LIES):
                data = encoded[:at] + lie + encoded[at + len(lie) :]
                with contextlib.suppress(WireError):
                    decode(data, 0, len(data))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < COST, side


@pytest.mark.parametrize("count", [21, 100, 2**31 - 2])
@pytest.mark.parametrize("version", [1, 9])
def test_a_count_above_the_bytes_that_are_left(version: int, count: int) -> None:
    """An array cannot have more items than bytes, even if the next frame has them."""
    c = BY_NAME["Metadata"].request(version)
    prefix = struct.pack(">i", count) if version == 1 else uvarint(count + 1)
    data = prefix + bytes(20)
    with pytest.raises(WireError, match=f"length {count} of topics"):
        c.decode(data + bytes(4096), 0, len(data))


def test_many_tiny_items_cost_their_length() -> None:
    """Objects per byte are bounded: the smallest item has three bytes."""
    c = BY_NAME["OffsetCommit"].request(8)
    count = 20_000
    items = b"\x02t\x01\x00" * count
    head = b"\x02g" + bytes(4) + b"\x02m" + b"\x00"
    data = head + b"\xa1\x9c\x01" + items + b"\x00"
    tracemalloc.start()
    try:
        message, _ = c.decode(data, 0, len(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(message.topics) == count
    assert peak < 100 * len(data)


def test_a_tagged_field_of_negative_size_is_refused() -> None:
    """It would go back to bytes already read, a billion times."""
    c = BY_NAME["Heartbeat"].request(4)
    minus_7 = b"\xf9\xff\xff\xff\x0f"
    body = b"\x02g" + bytes(4) + b"\x02m" + b"\x00"
    data = body + b"\x64" + b"\x63" + minus_7
    with pytest.raises(WireError, match="length -7 of a tagged field"):
        c.decode(data, 0, len(data))
