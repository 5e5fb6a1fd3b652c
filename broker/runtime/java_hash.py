"""Java's hash and length of strings, and the order of a Java HashMap.

Kafka places groups by the hash. It keeps the members of a group, and the protocols in a
vote, in a HashMap: the order of its buckets decides leaders and ties. The assignors of
consumer groups go through members, topics and partitions in such orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

Key = TypeVar("Key")


@lru_cache(1 << 14)
def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: an int32 of the text's UTF-16 code units.

    Each target assignment of a consumer group needs those of all member ids.
    """
    code = 0
    if text.isascii():
        for byte in text.encode():
            code = 31 * code + byte & 0xFFFFFFFF
    else:
        units = memoryview(text.encode("utf-16-be", "surrogatepass"))
        for i in range(0, len(units), 2):
            code = 31 * code + (units[i] << 8 | units[i + 1]) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def java_length(text: str) -> int:
    """Java's ``String.length``: the number of UTF-16 code units."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


_FEWEST_BUCKETS = 16
"""Buckets of an empty HashMap."""


def spread(text: str) -> int:
    """The bits of a string's hash from which a HashMap takes the bucket number.

    Entries of one bucket iterate in order of insertion. Kafka differs only with 9 or
    more strings in one bucket, which a HashMap arranges as a tree.
    """
    code = java_hash(text) & 0xFFFFFFFF
    return code ^ code >> 16


def buckets_for(size: int, buckets: int = _FEWEST_BUCKETS) -> int:
    """Buckets of a HashMap that has grown to a size; it never shrinks."""
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def spread_topic_id(topic_id: bytes) -> int:
    """`spread` of a topic id, whose hash is that of Kafka's ``Uuid``."""
    halves = int.from_bytes(topic_id[:8]) ^ int.from_bytes(topic_id[8:])
    code = halves >> 32 ^ halves & 0xFFFFFFFF
    return code ^ code >> 16


def spread_int(number: int) -> int:
    """`spread` of an Integer that is not negative."""
    return number ^ number >> 16


def buckets_of(capacity: int) -> int:
    """Buckets of a HashMap that is made for an initial capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def capacity_for(size: int) -> int:
    """The capacity with which Java's code makes a HashMap for a number of entries."""
    return size * 4 // 3 + 1


def buckets_of_copy(size: int) -> int:
    """Buckets of a HashSet that is made from a collection of this size."""
    return buckets_of(max(capacity_for(size), _FEWEST_BUCKETS))


def in_buckets(
    keys: Iterable[Key], bits: Callable[[Key], int], buckets: int
) -> list[Key]:
    """Sorts keys as a HashMap iterates over them.

    Args:
        keys: in order of insertion.
        bits: one of the `spread` functions.
        buckets: of the HashMap.
    """
    mask = buckets - 1
    return sorted(keys, key=lambda key: bits(key) & mask)


_GOLDEN = -7046029254386353131
"""By which Kafka's TimelineHashMap multiplies hashes; the upper bits number buckets."""


def in_timeline(keys: Iterable[str], most: int) -> list[str]:
    """Sorts keys as Kafka's TimelineHashMap iterates over them.

    In one bucket, the latest comes first.

    Args:
        keys: in order of insertion.
        most: the largest number of keys that the map has had. Their values have been
            replaced since.
    """
    size = 2
    while (most + 1) * 3 > size * 4:
        size *= 2
    shift = 65 - size.bit_length()

    def slot(key: str) -> int:
        return (java_hash(key) * _GOLDEN & 0xFFFFFFFFFFFFFFFF) >> shift

    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=slot)
