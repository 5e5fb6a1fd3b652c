"""What of a cluster survives a restart: written to, and read from, a data directory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from kohort.broker import telemetry
from kohort.broker.cluster import Cluster
from kohort.broker.config import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigError,
)
from kohort.broker.log.directory import DataDir, DataDirError
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import finish
from kohort.broker.topics import Topic, spread

log = telemetry.get_logger("cluster")

_ALL_BROKERS = ""
"""Stands for all brokers where configuration is saved by broker."""


class ClusterStorage:
    """The data directory of a cluster.

    Args:
        data_dir: the directory, which is locked.
        cluster: whose it is.

    Raises:
        DataDirError: what is there cannot be used.
        ConfigError: configuration that was changed is not possible any more;
            `open` makes it a `DataDirError`.
        StorageError: files cannot be read or written.
    """

    def __init__(self, data_dir: DataDir, cluster: Cluster) -> None:
        self._data_dir = data_dir
        self._cluster = cluster
        self._is_rewriting = False
        found = data_dir.metadata
        if found is not None:
            self._take_over(found)
        data_dir.put_aside_the_rest()
        # It is read once.
        data_dir.journal.found = None

    def _take_over(self, found: ClusterMetadata) -> None:
        for name, values in found.configs.items():
            is_common = name == _ALL_BROKERS
            self._cluster.config.alter(
                values,
                source=DYNAMIC_DEFAULT_BROKER_CONFIG
                if is_common
                else DYNAMIC_BROKER_CONFIG,
            )
        self._cluster.restore(
            [
                self._topic(name, saved, number)
                for number, (name, saved) in enumerate(found.topics.items())
            ],
            found.next_producer_id,
        )
        epochs = [
            partition.leader_epoch
            for topic in self._cluster.topics.by_name.values()
            for partition in topic.partitions
        ]
        if epochs:
            # Each start begins an epoch; without a topic no id is in use.
            self._cluster.ids.go_on(max(epochs))

    @classmethod
    def open(cls, path: Path, cluster: Cluster) -> ClusterStorage:
        """Locks the directory, and has the cluster take over what is there.

        Raises:
            As the constructor, and `DataDir.open`.
        """
        first = min(cluster.nodes)
        data_dir = DataDir.open(path, cluster.id, first)
        try:
            return cls(data_dir, cluster)
        except ConfigError as error:
            data_dir.close()
            why = (
                f"configuration that was changed while it ran is not possible: {error}"
            )
            raise DataDirError(f"{path}: {why}") from None
        except BaseException:
            data_dir.close()
            raise

    @property
    def cluster_id(self) -> str:
        """The id of the cluster: that of the directory, if it is not new."""
        return self._data_dir.cluster_id

    def _topic(self, name: str, saved: TopicMetadata, number: int) -> Topic:
        topic = Topic(name, saved.id, dict(saved.overrides))
        try:
            self._cluster.topics.log_config(topic.overrides)
        except ValueError as error:
            raise ConfigError(f"topic {name}: {error}") from None
        nodes = self._cluster.nodes
        for index, partition in enumerate(saved.partitions):
            replicas = [id_ for id_ in partition.replicas if id_ in nodes]
            if not replicas:
                # There were more nodes before.
                (replicas,) = spread(1, 1, list(nodes), (), number + index)
            # A start is an election, as in Kafka: each begins an epoch.
            topic.partitions.append(
                self.open_partition(topic, index, partition.epoch + 1)
            )
            topic.replicas.append(replicas)
            is_kept = partition.leader in replicas
            topic.leaders.append(partition.leader if is_kept else replicas[0])
        return topic

    def open_partition(self, topic: Topic, index: int, leader_epoch: int) -> Partition:
        """Opens the log of a partition, or makes it.

        Raises:
            DataDirError: acknowledged records may be lost.
            StorageError: files cannot be read or written.
        """
        cluster = self._cluster
        return self._data_dir.open_partition(
            topic.name,
            index,
            topic.id,
            cluster.topics.log_config(topic.overrides),
            leader_epoch,
            now_ms=cluster.now_ms(),
        )

    def delete_partition(self, topic: Topic, index: int) -> None:
        """Deletes the log of a partition; whoever waits for its records is told.

        Raises:
            StorageError: its files cannot be deleted.
        """
        self._data_dir.delete_partition(topic.name, index)

    def topics_changed(self, topics: Mapping[str, Topic | None]) -> None:
        """Writes down topics that are new, or have changed; None for deleted ones.

        Raises:
            StorageError: it is as if nothing had changed.
        """
        self._append(
            ClusterChange(
                {
                    name: None if topic is None else _saved(topic)
                    for name, topic in topics.items()
                }
            )
        )

    def config_changed(self) -> None:
        """Writes down configuration that was changed while the broker runs.

        Raises:
            StorageError: a start finds the configuration of before.
        """
        self._append(ClusterChange({}, configs=self._configs()))

    def producer_ids_set_aside(self) -> None:
        """Writes down the producer ids that may not be given again.

        Raises:
            StorageError: a start would give them again.
        """
        first = self._cluster.first_unused_producer_id
        self._append(ClusterChange({}, next_producer_id=first))

    def _append(self, change: ClusterChange) -> None:
        self._data_dir.write_change(change)
        if self._data_dir.journal.is_outgrown and not self._is_rewriting:
            self._is_rewriting = True
            self._cluster.long_work.start(self._rewrite_soon(), _not_rewritten)

    def _rewrite_soon(self) -> Generator[None, None, None]:
        try:
            # The change comes first: only then does the cluster have its topics, and
            # cluster.json without them would say that it has the change.
            yield
            yield from self._rewrite()
        finally:
            self._is_rewriting = False

    def _rewrite(self) -> Generator[None, None, None]:
        try:
            yield from self._everything()
        except StorageError as error:
            _not_rewritten(error)

    def _everything(self) -> Generator[None, None, None]:
        return self._data_dir.journal.rewrite(
            self._topics(), self._configs(), self._cluster.first_unused_producer_id
        )

    def _topics(self) -> Iterator[tuple[str, TopicMetadata]]:
        """The topics that there are now, each as it is when its turn comes."""
        by_name = self._cluster.topics.by_name
        for name in list(by_name):
            topic = by_name.get(name)
            if topic is not None:
                yield name, _saved(topic)

    def _configs(self) -> dict[str, dict[str, str]]:
        config, node_id = self._cluster.config, min(self._cluster.nodes)
        return {
            _ALL_BROKERS: _texts(config.dynamic(DYNAMIC_DEFAULT_BROKER_CONFIG)),
            str(node_id): _texts(config.dynamic(DYNAMIC_BROKER_CONFIG)),
        }

    def save(self) -> None:
        """Writes down the state of the cluster, except its logs, all at once.

        Raises:
            StorageError: the state written before stays.
        """
        finish(self._everything())

    def checkpoint(self) -> None:
        """Writes down up to where logs are on the disk: a crash leaves less to check.

        Raises:
            StorageError: checkpoints cannot be written.
        """
        self._data_dir.checkpoint()

    def flush(self) -> None:
        """Flushes what ``flush.ms`` says; errors are logged."""
        self._data_dir.flush(self._cluster.now_ms())

    def close(self) -> None:
        """Writes down everything, and unlocks the directory; errors are logged."""
        if self._data_dir.journal.has_changes:
            finish(self._rewrite())
        self._data_dir.close()


def _not_rewritten(error: Exception) -> None:
    # cluster.log has all changes: it grows for a while, and a start reads it.
    log.warning("cluster_json_not_written", reason=str(error))


def _saved(topic: Topic) -> TopicMetadata:
    return TopicMetadata(
        topic.id,
        topic.overrides,
        [
            PartitionMetadata(list(replicas), leader, partition.leader_epoch)
            for replicas, leader, partition in zip(
                topic.replicas, topic.leaders, topic.partitions, strict=True
            )
        ],
    )


def _texts(values: dict[str, str | None]) -> dict[str, str]:
    """Without passwords: their values are not shown, and not written down."""
    return {name: text for name, text in values.items() if text is not None}
