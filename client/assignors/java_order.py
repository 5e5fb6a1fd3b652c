"""The iteration orders of Java's hash maps and sorted strings.

If several assignments are equally good, the Java client's leader takes one that
depends on the order of its hash maps. A group's leader may change from a Java member
to one of ours and back: with the same order, no partition moves because of that.
"""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
        return value
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value


def partition_hash(topic_hash: int, partition: int) -> int:
    """The hash code of Java's `TopicPartition`."""
    return (31 * (31 + partition) + topic_hash) & _MASK


def _capacity(size: int) -> int:
    """Table size of a `HashMap` that has grown to `size` entries."""
    capacity = 16
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def _bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ (hashed >> 16)) & (capacity - 1)


def hash_order(keys: Iterable[str]) -> list[str]:
    """The order of the keys of a `HashMap` that was filled key by key.

    By bucket, and in a bucket by time of insertion. A bucket with eight or more
    entries becomes a tree in Java, with another order. With member ids that end in a
    UUID no bucket is that full, so trees are left out here.
    """
    distinct = list(dict.fromkeys(keys))
    capacity = _capacity(len(distinct))
    return sorted(distinct, key=lambda key: _bucket(string_hash(key), capacity))


def utf16(text: str) -> bytes:
    """A key that sorts as `String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


class PartitionSet:
    """Finds the first partition of one topic in the order of a Java `HashSet`."""

    __slots__ = ("_hashes", "_topic_hash", "_widest")

    def __init__(self, topic_hash: int) -> None:
        self._topic_hash = topic_hash
        self._hashes: dict[int, int] = {}
        self._widest = 0  # a table never shrinks

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, partition: int) -> None:
        """Adds one that is not there."""
        self._hashes[partition] = partition_hash(self._topic_hash, partition)
        self._widest = max(self._widest, len(self._hashes))

    def remove(self, partition: int) -> None:
        """Removes one that is there."""
        del self._hashes[partition]

    def first(self) -> int:
        """The first in the order of the set."""
        capacity = _capacity(self._widest)
        return min(self._hashes, key=lambda p: _bucket(self._hashes[p], capacity))
