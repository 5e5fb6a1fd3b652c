"""The cache of values made from rows."""

from __future__ import annotations

from kohort.protocol.row_cache import LARGEST, MOST_ROWS, RowCache


def test_values_are_kept() -> None:
    """A value is found by its key, until the cache is full."""
    cache: RowCache[int, str] = RowCache()
    assert cache.get(0) is None
    assert cache.keep(0, "zero", 10) == "zero"
    assert (cache.get(0), cache.rows) == ("zero", 10)
    enough = MOST_ROWS // LARGEST + 1
    for key in range(1, enough + 1):
        cache.keep(key, "more", LARGEST)
    assert cache.get(0) is None
    assert cache.get(enough) == "more"
    assert cache.rows <= MOST_ROWS


def test_large_values_are_not_kept() -> None:
    """One of them would drive out many others."""
    cache: RowCache[int, str] = RowCache()
    assert cache.keep(0, "large", LARGEST + 1) == "large"
    assert (cache.get(0), cache.rows) == (None, 0)
