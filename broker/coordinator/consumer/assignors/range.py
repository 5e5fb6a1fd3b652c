"""The range assignor: of each topic, a range of partitions for each member.

Members are sorted: first static members, by instance id, then the others, by member id.
So partitions with equal numbers go to one member, if topics have as many partitions
and the same members.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.consumer.assignors.members import (
    Assignments,
    Members,
    MemberSpec,
    Topics,
    ordered_topics,
)
from kohort.broker.runtime.java_hash import (
    buckets_of,
    capacity_for,
    in_buckets,
    spread_topic_id,
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
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    if homogeneous:
        subscribers = dict.fromkeys(members[order[0]].topics, order)
    else:
        subscribers = {}
        for member_id in order:
            for topic_id in members[member_id].topics:
                subscribers.setdefault(topic_id, []).append(member_id)
    ranges: Assignments = {member_id: {} for member_id in order}
    for topic_id, found in subscribers.items():
        quota, extra = divmod(len(topics[topic_id].racks), len(found))
        start = 0
        for index, member_id in enumerate(found if quota else found[:extra]):
            end = start + quota + (index < extra)
            ranges[member_id][topic_id] = range(start, end)
            start = end
    met = ordered_topics(members[order[0]], topics) if homogeneous else None
    return {
        member_id: _ordered(members[member_id], ranges[member_id], topics, met)
        for member_id in members
    }


def _place(member_id: str, spec: MemberSpec) -> tuple[bool, bytes]:
    """Sorts members as Java compares strings: by UTF-16 code units."""
    name = spec.group_instance_id
    found = member_id if name is None else name
    return name is None, found.encode("utf-16-be", "surrogatepass")


def _ordered(
    spec: MemberSpec,
    ranges: dict[bytes, Sequence[int]],
    topics: Topics,
    met: list[bytes] | None,
) -> dict[bytes, Sequence[int]]:
    """The ranges of a member in the order of a HashMap for all its topics.

    `met` has the topics of all members, if they are the same and exist.
    """
    if len(ranges) < 2:
        return ranges
    capacity = capacity_for(spec.names() if met is None else len(met))
    found = ordered_topics(spec, topics) if met is None else met
    return {
        topic_id: ranges[topic_id]
        for topic_id in in_buckets(
            (each for each in found if each in ranges),
            spread_topic_id,
            buckets_of(capacity),
        )
    }
