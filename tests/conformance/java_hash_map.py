"""The order in which a Java HashMap iterates over its keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class JavaHashMap:
    """The keys of a `java.util.HashMap<String, ...>`, in Java's order.

    Buckets come one after the other, in each the keys in order of insertion. Their
    number doubles when they are three quarters full, and never goes down. Buckets of
    eight keys and more, which Java converts to trees, are not imitated.
    """

    def __init__(self) -> None:
        self._buckets: list[list[str]] = [[] for _ in range(16)]
        self._size = 0

    def put(self, key: str) -> None:
        """Puts a key; an existing one keeps its place."""
        bucket = self._buckets[self._index(key)]
        if key in bucket:
            return
        bucket.append(key)
        self._size += 1
        if self._size > len(self._buckets) * 3 // 4:
            keys = list(self)
            self._buckets = [[] for _ in range(2 * len(self._buckets))]
            for each in keys:
                self._buckets[self._index(each)].append(each)

    def remove(self, key: str) -> None:
        """Removes an existing key."""
        self._buckets[self._index(key)].remove(key)
        self._size -= 1

    def __iter__(self) -> Iterator[str]:
        return (key for bucket in self._buckets for key in bucket)

    def ranks(self, keys: Iterable[str]) -> list[int]:
        """Positions of keys in the order of the map: 0, 1, ... if all are in order."""
        order = {key: rank for rank, key in enumerate(self)}
        return [order[key] for key in keys]

    def _index(self, key: str) -> int:
        code = hash_code(key)
        return (code ^ code >> 16) & (len(self._buckets) - 1)


def hash_code(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    units = text.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code
