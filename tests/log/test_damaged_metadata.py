"""Invalid JSON: a `MetadataError`, whatever Python's reader raises."""

from __future__ import annotations

import pytest

from kohort.broker.log.metadata import ClusterChange, ClusterMetadata, MetadataError

REST = b'"topics": {}, "configs": {}, "change": 1'


@pytest.mark.parametrize("declared", [ClusterMetadata, ClusterChange])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"topics": ' * 10_000,
        b'{"next_producer_id": 1e999, ' + REST + b"}",
        b'{"next_producer_id": Infinity, ' + REST + b"}",
        b'{"next_producer_id": "x", ' + REST + b"}",
        b'{"next_producer_id": 1, "topics": [], "configs": {}, "change": 1}',
        b'{"next_producer_id": 1, "topics": {"t": 1}, "configs": {}, "change": 1}',
    ],
)
def test_unreadable_metadata_is_a_metadata_error(
    declared: type[ClusterMetadata | ClusterChange], data: bytes
) -> None:
    """A failed start names the file, and raises no other exception."""
    with pytest.raises(MetadataError):
        declared.from_json(data)
