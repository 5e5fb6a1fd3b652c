"""Input and output of assignors."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


class RebalanceProtocol(enum.IntEnum):
    """Rebalance protocols, with Kafka's names and numbers (KIP-429)."""

    EAGER = 0
    """Members revoke all partitions before they rejoin."""
    COOPERATIVE = 1
    """Members keep their partitions except those that move, which are revoked, and
    assigned in a second rebalance."""


@dataclass(frozen=True, slots=True)
class PartitionRacks:
    """A partition, and the racks of its replicas.

    Attributes:
        partition: its number.
        racks: the racks of its replicas; None for a node without one.
    """

    partition: int
    racks: Sequence[str | None] = ()


Topics: TypeAlias = Mapping[str, Sequence[PartitionRacks]]
"""Topics and their partitions, in any order; without the unknown topics."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription, as it joined.

    Attributes:
        topics: the subscribed topics.
        user_data: opaque bytes of its assignor.
        owned: partitions that it still owns (KIP-429).
        generation: the generation in which it owned them (KIP-792); -1 if unknown.
        instance_id: its `group.instance.id`, if it is static (KIP-345).
        rack: its rack (KIP-881); "" is like None.
    """

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None


Subscriptions: TypeAlias = Mapping[str, MemberSubscription]
"""By member id, in the order of the JoinGroup response."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""By member id, every member of the subscriptions; partitions in the order in
which the Java client's leader would write them."""


class Assignor(Protocol):
    """Assigns the partitions of a group to its members.

    An assignor has no state: the assignment depends only on the subscriptions and on
    the cluster's topics.
    """

    @property
    def name(self) -> str:
        """The protocol's name in JoinGroup."""

    @property
    def protocols(self) -> Sequence[RebalanceProtocol]:
        """Rebalance protocols that its members support, the best first."""

    def metadata_user_data(
        self, owned: Sequence[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """User data of a member's subscription.

        Args:
            owned: its last assignment; None if it has had none.
            generation: the generation of that assignment; -1 if there was none.
        """

    def assign(self, cluster: Topics, subscriptions: Subscriptions) -> Assignment:
        """The assignment of a leader.

        Args:
            cluster: the topics that exist, at least those that are subscribed to.
            subscriptions: the members.
        """


def partitions_by_topic(
    cluster: Topics, subscriptions: Subscriptions
) -> dict[str, list[PartitionRacks]]:
    """Subscribed topics that have partitions, these by number."""
    wanted = {
        topic: None
        for subscription in subscriptions.values()
        for topic in subscription.topics
    }
    return {
        topic: sorted(cluster[topic], key=lambda info: info.partition)
        for topic in wanted
        if cluster.get(topic)
    }
