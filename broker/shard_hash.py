"""Which partition of ``__consumer_offsets`` a group is in, as Kafka decides it."""

from __future__ import annotations

import functools
from typing import Final

_MOST = 1 << 16
"""Group ids that are remembered: ten times those of a large test, in 10 MB."""

_LONGEST: Final = 256
"""Characters of an id that is remembered; the wire allows 32,767 bytes."""

_SMALLEST: Final = -(2**31)


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


_remembered = functools.lru_cache(_MOST)(java_hash)


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group, and so of its coordinator.

    Args:
        group_id: of the group.
        partitions: how many there are (``offsets.topic.num.partitions``).
    """
    hashed = _remembered if len(group_id) <= _LONGEST else java_hash
    code = hashed(group_id)
    # The smallest int has no positive counterpart; Kafka takes 0 for it.
    return 0 if code == _SMALLEST else abs(code) % partitions
