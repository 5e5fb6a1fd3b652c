"""Partitions in the bytes of the classic consumer protocol, and by topic id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.broker.coordinator.consumer.assignors.partitions import unchanged
from kohort.broker.coordinator.topics import TopicsImage
from kohort.protocol.consumer import (
    NEWEST,
    Assignment,
    TopicPartitions,
    encode,
    version_of,
)


def by_id(
    rows: Iterable[TopicPartitions], topics: TopicsImage
) -> dict[bytes, Sequence[int]]:
    """Returns partitions by topic id, without topics that do not exist."""
    found: dict[bytes, Collection[int]] = {}
    for row in rows:
        image = topics.named(row.topic)
        if image is not None:
            found[image.topic_id] = [*dict.fromkeys(row.partitions)]
    return unchanged(found)


def encoded(
    partitions: Mapping[bytes, Collection[int]], topics: TopicsImage, metadata: bytes
) -> bytes:
    """Returns an assignment for a member.

    Args:
        partitions: by topic id; topics that do not exist are left out.
        topics: the cluster's topics.
        metadata: that of the member's protocol, whose version the bytes get. Kafka
            leaves a member without an answer if it has none.
    """
    rows = []
    for topic_id, numbers in unchanged(partitions).items():
        image = topics.with_id(topic_id)
        if image is not None:
            rows.append(TopicPartitions(image.name, numbers))
    return encode(Assignment(rows), min(version_of(metadata) or 0, NEWEST))
