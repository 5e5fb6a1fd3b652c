"""Round-robin assignor.

The partitions of all topics are in a list, and the members in a circle: static members
by instance id, then the others by member id (KIP-345). Each partition goes to the next
member in the circle that has subscribed to its topic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kohort.client.assignors.contract import (
    Assignment,
    RebalanceProtocol,
    Subscriptions,
    TopicPartition,
    Topics,
    partitions_by_topic,
)
from kohort.client.assignors.java_order import hash_order, utf16


def members_in_order(subscriptions: Subscriptions) -> list[str]:
    """Static members by their instance ids, then the others by member id (KIP-345)."""

    def key(member: str) -> tuple[bool, bytes]:
        instance = subscriptions[member].instance_id
        return instance is None, utf16(member if instance is None else instance)

    return sorted(hash_order(subscriptions), key=key)


class RoundRobinAssignor:
    """Kafka's `roundrobin`."""

    name = "roundrobin"
    protocols: Sequence[RebalanceProtocol] = (RebalanceProtocol.EAGER,)

    def metadata_user_data(
        self, owned: Sequence[TopicPartition] | None, generation: int
    ) -> None:
        """None: roundrobin sends no user data."""
        del owned, generation

    def assign(self, cluster: Topics, subscriptions: Subscriptions) -> Assignment:
        """Assigns the partitions in turn."""
        members = members_in_order(subscriptions)
        seats: dict[str, list[int]] = {}
        for seat, member in enumerate(members):
            for topic in dict.fromkeys(subscriptions[member].topics):
                seats.setdefault(topic, []).append(seat)

        given: Assignment = {member: [] for member in subscriptions}
        topics = partitions_by_topic(cluster, subscriptions)
        turn = 0
        for topic in sorted(topics, key=utf16):
            takers = seats[topic]
            for info in topics[topic]:
                at = bisect_left(takers, turn)
                seat = takers[at] if at < len(takers) else takers[0]
                given[members[seat]].append((topic, info.partition))
                turn = (seat + 1) % len(members)
        return given
