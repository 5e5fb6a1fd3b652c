"""The topics of the cluster, their partitions, and who leads them.

A partition has one log, which all its replicas share: they are never behind one
another. So a replica is a node that may lead, and those that run are in sync.
"""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)

from kohort.broker import telemetry
from kohort.broker.config import Config
from kohort.broker.ids import Ids
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import LogConfig
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace
from kohort.protocol.errors import ErrorCode

NOBODY = -1
"""The leader of a partition none of whose replicas runs."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Where groups and their offsets are kept."""

EVENTS_TOPIC = "__kohort_events"
"""What happens to groups, as records: see `kohort.broker.events.views.topic`."""

SMALLEST_SEGMENT = 1024 * 1024
"""Bytes: the least that ``segment.bytes`` of a topic may be."""

INTERNAL_TOPICS = frozenset(
    {OFFSETS_TOPIC, EVENTS_TOPIC, "__transaction_state", "__share_group_state"}
)
"""Topics that are Kafka's own, or kohort's, and that clients may not write to."""

log = telemetry.get_logger("topics")

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}").fullmatch


def why_no_topic_name(name: str) -> str | None:
    """What is wrong with a name of a topic; None if nothing is."""
    if name in {".", ".."} or not _LEGAL_NAME(name):
        return (
            f"topic name {name[:260]!r} is illegal: 1 to 249 of a-z, A-Z, 0-9, "
            '".", "_" and "-", and neither "." nor ".."'
        )
    return None


class Topic:
    """A topic.

    Attributes:
        name: its name.
        id: the 16 bytes of its id (KIP-516).
        partitions: its partitions by index.
        replicas: the nodes that may lead each partition, the preferred one first.
        leaders: the node that leads each partition, or `NOBODY`.
        overrides: the topic's own configuration, as texts by key.
        min_insync_replicas: replicas that have to run for a Produce with acks=all.
    """

    __slots__ = (
        "id",
        "leaders",
        "min_insync_replicas",
        "name",
        "overrides",
        "partitions",
        "replicas",
    )

    def __init__(self, name: str, topic_id: bytes, overrides: dict[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.replicas: list[Sequence[int]] = []
        self.leaders: list[int] = []
        self.overrides = overrides
        self.min_insync_replicas = 1

    @property
    def is_internal(self) -> bool:
        """Whether the topic is Kafka's own, or kohort's."""
        return self.name in INTERNAL_TOPICS

    def led_by(
        self, node_id: int, index: int, leader_epoch: int = -1
    ) -> Partition | ErrorCode:
        """A partition, if the node leads it, and the client knows of that.

        Args:
            node_id: who was asked.
            index: which partition.
            leader_epoch: the epoch that the client knows (KIP-320); -1 for none.

        Returns:
            UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or
            NOT_LEADER_OR_FOLLOWER in place of the partition.
        """
        if not 0 <= index < len(self.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self.partitions[index]
        if self.leaders[index] != node_id:
            if node_id in self.replicas[index]:
                error = partition.epochs.check(leader_epoch)
                return error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition.epochs.check(leader_epoch) or partition

    def readable_at(
        self, node_id: int, index: int, leader_epoch: int
    ) -> Partition | ErrorCode:
        """As `led_by`, but a follower will do, too (KIP-392)."""
        if (
            0 <= index < len(self.partitions)
            and self.leaders[index] != NOBODY
            and node_id in self.replicas[index]
        ):
            partition = self.partitions[index]
            return partition.epochs.check(leader_epoch) or partition
        return self.led_by(node_id, index, leader_epoch)


MakePartition = Callable[[Topic, int], Partition]
"""Makes, or opens, the log of one partition of a topic."""

DropPartition = Callable[[Topic, int, Partition], None]
"""Deletes the log of one partition of a topic."""


class Topics:
    """All topics, by name and by id, and the ids by name.

    Args:
        config: the broker's configuration.
        ids: where topic ids come from.
        make_partition: makes logs.
        cost: cost of making or deleting one, as `Pace` counts.
        drop_partition: deletes logs of partitions that are not to be after all.
        changed: writes down topics that are new, or have changed; None for those
            that are deleted.
        configured: writes down that the broker's configuration has changed.
    """

    def __init__(
        self,
        config: Config,
        ids: Ids,
        make_partition: MakePartition,
        drop_partition: DropPartition,
        cost: int,
        changed: Callable[[Mapping[str, Topic | None]], None],
        configured: Callable[[], None],
    ) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.ids: dict[str, bytes] = {}
        self._config = config
        self._ids = ids
        self._make_partition = make_partition
        self._drop_partition = drop_partition
        self._cost = cost
        self._changed = changed
        self._configured = configured
        # Names of topics whose logs are being made: no other topic may have them.
        self._being_made: set[str] = set()
        # Metric names do not tell "." from "_", so Kafka refuses a topic whose
        # name is another's but for these.
        self._by_metric_name: dict[str, str] = {}

    def why_illegal(self, name: str) -> str | None:
        """What is wrong with a name for a new topic; None if nothing is."""
        why = why_no_topic_name(name)
        if why is not None:
            return why
        other = self._by_metric_name.get(_metric_name(name))
        if other is not None and other != name:
            return f"topic name {name!r} collides with {other!r}"
        return None

    def add(self, topic: Topic) -> None:
        """Adds a topic as it is; its name is legal and not taken."""
        self._apply(topic)
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        self.ids[topic.name] = topic.id
        self._by_metric_name[_metric_name(topic.name)] = topic.name

    @property
    def count(self) -> int:
        """How many topics there are, or will be in a moment."""
        return len(self.by_name) + len(self._being_made)

    def make(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        overrides: dict[str, str] | None,
        pace: Pace,
    ) -> Generator[None, None, Topic]:
        """Makes the logs of a new topic; its name is legal and not taken.

        The topic is visible only after `enter`; until then it has no leaders.

        Args:
            name: its name.
            replicas: the replicas of each partition.
            overrides: the topic's own configuration.
            pace: when to yield.

        Raises:
            StorageError: there is no room for it, or it is being made already.
        """
        # Its files would be opened twice, and the first ones go on being written.
        assert name not in self.by_name  # noqa: S101 - ours: callers check it
        if name in self._being_made:
            raise StorageError(f"topic {name} is being created")
        topic = Topic(name, self._ids.topic_id(), overrides or {})
        self._reserve(topic)
        try:
            partitions = yield from self._partitions(topic, 0, len(replicas), pace)
        except BaseException:
            self._release(topic)
            raise
        topic.partitions += partitions
        topic.replicas += replicas
        return topic

    def enter(self, topics: Sequence[Topic]) -> None:
        """Writes down that topics have been made, all in one; now they are there.

        Raises:
            StorageError: there is no room for that; none of them is there.
        """
        try:
            self._changed({topic.name: topic for topic in topics})
        except BaseException:
            # Records would be acknowledged, and then lost.
            self.abandon(topics)
            raise
        for topic in topics:
            self._being_made.discard(topic.name)
            self.add(topic)

    def abandon(self, topics: Iterable[Topic]) -> None:
        """Deletes topics that have been made, and are not to be there after all."""
        for topic in topics:
            self._release(topic)
            for index, partition in enumerate(topic.partitions):
                self._drop_partition(topic, index, partition)

    def _reserve(self, topic: Topic) -> None:
        self._being_made.add(topic.name)
        self._by_metric_name[_metric_name(topic.name)] = topic.name

    def _release(self, topic: Topic) -> None:
        self._being_made.discard(topic.name)
        del self._by_metric_name[_metric_name(topic.name)]

    def _partitions(
        self, topic: Topic, first: int, count: int, pace: Pace
    ) -> Generator[None, None, list[Partition]]:
        """Makes logs, from the partition `first` on."""
        made: list[Partition] = []
        try:
            for index in range(first, first + count):
                made.append(self._make_partition(topic, index))
                if pace.spend(self._cost):
                    yield
        except BaseException:
            for index, partition in enumerate(made, first):
                self._drop_partition(topic, index, partition)
            raise
        return made

    def grow(
        self,
        topic: Topic,
        replicas: Sequence[Sequence[int]],
        elected: Callable[[Sequence[int]], int],
        pace: Pace,
    ) -> Generator[None, None, None]:
        """Adds partitions to a topic: as many as there are lists of replicas.

        Args:
            topic: the topic.
            replicas: the replicas of each new partition.
            elected: the leader among the replicas of a partition, once it is made.
            pace: when to yield.

        Raises:
            StorageError: there is no room for them; there are as many as before.
        """
        count = len(topic.partitions)
        partitions = yield from self._partitions(topic, count, len(replicas), pace)
        topic.partitions += partitions
        topic.replicas += replicas
        topic.leaders += map(elected, replicas)
        try:
            self._changed({topic.name: topic})
        except BaseException:
            self._shrink(topic, count)
            raise
        self._apply(topic)

    def _shrink(self, topic: Topic, count: int) -> None:
        """Takes partitions back that nobody has heard of; `count` are left."""
        dropped = topic.partitions[count:]
        del topic.partitions[count:], topic.replicas[count:], topic.leaders[count:]
        for index, partition in enumerate(dropped, count):
            self._drop_partition(topic, index, partition)

    def configure(self, topic: Topic, overrides: dict[str, str]) -> None:
        """Gives a topic this configuration; what it does not name is the broker's."""
        topic.overrides = overrides
        self._apply(topic)
        self._changed({topic.name: topic})

    def reconfigure(self) -> None:
        """Takes over what has changed in the broker's configuration."""
        for topic in self.by_name.values():
            self._apply(topic)
        self._configured()

    def _apply(self, topic: Topic) -> None:
        config = self.log_config(topic.overrides)
        for partition in topic.partitions:
            partition.config = config
        values = self._config.topic(topic.overrides)
        topic.min_insync_replicas = values["min.insync.replicas"]

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """What the log of a topic with this configuration goes by."""
        return log_config(self._config, overrides)

    def lead(self, topic: Topic, index: int, node_id: int) -> None:
        """Gives a partition another leader; whoever waits for its records is told."""
        topic.leaders[index] = node_id
        partition = topic.partitions[index]
        try:
            partition.begin_epoch(partition.leader_epoch + 1)
        except StorageError as error:
            # Nothing is lost by it: the batches have their epochs, too.
            log.warning("epoch_not_kept", partition=partition.name, reason=str(error))
        partition.wake()

    def remove(self, topics: Sequence[Topic]) -> None:
        """Takes topics out; their logs are left to the caller.

        Raises:
            StorageError: they would be there again after a restart; they stay.
        """
        self._changed({topic.name: None for topic in topics})
        for topic in topics:
            del self.by_name[topic.name], self.by_id[topic.id], self.ids[topic.name]
            del self._by_metric_name[_metric_name(topic.name)]


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


def log_config(config: Config, overrides: Mapping[str, str]) -> LogConfig:
    """What the log of a topic with this configuration goes by."""
    values = config.topic(overrides)
    return LogConfig(
        message_timestamp_type=values["message.timestamp.type"],
        max_message_bytes=values["max.message.bytes"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        cleanup_policy=",".join(values["cleanup.policy"]),
        message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        delete_retention_ms=values["delete.retention.ms"],
    )


def offsets_topic_overrides(config: Config) -> dict[str, str]:
    """The configuration of ``__consumer_offsets`` that is its own."""
    return {
        "cleanup.policy": "compact",
        # Kafka lets a broker start with less, and has no topic then.
        "segment.bytes": str(
            max(config["offsets.topic.segment.bytes"], SMALLEST_SEGMENT)
        ),
    }


EVENTS_TOPIC_OVERRIDES = {
    "cleanup.policy": "delete",
    # In memory nothing else bounds it; some 250,000 events.
    "retention.bytes": str(128 * 1024 * 1024),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""The configuration of `EVENTS_TOPIC`, but for what somebody creates it with."""


def spread(
    count: int,
    replication_factor: int,
    running: Sequence[int],
    stopped: Collection[int],
    start: int,
) -> list[list[int]]:
    """Replicas of `count` partitions, so that each node leads as many as any other.

    Args:
        count: how many partitions.
        replication_factor: replicas of each; as many nodes as that there are.
        running: nodes that run, in order.
        stopped: nodes that do not: they only come in where others do not suffice.
        start: which of the nodes leads the first one.
    """
    placed = []
    for i in range(start, start + count):
        turn = i % len(running)
        # As Kafka does: followers shift by one with each round of leaders, so that
        # a node's partitions do not all fall to the same other node.
        others = [*running[turn + 1 :], *running[:turn]]
        shift = (i // len(running)) % len(others) if others else 0
        others = [*others[shift:], *others[:shift], *sorted(stopped)]
        placed.append([running[turn], *others[: replication_factor - 1]])
    return placed
