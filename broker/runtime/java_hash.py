"""Java's hash and length of strings, and the order of a Java HashMap.

Kafka places groups by the hash. It keeps the members of a group, and the protocols in a
vote, in a HashMap: the order of its buckets decides leaders and ties.
"""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: an int32 of the text's UTF-16 code units."""
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
