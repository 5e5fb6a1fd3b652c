"""The committed offsets of a group, in columns until they are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.coordinator.committed import (
    MOST_UNSORTED,
    CommittedOffsets,
    OffsetEntry,
    OffsetKey,
)

SETS = [(("t", 0), ("t", 1)), (("t", 1), ("t", 2)), (("u", 0),), (("t", 1), ("t", 1))]
"""Partitions of commits; some have a partition in common, one has it twice."""


@given(
    st.lists(st.tuples(st.sampled_from(SETS), st.integers(0, 9), st.integers(0, 4))),
)
def test_the_latest_commit_of_a_partition_counts(
    commits: list[tuple[tuple[OffsetKey, ...], int, int]],
) -> None:
    """Commits in any order, some of them followed by a read, end as in a plain dict."""
    committed, plain = CommittedOffsets(), dict[OffsetKey, OffsetEntry]()
    for time, (keys, offset, reads) in enumerate(commits):
        offsets = range(offset, offset + len(keys))
        committed.put(keys, offsets, (7,) * len(keys), time)
        for key, each in zip(keys, offsets, strict=True):
            plain[key] = each, 7, "", time
        if not reads:
            assert committed.read() == plain
    assert committed.read() == plain


def test_many_different_commits() -> None:
    """Offsets of ever other partitions are sorted now and then, and none is lost."""
    committed = CommittedOffsets()
    count = MOST_UNSORTED // 50
    for number in range(count):
        keys = tuple(("t", number * 100 + p) for p in range(100))
        committed.put(keys, (number,) * 100, (-1,) * 100, 0)
        assert len(committed._unsorted) <= MOST_UNSORTED // 100  # noqa: SLF001 - memory
    found = committed.read()
    assert len(found) == count * 100
    assert found["t", 100] == (1, -1, "", 0)


def test_offsets_of_a_loaded_group() -> None:
    """They take the place of all others."""
    committed = CommittedOffsets()
    committed.put((("t", 0),), (1,), (-1,), 0)
    committed.replace({("t", 1): (2, -1, "", 0)})
    assert committed.read() == {("t", 1): (2, -1, "", 0)}
