"""Rack-aware assignment (KIP-881): the racks of members and partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from kohort.client.assignors.contract import (
    PartitionRacks,
    Subscriptions,
    TopicPartition,
)


def replica_racks(info: PartitionRacks) -> frozenset[str]:
    """The racks on which a partition has replicas."""
    return frozenset(rack for rack in info.racks if rack is not None)


def member_racks(subscriptions: Subscriptions) -> dict[str, str]:
    """The racks of the members that have one."""
    return {
        member: subscription.rack
        for member, subscription in subscriptions.items()
        if subscription.rack
    }


def racks_count(
    racks_of_members: Collection[str], racks_of_partitions: Collection[frozenset[str]]
) -> bool:
    """Returns whether racks make a difference to the assignment.

    They do not if no replica is on any member's rack, or if every partition has a
    replica on every rack.
    """
    everywhere = frozenset[str]().union(*racks_of_partitions)
    return not everywhere.isdisjoint(racks_of_members) and any(
        racks != everywhere for racks in racks_of_partitions
    )


class Racks:
    """The racks of a group's members and partitions; empty if they make no difference.

    Attributes:
        of_member: the rack of a member, if it has one.
        of_partition: the racks of its replicas.
    """

    __slots__ = ("_members_on", "of_member", "of_partition")

    def __init__(
        self, topics: Mapping[str, list[PartitionRacks]], subscriptions: Subscriptions
    ) -> None:
        self.of_member = member_racks(subscriptions)
        self.of_partition: dict[TopicPartition, frozenset[str]] = {}
        if self.of_member:
            self.of_partition = {
                (topic, info.partition): replica_racks(info)
                for topic, infos in topics.items()
                for info in infos
            }
        used = set(self.of_member.values())
        if not racks_count(used, self.of_partition.values()):
            self.of_member, self.of_partition = {}, {}
        self._members_on = Counter(self.of_member.values())

    def __bool__(self) -> bool:
        return bool(self.of_member)

    def is_far(self, member: str, partition: TopicPartition) -> bool:
        """Returns whether the member's rack has no replica of it."""
        rack = self.of_member.get(member)
        return rack is not None and rack not in self.of_partition[partition]

    def hardest_first(
        self, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Partitions, in ascending number of members on their racks."""

        def members_near(partition: TopicPartition) -> int:
            return sum(self._members_on[rack] for rack in self.of_partition[partition])

        return sorted(partitions, key=members_near)
