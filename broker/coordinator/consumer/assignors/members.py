"""Input and result of the assignors of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kohort.broker.coordinator.topics import TopicImage
from kohort.broker.runtime.java_hash import (
    buckets_for,
    buckets_of_copy,
    in_buckets,
    in_timeline,
    spread,
    spread_topic_id,
)
from kohort.protocol.slotted import slotted

Topics = Mapping[bytes, TopicImage]
"""The topics that members subscribe to, by id."""


@slotted
class MemberSpec:
    """A member of a group, for an assignor.

    Attributes:
        topics: the ids of its topics that exist. If they are in order of subscription,
            the result is Kafka's also for topics whose names and ids collide in a
            HashMap.
        group_instance_id: None for a dynamic member.
        rack_id: its rack. Kafka 4.3's assignors do not use it.
        assigned: its target assignment so far: partitions by topic id, in the order of
            its record.
        subscribed: the number of topic names that it subscribes to; None: as many as
            exist.
    """

    topics: Collection[bytes]
    group_instance_id: str | None
    rack_id: str | None
    assigned: Mapping[bytes, Collection[int]]
    subscribed: int | None = None

    def names(self) -> int:
        """The number of topic names that it subscribes to."""
        return len(self.topics) if self.subscribed is None else self.subscribed


Members = Mapping[str, MemberSpec]
"""By member id, in the order of `meeting_order`."""
Assignments = dict[str, dict[bytes, Sequence[int]]]
"""Each member's partitions by topic id. Members, topics and partitions are in the order
of Kafka's records."""

Assign = Callable[..., Assignments]
"""An assignor: ``assign(members, topics, *, homogeneous)``."""


def meeting_order(
    members: Iterable[str], most: int, *, updated: str, replaced: str | None = None
) -> list[str]:
    """Orders members as Kafka's assignors go through them.

    Kafka copies the group's members from a TimelineHashMap to a HashMap, adds the one
    whose heartbeat asks for the assignment, and removes the one in whose place it is.

    Args:
        members: the members of the group, in the order in which they came.
        most: the largest number of members that the group has had.
        updated: the member whose heartbeat asks for the assignment; it may be new.
        replaced: the static member in whose place it is.
    """
    order = dict.fromkeys(in_timeline(members, most))
    largest = len(order)
    changed = [updated]
    if replaced is not None and replaced != updated:
        changed.append(replaced)
    for member_id in in_buckets(changed, spread, buckets_for(len(changed))):
        if member_id == updated:
            order[member_id] = None
        else:
            order.pop(member_id, None)
        largest = max(largest, len(order))
    return in_buckets(order, spread, buckets_for(largest))


def ordered_topics(spec: MemberSpec, topics: Topics) -> list[bytes]:
    """A member's topics in the order in which assignors go through them.

    That is the order of their names in a HashSet.
    """
    return in_buckets(
        spec.topics,
        lambda topic_id: spread(topics[topic_id].name),
        buckets_of_copy(spec.names()),
    )


def ordered_ids(spec: MemberSpec, topics: Topics) -> list[bytes]:
    """A member's topics in the order of their ids in a HashSet."""
    return in_buckets(
        ordered_topics(spec, topics), spread_topic_id, buckets_of_copy(spec.names())
    )
