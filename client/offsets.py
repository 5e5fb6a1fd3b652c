"""Partitions, and positions in them."""

from __future__ import annotations

from typing import NamedTuple

EARLIEST = -2
"""The timestamp that stands for the first offset of a log."""
LATEST = -1
"""The timestamp that stands for the offset behind the last record."""
MAX_TIMESTAMP = -3
"""Stands for the record with the largest timestamp (KIP-734)."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """What is committed of a partition.

    Attributes:
        offset: of the record to consume next.
        metadata: the committer's own note.
        leader_epoch: of the last record consumed; -1 where that is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """What was found in a log.

    Attributes:
        offset: -1 where there is none.
        timestamp: the record's, in milliseconds; -1 where it was not asked for.
        leader_epoch: of the record; -1 where the broker does not tell.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1
