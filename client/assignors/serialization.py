"""Subscriptions and assignments as bytes, as the Java client sends them.

JoinGroup has subscriptions, SyncGroup has assignments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.client.assignors.contract import MemberSubscription, TopicPartition
from kohort.protocol import consumer
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions


def rows_by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Partitions with their topics in the order in which these appear first."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic, listed) for topic, listed in numbers.items()]


def flat(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    """The partitions one by one."""
    return [(each.topic, partition) for each in topics for partition in each.partitions]


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """The metadata of JoinGroup, which has the instance id in another field."""
    return consumer.encode(
        Subscription(
            sorted(subscription.topics),
            subscription.user_data,
            rows_by_topic(sorted(subscription.owned)),
            subscription.generation,
            subscription.rack or None,
        )
    )


def decode_subscription(
    metadata: bytes, instance_id: str | None = None
) -> MemberSubscription:
    """A member of the JoinGroup response.

    Raises:
        WireError: the bytes are not a subscription.
    """
    read = consumer.decode_subscription(metadata)
    return MemberSubscription(
        read.topics,
        read.user_data,
        flat(read.owned_partitions),
        read.generation_id,
        instance_id,
        read.rack_id or None,
    )


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """The assignment of one member in SyncGroup."""
    return consumer.encode(Assignment(rows_by_topic(partitions), None))


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; none for no bytes.

    Raises:
        WireError: the bytes are not an assignment.
    """
    if not assignment:
        return []
    return flat(consumer.decode_assignment(assignment).assigned_partitions)
