"""Groups of both protocols, as the broker describes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kohort.protocol.apis import k15_describe_groups as classic
from kohort.protocol.apis import k69_consumer_group_describe as consumer

Members = tuple[tuple[str, str | None, str, object, object], ...]
"""Of each member: id, instance id, client id, subscription and assignment; sorted."""


@dataclass(frozen=True, slots=True)
class Described:
    """A group.

    Attributes:
        state: its name.
        protocol: of a classic group; the assignor of a consumer group.
        members: see `Members`.
        epochs: of the members of a consumer group, and of the group itself; empty for a
            classic group, whose description has no generation.
    """

    state: str
    protocol: str
    members: Members
    epochs: frozenset[int] = frozenset()


def of_classic(group: classic.DescribedGroup) -> Described:
    """A group in DescribeGroups."""
    members = sorted(
        (
            each.member_id,
            each.group_instance_id,
            each.client_id,
            bytes(each.member_metadata),
            bytes(each.member_assignment),
        )
        for each in group.members
    )
    return Described(group.group_state, group.protocol_data, (*members,))


def of_consumer(group: consumer.DescribedGroup) -> Described:
    """A group in ConsumerGroupDescribe."""
    members = sorted(
        (
            each.member_id,
            each.instance_id,
            each.client_id,
            (*each.subscribed_topic_names,),
            (*_partitions(each),),
        )
        for each in group.members
    )
    epochs = frozenset(each.member_epoch for each in group.members)
    return Described(
        group.group_state,
        group.assignor_name,
        (*members,),
        epochs | {group.group_epoch, group.assignment_epoch},
    )


def two_owners(group: consumer.DescribedGroup) -> list[str]:
    """The partitions that two members of a consumer group may read at once.

    Returns:
        One sentence each; the protocol has none at any time, also in a rebalance.
    """
    owners = Counter(place for each in group.members for place in _partitions(each))
    return [
        f"{group.group_id}: partition {partition} of {topic} has {count} owners"
        for (topic, partition), count in owners.items()
        if count > 1
    ]


def _partitions(member: consumer.Member) -> list[tuple[str, int]]:
    return sorted(
        (topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )
