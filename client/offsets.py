"""Partitions, and positions in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.client.errors import ConfigError

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


class RecordMetadata(NamedTuple):
    """Topic, partition, offset and timestamp of a record that was sent.

    Attributes:
        topic: the topic.
        partition: the partition.
        offset: -1 if the broker returned none: with acks=0, or for a duplicate whose
            offset it no longer knows.
        timestamp: in milliseconds since the epoch: the record's own, or the time of
            the append with ``message.timestamp.type=LogAppendTime``.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of partitions, by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


class OffsetAndMetadata(NamedTuple):
    """A committed offset of a partition.

    Attributes:
        offset: of the record to consume next.
        metadata: the committer's own note.
        leader_epoch: of the last record consumed; -1 where that is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Committable = int | tuple[int, str] | OffsetAndMetadata
"""An offset, perhaps with the committer's note and a leader epoch."""


def committable(place: TopicPartition, offset: Committable) -> OffsetAndMetadata:
    """An offset to commit, as a row.

    Raises:
        ConfigError: it is no offset: brokers would take it.
    """
    row = (
        OffsetAndMetadata(offset)
        if isinstance(offset, int)
        else OffsetAndMetadata(*offset)
    )
    if row.offset < 0:
        raise ConfigError(f"offset: {row.offset} of {place} is below 0")
    return row


class OffsetAndTimestamp(NamedTuple):
    """An offset that was found in a log.

    Attributes:
        offset: -1 where there is none.
        timestamp: the record's, in milliseconds; -1 where it was not asked for.
        leader_epoch: of the record; -1 where the broker does not tell.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1
