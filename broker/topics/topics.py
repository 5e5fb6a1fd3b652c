"""All topics of the cluster: created, entered, grown, configured, removed."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING

from kohort.broker import telemetry
from kohort.broker.config import Config
from kohort.broker.ids import Ids
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace
from kohort.broker.topics.settings import EVENTS_TOPIC_OVERRIDES, log_config
from kohort.broker.topics.topic import EVENTS_TOPIC, Topic, why_no_topic_name

if TYPE_CHECKING:
    from kohort.broker.log.partition import Partition

log = telemetry.Logger("topics")

MakePartition = Callable[[Topic, int], "Partition"]
"""Creates, or opens, the log of one partition of a topic."""

DropPartition = Callable[[Topic, int, "Partition"], None]
"""Deletes the log of one partition of a topic."""


class Topics:
    """All topics by name and by id, and the ids by name.

    Args:
        config: the broker's configuration.
        ids: the source of topic ids.
        make_partition: creates logs.
        cost: cost of creating or deleting one, as `Pace` counts.
        drop_partition: deletes the logs of partitions whose creation failed.
        changed: saves new and changed topics; None for deleted ones.
        configured: saves the broker's configuration that was changed at run time.

    Attributes:
        version: the number of topics that were created, deleted or grown so far.
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
        self.version = 0
        self._config = config
        self._ids = ids
        self._make_partition = make_partition
        self._drop_partition = drop_partition
        self._cost = cost
        self._changed = changed
        self._configured = configured
        # Reserved names of topics that are being created.
        self._being_made: set[str] = set()
        # Metric names do not distinguish "." and "_", so Kafka refuses a topic whose
        # name differs from another's only in these. Topics created together may
        # collide: each is compared only with existing ones.
        self._by_metric_name: dict[str, set[str]] = {}

    def why_illegal(self, name: str) -> str | None:
        """The reason why a new topic may not have this name; None if it may."""
        why = why_no_topic_name(name)
        if why is not None:
            return why
        for other in self._by_metric_name.get(_metric_name(name), ()):
            if other != name:
                return f"topic name {name!r} collides with {other!r}"
        return None

    def add(self, topic: Topic) -> None:
        """Adds a finished topic. The caller has checked its name."""
        self._apply(topic)
        self.version += 1
        self.by_name[topic.name] = self.by_id[topic.id] = topic
        self.ids[topic.name] = topic.id
        alike = self._by_metric_name.setdefault(_metric_name(topic.name), set())
        alike.add(topic.name)

    @property
    def count(self) -> int:
        """The number of topics, including those being created."""
        return len(self.by_name) + len(self._being_made)

    def make(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        overrides: dict[str, str] | None,
        pace: Pace,
    ) -> Generator[None, None, Topic]:
        """Creates the logs of a new topic. The caller has checked its name.

        The topic becomes visible, and gets its leaders, with `enter`.

        Args:
            name: its name.
            replicas: the replicas of each partition.
            overrides: the topic's own configuration.
            pace: when to yield.

        Raises:
            StorageError: the disk has no room for it, or it is being created already.
        """
        # Otherwise its files would be open twice.
        assert name not in self.by_name
        if name in self._being_made:
            raise StorageError(f"topic {name} is being created")
        own = overrides or {}
        if name == EVENTS_TOPIC:
            # The broker itself fills this topic, so it is bounded by default.
            own = EVENTS_TOPIC_OVERRIDES | own
        topic = Topic(name, self._ids.topic_id(), own)
        self._being_made.add(name)
        try:
            partitions = yield from self._partitions(topic, 0, len(replicas), pace)
        except BaseException:
            self._being_made.discard(name)
            raise
        topic.partitions += partitions
        topic.replicas += replicas
        return topic

    def enter(self, topics: Sequence[Topic]) -> None:
        """Saves new topics, in one write, and makes them visible.

        Raises:
            StorageError: the topics could not be saved; none of them is visible.
        """
        try:
            self._changed({topic.name: topic for topic in topics})
        except BaseException:
            # A restart would lose them, with acknowledged records.
            self.abandon(topics)
            raise
        for topic in topics:
            self._being_made.discard(topic.name)
            self.add(topic)

    def abandon(self, topics: Iterable[Topic]) -> None:
        """Deletes topics that were created but not entered."""
        for topic in topics:
            self._being_made.discard(topic.name)
            for index, partition in enumerate(topic.partitions):
                self._drop_partition(topic, index, partition)

    def _partitions(
        self, topic: Topic, first: int, count: int, pace: Pace
    ) -> Generator[None, None, list[Partition]]:
        """Creates logs, from the partition `first` on."""
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
        """Adds partitions to a topic, one for each list of replicas.

        Args:
            topic: the topic.
            replicas: the replicas of each new partition.
            elected: chooses the leader among the replicas of a new partition.
            pace: when to yield.

        Raises:
            StorageError: the disk has no room for them; none is added.
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
        self.version += 1
        self._apply(topic)

    def _shrink(self, topic: Topic, count: int) -> None:
        """Deletes partitions that are not visible yet, down to `count`."""
        dropped = topic.partitions[count:]
        del topic.partitions[count:], topic.replicas[count:], topic.leaders[count:]
        for index, partition in enumerate(dropped, count):
            self._drop_partition(topic, index, partition)

    def configure(self, topic: Topic, overrides: dict[str, str]) -> None:
        """Replaces the topic's own configuration."""
        topic.overrides = overrides
        self._apply(topic)
        self._changed({topic.name: topic})

    def reconfigure(self) -> None:
        """Applies a change of the broker's configuration to all topics."""
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
        """Settings of the logs of a topic with these overrides."""
        return log_config(self._config, overrides)

    def lead(self, topic: Topic, index: int, node_id: int) -> None:
        """Sets the leader of a partition; fetches that wait for its records end."""
        topic.leaders[index] = node_id
        partition = topic.partitions[index]
        try:
            partition.begin_epoch(partition.leader_epoch + 1)
        except StorageError as error:
            # Nothing is lost: the batches contain their epochs, too.
            log.warning("epoch_not_kept", partition=partition.name, reason=str(error))
        partition.wake()

    def remove(self, topics: Sequence[Topic]) -> None:
        """Removes topics; the caller deletes their logs.

        Raises:
            StorageError: the removal could not be saved; the topics stay.
        """
        self._changed({topic.name: None for topic in topics})
        for topic in topics:
            self.version += 1
            del self.by_name[topic.name], self.by_id[topic.id], self.ids[topic.name]
            metric_name = _metric_name(topic.name)
            self._by_metric_name[metric_name].discard(topic.name)
            if not self._by_metric_name[metric_name]:
                del self._by_metric_name[metric_name]


def _metric_name(name: str) -> str:
    return name.replace(".", "_")
