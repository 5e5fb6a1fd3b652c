"""Equal Metadata responses are decoded once."""

from __future__ import annotations

import pytest

from kohort.client.network import equal_responses
from kohort.client.network.equal_responses import KEPT, EqualResponses
from kohort.client.network.metadata import NOTHING, read
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_NAME

VERSION = 13
CODEC = BY_NAME["Metadata"].response(VERSION)


def body(name: str, partitions: int = 2) -> bytes:
    """An encoded response with a topic."""
    rows = [MetadataResponsePartition(0, n, 1, 0, [1], [1]) for n in range(partitions)]
    topic = MetadataResponseTopic(0, name, b"1" * 16, partitions=rows)
    return CODEC.encode(MetadataResponse(topics=[topic]))


def test_equal_responses_are_one_message() -> None:
    """Also if they lie elsewhere in a buffer; their topics are the same, too."""
    decoder = EqualResponses(CODEC.decode)
    encoded = body("t")
    first, end = decoder.decode(encoded, 0, len(encoded))
    again, last = decoder.decode(bytearray(b"abc" + encoded), 3, 3 + len(encoded))
    assert again is first
    assert (end, last) == (len(encoded), 3 + len(encoded))
    one, other = read(first, 1.0, NOTHING), read(again, 2.0, NOTHING)
    assert one.topics["t"] is other.topics["t"]
    assert read(again, 3.0, one).topics["t"] is one.topics["t"]


def test_only_the_latest_are_kept() -> None:
    """The oldest is decoded again; so is a long one."""
    decoder = EqualResponses(CODEC.decode)
    bodies = [body(str(number)) for number in range(KEPT + 1)]
    decoded = [decoder.decode(each, 0, len(each))[0] for each in bodies]
    assert [each.topics[0].name for each in decoded] == ["0", "1", "2", "3", "4"]
    assert decoder.decode(bodies[-1], 0, len(bodies[-1]))[0] is decoded[-1]
    assert decoder.decode(bodies[0], 0, len(bodies[0]))[0] is not decoded[0]


def test_a_long_response_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold much memory."""
    encoded = body("t")
    monkeypatch.setattr(equal_responses, "_LONGEST", len(encoded) - 1)
    decoder = EqualResponses(CODEC.decode)
    first, _ = decoder.decode(encoded, 0, len(encoded))
    assert decoder.decode(encoded, 0, len(encoded))[0] is not first


def test_a_malformed_response_is_an_error_each_time() -> None:
    """It is not kept."""
    decoder = EqualResponses(CODEC.decode)
    cut = body("t")[:-2]
    for _ in range(2):
        with pytest.raises(WireError):
            decoder.decode(cut, 0, len(cut))
