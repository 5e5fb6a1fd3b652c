"""Long messages: decoded and encoded a piece at a time, up to a limit."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from tests.protocol import in_pieces
from tests.protocol.in_pieces import finished

from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.protocol.generated_calls import MOST_ITEMS, MOST_TAGS, PIECE, uvarint
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_NAME

COMMIT = BY_NAME["OffsetCommit"].request(8)
FETCH_OFFSETS = BY_NAME["OffsetFetch"].request(6)
METADATA = BY_NAME["Metadata"].request(9)


def commit(topics: int, partitions: int) -> OffsetCommitRequest:
    """A commit of some rows."""
    rows = [
        OffsetCommitRequestTopic(
            f"topic-{t}",
            partitions=[OffsetCommitRequestPartition(p, p) for p in range(partitions)],
        )
        for t in range(topics)
    ]
    return OffsetCommitRequest("g", 1, "m", topics=rows)


@pytest.mark.parametrize(("topics", "partitions"), [(5000, 1), (1, 5000), (70, 70)])
def test_long_messages_yield_once_a_piece(topics: int, partitions: int) -> None:
    """Items count together, at any depth."""
    message = commit(topics, partitions)
    data = COMMIT.encode(message)
    expected = (topics + topics * partitions) // PIECE

    (found, position), yields = finished(COMMIT.decode_in_pieces(data, 0, len(data)))
    assert (found, position) == (message, len(data))
    assert expected * 0.9 <= yields <= expected * 1.1

    parts: list[Any] = []
    _, yields = finished(COMMIT.encode_in_pieces(message, parts.append))
    assert b"".join(parts) == data
    assert expected * 0.9 <= yields <= expected * 1.1


def test_short_messages_are_done_in_one_piece() -> None:
    """A request of a few rows is answered at once."""
    message = commit(10, 10)
    data = COMMIT.encode(message)
    assert finished(COMMIT.decode_in_pieces(data, 0, len(data)))[1] == 0
    parts: list[Any] = []
    assert finished(COMMIT.encode_in_pieces(message, parts.append))[1] == 0


def test_long_arrays_of_numbers() -> None:
    """They are read and written by the thousand, and are restored."""
    numbers = list(range(99_000))
    message = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", numbers)])
    data = FETCH_OFFSETS.encode(message)

    (found, _), yields = finished(FETCH_OFFSETS.decode_in_pieces(data, 0, len(data)))
    assert found.topics[0].partition_indexes == numbers
    assert yields > 10

    parts: list[Any] = []
    _, yields = finished(FETCH_OFFSETS.encode_in_pieces(message, parts.append))
    assert b"".join(parts) == data
    assert yields > 10


def test_text_that_takes_long_counts_for_more() -> None:
    """Bytes that are not UTF-8 are replaced one by one, which takes time."""
    name = uvarint(32_001) + b"\xff" * 32_000 + b"\0"
    data = uvarint(101) + name * 100 + b"\1\1\1\0"
    _, yields = finished(METADATA.decode_in_pieces(data, 0, len(data)))
    assert yields >= 90


def test_too_many_items_are_refused_before_they_are_read() -> None:
    """The count before the items is enough to refuse them."""
    count = MOST_ITEMS + 1
    data = uvarint(count + 1) + b"\1" * count
    work = METADATA.decode_in_pieces(data, 0, len(data))
    with pytest.raises(WireError, match="more than 100,000 items"):
        next(work)


def test_items_are_counted_over_the_whole_request() -> None:
    """Many short arrays count as much as a long one."""
    topic = b"\2t" + uvarint(5_001) + bytes(20_000) + b"\0"
    data = b"\2g" + uvarint(22) + topic * 21 + b"\0"
    with pytest.raises(WireError, match="more than 100,000 items"):
        finished(FETCH_OFFSETS.decode_in_pieces(data, 0, len(data)))


def test_tagged_fields_count_as_items() -> None:
    """Rows full of empty tagged fields are refused before they fill the memory."""
    rows = MOST_ITEMS - MOST_TAGS + 1
    row = b"\2t" + uvarint(MOST_TAGS) + b"\1\0" * MOST_TAGS
    data = uvarint(rows + 1) + row + bytes(rows)
    with pytest.raises(WireError, match="more than 100,000 items"):
        next(METADATA.decode_in_pieces(data, 0, len(data)))


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        ("Heartbeat", 4, b"\2g" + bytes(4) + b"\2m" + b"\0"),
        ("Fetch", 12, bytes(17) + struct.pack(">ii", 0, -1) + b"\1\1\1"),
    ],
)
def test_a_section_of_too_many_tags_is_refused(
    api: str, version: int, body: bytes
) -> None:
    """Up to MOST_TAGS are read, whether the message has tagged fields or not."""
    codec = BY_NAME[api].request(version)
    for count in (MOST_TAGS, MOST_TAGS + 1, 50_000_000):
        data = body + uvarint(count) + b"\x63\0" * min(count, 1000)
        if count <= MOST_TAGS:
            assert codec.decode(data, 0, len(data))[1] == len(data)
            assert in_pieces.decoded(codec, data)[1] == len(data)
            continue
        with pytest.raises(WireError, match=f"{count} tagged fields in a section"):
            codec.decode(data, 0, len(data))
        with pytest.raises(WireError, match=f"{count} tagged fields in a section"):
            in_pieces.decoded(codec, data)


def test_a_truncated_long_message_is_refused() -> None:
    """At any end, as if it were decoded at once."""
    data = COMMIT.encode(commit(3, 400))
    for end in itertools.chain(range(0, len(data), 97), [len(data) - 1]):
        with pytest.raises(WireError):
            finished(COMMIT.decode_in_pieces(data, 0, end))
