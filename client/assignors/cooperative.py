"""Sticky, with members that keep consuming while the group rebalances (KIP-429).

A partition that has to move from one member to another is assigned to neither: its
owner revokes it and rejoins, and the second rebalance assigns it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.client.assignors.claims import Memory
from kohort.client.assignors.contract import (
    Assignment,
    MemberSubscription,
    RebalanceProtocol,
    Subscriptions,
    TopicPartition,
    Topics,
)
from kohort.client.assignors.sticky import divide
from kohort.protocol.consumer import (
    CooperativeStickyUserData,
    decode_cooperative_sticky_user_data,
    encode_user_data,
)
from kohort.protocol.messages import WireError


def remember(subscription: MemberSubscription) -> Memory:
    """The owned partitions and generation of a subscription.

    Before version 2 of it (KIP-792) the generation is in the user data.
    """
    generation = subscription.generation
    if generation < 0 and subscription.user_data is not None:
        try:
            data = decode_cooperative_sticky_user_data(subscription.user_data)
            generation = data.generation
        except WireError:
            generation = -1
    return subscription.owned, generation


def _moving(
    given: Assignment, subscriptions: Subscriptions
) -> dict[TopicPartition, str]:
    """Partitions that one member claims to own, and another was assigned."""
    owned = {member: set(subscriptions[member].owned) for member in given}
    revoked = {
        partition
        for member, partitions in given.items()
        for partition in owned[member].difference(partitions)
    }
    return {
        partition: member
        for member, partitions in given.items()
        for partition in partitions
        if partition in revoked and partition not in owned[member]
    }


class CooperativeStickyAssignor:
    """Kafka's `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols: Sequence[RebalanceProtocol] = (
        RebalanceProtocol.COOPERATIVE,
        RebalanceProtocol.EAGER,
    )

    def metadata_user_data(
        self, owned: Sequence[TopicPartition] | None, generation: int
    ) -> bytes | None:
        """The generation, for leaders that only know older subscriptions."""
        del owned
        return encode_user_data(CooperativeStickyUserData(generation))

    def assign(self, cluster: Topics, subscriptions: Subscriptions) -> Assignment:
        """Assigns, and leaves out partitions that have to be revoked first."""
        given, moving = divide(cluster, subscriptions, remember)
        if moving is None:
            moving = _moving(given, subscriptions)
        for member in set(moving.values()):
            given[member] = [p for p in given[member] if moving.get(p) != member]
        return given
