"""Views of a group: its current offsets, lag and assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kohort.broker.coordinator.appends import committed_offsets
from kohort.broker.events.render import assigned

if TYPE_CHECKING:
    from kohort.broker.coordinator.committed import OffsetEntry
    from kohort.broker.coordinator.coordinator import Coordinator
    from kohort.broker.coordinator.group import Group
    from kohort.broker.coordinator.member import Member
    from kohort.broker.server import Broker

Partition = tuple[str, int]
"""(topic, partition)."""


def coordinator_of(broker: Broker, group_id: str) -> Coordinator | None:
    """The coordinator of the group's shard; None if it has none."""
    shards = broker.cluster.shards
    driver = shards.for_group(group_id).driver if len(shards) else None
    return None if driver is None else driver.coordinator


def found(broker: Broker, group_id: str) -> Group | None:
    """The group in its coordinator; None if it does not exist."""
    coordinator = coordinator_of(broker, group_id)
    return None if coordinator is None else coordinator.groups.get(group_id)


def committed(broker: Broker, group_id: str) -> dict[Partition, int]:
    """The committed offsets by (topic, partition), as OffsetFetch answers them."""
    offsets = _offsets(broker, group_id).items()
    return {partition: entry[0] for partition, entry in offsets}


def committed_offset(broker: Broker, group_id: str, partition: Partition) -> int | None:
    """The committed offset of one partition; None: no commit."""
    entry = _offsets(broker, group_id).get(partition)
    return None if entry is None else entry[0]


def _offsets(broker: Broker, group_id: str) -> Mapping[Partition, OffsetEntry]:
    coordinator = coordinator_of(broker, group_id)
    if coordinator is None:
        return {}
    return committed_offsets(coordinator.appends, coordinator.groups, group_id)


def lag(broker: Broker, group_id: str) -> dict[Partition, int]:
    """Records behind the committed offset, by (topic, partition).

    Of the partitions that have a committed offset, and of all partitions of the topics
    that the members of the last generation subscribe to. Those without a committed
    offset count from their first record, as for a consumer with
    ``auto.offset.reset=earliest``.
    """
    return {partition: behind for partition, _, behind in lags(broker, group_id)}


def lags(broker: Broker, group_id: str) -> Iterator[tuple[Partition, int, int]]:
    """Yields the partitions of `lag`, with their log end offsets and records."""
    offsets = committed(broker, group_id)
    group = found(broker, group_id)
    subscribed = () if group is None else group.subscribed_topics() or ()
    topics = broker.cluster.topics.by_name
    for name in dict.fromkeys([*(topic for topic, _ in offsets), *sorted(subscribed)]):
        topic = topics.get(name)
        for index, log in enumerate(() if topic is None else topic.partitions):
            partition = name, index
            if partition in offsets or name in subscribed:
                offset = offsets.get(partition, log.log_start_offset)
                end = log.log_end_offset
                yield partition, end, max(0, end - offset)


def lag_of(broker: Broker, group_id: str, partition: Partition) -> int:
    """The records of one partition of `lag`; 0 if it does not exist."""
    name, index = partition
    topic = broker.cluster.topics.by_name.get(name)
    if topic is None or index >= len(topic.partitions):
        return 0
    log = topic.partitions[index]
    offset = committed_offset(broker, group_id, partition)
    return max(
        0, log.log_end_offset - (log.log_start_offset if offset is None else offset)
    )


def assignment(broker: Broker, group_id: str) -> dict[str, dict[str, list[int]]]:
    """Partitions by topic, by member.

    A member is named by its group.instance.id; without one by its client.id; by its
    member id where another member has the same name. It has no partitions until the
    group is Stable.
    """
    group = found(broker, group_id)
    if group is None:
        return {}
    members = [*group.ordered()]
    times = Counter(map(_name, members))
    return {
        _name(member) if times[_name(member)] == 1 else member.member_id: by_topic(
            member.assignment
        )
        for member in members
    }


def _name(member: Member) -> str:
    return member.group_instance_id or member.client.id or member.member_id


def by_topic(data: bytes) -> dict[str, list[int]]:
    """The partitions of an assignment by topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(assigned(data)):
        topics.setdefault(topic, []).append(partition)
    return topics
