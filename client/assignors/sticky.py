"""Sticky assignor: balanced, with as few moves as possible.

A member sends its previous assignment as user data: the protocol is eager, so it owns
no partitions when it joins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.client.assignors.claims import Memory, Remember, settle
from kohort.client.assignors.contract import (
    Assignment,
    MemberSubscription,
    RebalanceProtocol,
    Subscriptions,
    TopicPartition,
    Topics,
    partitions_by_topic,
)
from kohort.client.assignors.equal import EqualDivision
from kohort.client.assignors.java_order import hash_order, utf16
from kohort.client.assignors.racks import Racks
from kohort.client.assignors.serialization import flat, rows_by_topic
from kohort.client.assignors.unequal import UnequalDivision
from kohort.protocol.consumer import (
    StickyUserData,
    decode_sticky_user_data,
    encode_user_data,
)
from kohort.protocol.messages import WireError


def divide(
    cluster: Topics, subscriptions: Subscriptions, remember: Remember
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment that both sticky assignors start from.

    Returns:
        The partitions of each member; and the partitions that move between members,
        with their new owner, or None if these were not tracked.
    """
    if not subscriptions:
        return {}, {}
    topics = partitions_by_topic(cluster, subscriptions)
    # All topics have partitions 0, 1, 2, ...; the order is that of the Java client.
    partitions = [
        (topic, info.partition)
        for topic in sorted(topics, key=utf16)
        for info in topics[topic]
    ]
    racks = Racks(topics, subscriptions)
    claims = settle(subscriptions, set(partitions), remember)
    first, *others = (set(each.topics) for each in subscriptions.values())
    if all(other == first for other in others):
        equal = EqualDivision(partitions, claims, racks)
        return equal.given, equal.moving
    return UnequalDivision(topics, subscriptions, claims, racks).given, None


def remember(subscription: MemberSubscription) -> Memory:
    """The owned partitions and generation in the user data; none if it is invalid.

    The fields of the subscription are ignored.
    """
    try:
        data = decode_sticky_user_data(subscription.user_data or b"")
    except WireError:
        return (), -1
    return flat(data.previous_assignment), data.generation


class StickyAssignor:
    """Kafka's `sticky`."""

    name = "sticky"
    protocols: Sequence[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def metadata_user_data(
        self, owned: Sequence[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """The last assignment and its generation, if there was one."""
        if owned is None:
            return None
        topics = rows_by_topic(owned)
        # The Java client fills this map by computeIfAbsent, which puts a new entry
        # before the others of its bucket, not after them.
        order = hash_order(topic.topic for topic in reversed(topics))
        place = {topic: at for at, topic in enumerate(order)}
        topics.sort(key=lambda topic: place[topic.topic])
        return encode_user_data(StickyUserData(topics, generation))

    def assign(self, cluster: Topics, subscriptions: Subscriptions) -> Assignment:
        """Assigns; partitions move directly, since eager members have revoked all."""
        return divide(cluster, subscriptions, remember)[0]
