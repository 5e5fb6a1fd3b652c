"""Previous owners of partitions, from the claims of members.

Every member claims the partitions that it owned, with their generation. A member that
missed a rebalance still claims partitions that were assigned to others since. If two
members claim a partition, the one with the newer generation owned it; with the same
generation, neither did (KIP-792).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kohort.client.assignors.contract import (
    MemberSubscription,
    Subscriptions,
    TopicPartition,
)
from kohort.client.assignors.java_order import hash_order

Memory: TypeAlias = tuple[Sequence[TopicPartition], int]
"""Partitions that a member owned, and their generation, or -1."""

Remember: TypeAlias = Callable[[MemberSubscription], Memory]
"""Reads the memory of a subscription."""


@dataclass(slots=True)
class Claims:
    """The previous owners.

    Attributes:
        owned: partitions of each member, as an ordered set; members in Java's order.
        contested: partitions that two members of one generation have claimed.
        outdated: for partitions claimed by members of older generations, the member
            with the newest of these; returning to it costs least.
    """

    owned: dict[str, dict[TopicPartition, None]] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    outdated: dict[TopicPartition, str] = field(default_factory=dict)


def settle(
    subscriptions: Subscriptions,
    existing: Container[TopicPartition],
    remember: Remember,
) -> Claims:
    """Decides the previous owner of each partition.

    Args:
        subscriptions: the members.
        existing: the partitions to assign; claims on others are ignored.
        remember: reads owned partitions and their generation from a subscription.
    """
    members = hash_order(subscriptions)
    memories = {member: remember(subscriptions[member]) for member in members}
    claims = Claims({member: {} for member in members})
    claimant: dict[TopicPartition, str] = {}
    for member in members:
        partitions, generation = memories[member]
        for partition in dict.fromkeys(partitions):
            if partition not in existing:
                continue
            other = claimant.get(partition)
            if other is None:
                claims.owned[member][partition] = None
                claimant[partition] = member
                continue
            # As in the Java client: the other's generation is the subscription's
            # field, even where the claim comes from the user data.
            others = subscriptions[other].generation
            if generation < others:
                continue
            claims.owned[other].pop(partition, None)
            claimant[partition] = member
            if generation == others:
                claims.contested.add(partition)
            else:
                claims.owned[member][partition] = None
    claims.outdated = _outdated(memories)
    return claims


def _outdated(memories: dict[str, Memory]) -> dict[TopicPartition, str]:
    newest = max((generation for _, generation in memories.values()), default=-1)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member, (partitions, generation) in memories.items():
        if generation >= newest:
            continue
        for partition in partitions:
            known = found.get(partition)
            if known is None or generation > known[0]:
                found[partition] = generation, member
    return {partition: member for partition, (_, member) in found.items()}
