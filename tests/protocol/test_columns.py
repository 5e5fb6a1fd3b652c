"""Arrays that are decoded as columns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.columns import MOST_IN_COLUMNS, Columns, columns_of
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_NAME

COMMIT = BY_NAME["OffsetCommit"]
FIELDS = OffsetCommitRequestPartition.__match_args__

every_version = pytest.mark.parametrize(
    "version", range(COMMIT.oldest, COMMIT.newest + 1)
)


def encoded(version: int, texts: Sequence[str | None]) -> bytes:
    """A commit with this metadata."""
    rows = [
        OffsetCommitRequestPartition(p, 10 * p, -1, text)
        for p, text in enumerate(texts)
    ]
    name = "t" if version < 10 else ""
    topics = [OffsetCommitRequestTopic(name, partitions=rows)]
    return COMMIT.request(version).encode(OffsetCommitRequest("g", topics=topics))


def decoded(version: int, data: bytes) -> Sequence[OffsetCommitRequestPartition]:
    """The partitions of a commit."""
    message, end = COMMIT.request(version).decode(data, 0, len(data))
    assert end == len(data)
    (topic,) = message.topics
    found: Sequence[OffsetCommitRequestPartition] = topic.partitions
    return found


@every_version
@pytest.mark.parametrize("text", ["", None])
def test_texts_that_are_all_empty_or_null(version: int, text: str | None) -> None:
    """The columns have the same values as the structs that are made of them."""
    found = decoded(version, encoded(version, [text] * 3))
    assert type(found) is Columns
    assert found.columns == ((0, 1, 2), (0, 10, 20), (-1, -1, -1), (text,) * 3)
    rows = [OffsetCommitRequestPartition(p, 10 * p, -1, text) for p in range(3)]
    assert found == rows
    assert (found[1], found[-1], found[1:]) == (rows[1], rows[2], rows[1:])
    assert repr(found) == repr(rows)
    assert columns_of(rows, FIELDS) == columns_of(found, FIELDS)


@every_version
@pytest.mark.parametrize(
    "texts", [["", "note", ""], ["note", None], [None, ""], ["", None], ["x" * 200]]
)
def test_other_texts(version: int, texts: list[str | None]) -> None:
    """A text of another size is read as it is, wherever it stands."""
    found = decoded(version, encoded(version, texts))
    assert type(found) is list
    assert [row.committed_metadata for row in found] == texts
    assert [row.committed_offset for row in found] == [
        10 * p for p in range(len(texts))
    ]


@every_version
def test_long_arrays(version: int) -> None:
    """An array of any length is read."""
    for count in (MOST_IN_COLUMNS, MOST_IN_COLUMNS + 1):
        found = decoded(version, encoded(version, [None] * count))
        assert [row.partition_index for row in found] == [*range(count)]


def test_tagged_fields() -> None:
    """A struct with a tagged field of a newer version is read without it."""
    data = encoded(8, [None] * 2)
    # The last struct, the topic, the request: each ends with its number of tags.
    tagged = data[:-3] + b"\1\x07\2ab" + data[-2:]
    assert decoded(8, tagged) == decoded(8, data)


@every_version
def test_bytes_that_end_early(version: int) -> None:
    """An incomplete array is malformed, at whatever byte it ends."""
    data = encoded(version, [None] * 3)
    for end in range(len(data)):
        with pytest.raises(WireError):
            COMMIT.request(version).decode(data, 0, end)
