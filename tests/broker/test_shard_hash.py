"""The partition of a group: values from a JVM (``tests/data/GroupHashes.java``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kohort.broker.runtime.hash import partition_of
from kohort.broker.runtime.java_hash import java_hash

ROWS: list[tuple[str, int, int]] = json.loads(
    (Path(__file__).parents[1] / "data" / "group_hashes.json").read_text("utf-8")
)


def test_a_thousand_groups() -> None:
    """Every id has Java's hash, and Kafka's partition of 50."""
    assert len({row[0] for row in ROWS}) == 1000
    for group_id, code, partition in ROWS:
        assert (java_hash(group_id), partition_of(group_id, 50)) == (code, partition)


def test_ids_are_of_all_kinds() -> None:
    """The ids include those that are easy to get wrong."""
    codes = {group_id: code for group_id, code, _ in ROWS}
    assert codes[""] == 0
    assert -(2**31) in codes.values()
    assert any(code < 0 for code in codes.values())
    assert sum(not group_id.isascii() for group_id in codes) > 300
    assert sum(any(ord(c) > 0xFFFF for c in group_id) for group_id in codes) > 100


@pytest.mark.parametrize("partitions", [1, 7, 50, 1000])
def test_smallest_hash(partitions: int) -> None:
    """The only number without a positive counterpart gives partition 0."""
    (group_id,) = (group_id for group_id, code, _ in ROWS if code == -(2**31))
    assert partition_of(group_id, partitions) == 0
