"""Hash of a group id: the partition of ``__consumer_offsets``, as in Kafka."""

from __future__ import annotations

import functools
from typing import Final

from kohort.broker.runtime.java_hash import java_hash

MOST = 1 << 16
"""Cached group ids: ten times those of a large test, in 10 MB."""

LONGEST: Final = 256
"""Longest id that is cached, in characters; the wire allows 32,767 bytes."""

_SMALLEST: Final = -(2**31)


_remembered = functools.lru_cache(MOST)(java_hash)


def partition_of(group_id: str, partitions: int) -> int:
    """Returns the partition of a group; its leader is the group's coordinator.

    Args:
        group_id: the id of the group.
        partitions: their number (``offsets.topic.num.partitions``).
    """
    hashed = _remembered if len(group_id) <= LONGEST else java_hash
    code = hashed(group_id)
    # The smallest int has no positive counterpart; Kafka uses 0 for it.
    return 0 if code == _SMALLEST else abs(code) % partitions
