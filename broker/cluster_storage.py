"""What of a cluster survives a restart: written to, and read from, a data directory."""

from __future__ import annotations

from pathlib import Path

from kohort.broker.cluster import Cluster
from kohort.broker.config import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigError,
)
from kohort.broker.log.directory import DataDir, DataDirError
from kohort.broker.log.metadata import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.topics import Topic, spread

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
        found = data_dir.metadata
        if found is not None:
            self._take_over(found)
        data_dir.put_aside_the_rest()

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

    def save(self) -> None:
        """Writes down what the cluster is, but for its logs.

        Raises:
            StorageError: what was written before stays.
        """
        cluster = self._cluster
        config = cluster.config
        self._data_dir.save(
            ClusterMetadata(
                {
                    topic.name: _saved(topic)
                    for topic in cluster.topics.by_name.values()
                },
                {
                    _ALL_BROKERS: _texts(config.dynamic(DYNAMIC_DEFAULT_BROKER_CONFIG)),
                    str(min(cluster.nodes)): _texts(
                        config.dynamic(DYNAMIC_BROKER_CONFIG)
                    ),
                },
                cluster.first_unused_producer_id,
            )
        )

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
        """Flushes everything, and unlocks the directory; errors are logged."""
        self._data_dir.close()


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
