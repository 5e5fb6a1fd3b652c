"""Views of a group: its current offsets, lag and assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from kohort.broker.coordinator.appends import committed_offsets
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member as ClassicMember
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member as ConsumerMember
from kohort.broker.events.render import assigned
from kohort.broker.runtime.java_hash import in_timeline

if TYPE_CHECKING:
    from kohort.broker.coordinator.committed import OffsetEntry
    from kohort.broker.coordinator.coordinator import Coordinator
    from kohort.broker.events.delivery.partition import PartitionDelivery
    from kohort.broker.log.partition import Partition as Log
    from kohort.broker.server import Broker

Partition = tuple[str, int]
"""(topic, partition)."""


def coordinator_of(broker: Broker, group_id: str) -> Coordinator | None:
    """The coordinator of the group's shard; None if it has none."""
    shards = broker.cluster.shards
    driver = shards.for_id(group_id).driver if len(shards) else None
    return None if driver is None else driver.coordinator


AnyGroup = ClassicGroup | ConsumerGroup
AnyMember = ClassicMember | ConsumerMember


def found(broker: Broker, group_id: str) -> AnyGroup | None:
    """The group in its coordinator; None if it does not exist."""
    coordinator = coordinator_of(broker, group_id)
    group = None if coordinator is None else coordinator.groups.get(group_id)
    assert group is None or isinstance(group, AnyGroup)
    return group


def members_of(group: AnyGroup) -> list[AnyMember]:
    """The members of a group, in Kafka's order."""
    if isinstance(group, ClassicGroup):
        return [*group.ordered()]
    ordered = in_timeline(group.members, group.most_members)
    return [group.members[member_id] for member_id in ordered]


def unsynced(group: AnyGroup) -> Container[str]:
    """The ids of members that have not asked for their assignment yet."""
    return group.pending_sync if isinstance(group, ClassicGroup) else ()


def count_of(member: AnyMember) -> int:
    """The number of a member's partitions."""
    if isinstance(member, ClassicMember):
        return len(assigned(member.assignment))
    return sum(map(len, member.assigned.values()))


def partitions_of(group: AnyGroup, member: AnyMember) -> dict[str, list[int]]:
    """The partitions of a member by topic, both in order."""
    if isinstance(member, ClassicMember):
        return _by_topic(member.assignment)
    assert isinstance(group, ConsumerGroup)
    topics = {}
    for topic_id, partitions in member.assigned.items():
        image = group.topics.with_id(topic_id)
        if image is not None:
            topics[image.name] = sorted(partitions)
    return dict(sorted(topics.items()))


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


class Lag(int):
    """Records that are left to read behind a committed offset: a number.

    Attributes:
        records: the same number, without the markers of transactions, the records of
            aborted ones (unless the group is known to read them), and compacted
            offsets.
        offsets: the log end offset minus the committed one, as Kafka's tools show it.
        committed: the committed offset; None: none.
    """

    offsets: int
    committed: int | None

    def __new__(cls, records: int, offsets: int, committed: int | None) -> Self:
        """Makes a lag."""
        made = super().__new__(cls, records)
        made.offsets = offsets
        made.committed = committed
        return made

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self)


def lag(broker: Broker, group_id: str) -> dict[Partition, Lag]:
    """Records behind the committed offset, by (topic, partition).

    Of the partitions that have a committed offset, and of all partitions of the topics
    that the members of the last generation subscribe to. Those without a committed
    offset count from their first record, as for a consumer with
    ``auto.offset.reset=earliest``.
    """
    return {partition: behind for partition, _, behind in lags(broker, group_id)}


def lags(broker: Broker, group_id: str) -> Iterator[tuple[Partition, int, Lag]]:
    """Yields the partitions of `lag`, with their log end offsets."""
    offsets = committed(broker, group_id)
    group = found(broker, group_id)
    subscribed = () if group is None else group.subscribed_topics() or ()
    topics = broker.cluster.topics.by_name
    for name in dict.fromkeys([*(topic for topic, _ in offsets), *sorted(subscribed)]):
        topic = topics.get(name)
        for index, log in enumerate(() if topic is None else topic.partitions):
            partition = name, index
            if partition in offsets or name in subscribed:
                offset = offsets.get(partition)
                yield (
                    partition,
                    log.log_end_offset,
                    _lag(broker, group_id, partition, log, offset),
                )


def _lag(
    broker: Broker,
    group_id: str,
    partition: Partition,
    log: Log,
    committed: int | None,
) -> Lag:
    end = log.log_end_offset
    start = log.log_start_offset if committed is None else committed
    records = 0
    if start < end:
        # Loaded by the first use: brokers start sooner.
        from kohort.broker.log.counting import count_records

        reading = reading_of(broker, group_id, partition)
        records = count_records(
            log,
            max(start, log.log_start_offset),
            end,
            committed=reading is None or reading.is_committed is not False,
        )
    return Lag(records, max(0, end - start), committed)


def reading_of(
    broker: Broker, group_id: str, partition: Partition
) -> PartitionDelivery | None:
    """The account of delivery of a partition; None: unknown."""
    accounting = broker.events.accounting
    group = None if accounting is None else accounting.deliveries.groups.get(group_id)
    return None if group is None else group.partitions.get(partition)


def is_only_read(broker: Broker, group_id: str, partition: Partition, end: int) -> bool:
    """Returns whether a partition is read to its end without any commit.

    True, too, if the broker does not know what is read.
    """
    if broker.events.accounting is None:
        return True
    reading = reading_of(broker, group_id, partition)
    passage = None if reading is None else reading.passage
    return passage is not None and max(passage.position, passage.sent) >= end


def lag_of(broker: Broker, group_id: str, partition: Partition) -> Lag:
    """The records of one partition of `lag`; 0 if it does not exist."""
    name, index = partition
    topic = broker.cluster.topics.by_name.get(name)
    if topic is None or index >= len(topic.partitions):
        return Lag(0, 0, None)
    log = topic.partitions[index]
    offset = committed_offset(broker, group_id, partition)
    return _lag(broker, group_id, partition, log, offset)


def assignment(broker: Broker, group_id: str) -> dict[str, dict[str, list[int]]]:
    """Partitions by topic, by member.

    A member is named by its group.instance.id; without one by its client.id; by its
    member id where another member has the same name. It has no partitions until the
    group is Stable.
    """
    group = found(broker, group_id)
    if group is None:
        return {}
    members = members_of(group)
    times = Counter(map(_name, members))
    return {
        _name(member) if times[_name(member)] == 1 else member.member_id: (
            partitions_of(group, member)
        )
        for member in members
    }


def _name(member: AnyMember) -> str:
    return member.group_instance_id or member.client.id or member.member_id


def _by_topic(data: bytes) -> dict[str, list[int]]:
    """The partitions of an assignment by topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(assigned(data)):
        topics.setdefault(topic, []).append(partition)
    return topics
