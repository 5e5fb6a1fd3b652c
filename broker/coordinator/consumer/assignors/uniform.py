"""The uniform assignor: it balances the number of partitions, and moves few of them."""

from __future__ import annotations

from kohort.broker.coordinator.consumer.assignors import heterogeneous
from kohort.broker.coordinator.consumer.assignors import (
    homogeneous as same_subscriptions,
)
from kohort.broker.coordinator.consumer.assignors.members import (
    Assignments,
    Members,
    Topics,
)


def assign(members: Members, topics: Topics, *, homogeneous: bool) -> Assignments:
    """Assigns partitions to members.

    Args:
        members: the members of the group.
        topics: the topics that they subscribe to.
        homogeneous: whether all members subscribe to the same topics.

    Returns:
        The partitions of each member; Kafka's result for these arguments.
    """
    if not members:
        return {}
    if homogeneous:
        return same_subscriptions.assign(members, topics)
    return heterogeneous.assign(members, topics)
