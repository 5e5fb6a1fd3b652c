"""Saves the cluster's state to the data directory and restores it.

1. `ClusterStorage` locks the directory.
2. `restore` applies the configuration that was changed at run time, and opens the logs.
   It returns the saved topics and the first unused producer id, which the cluster takes
   over.
3. From then on each change is one line of ``cluster.log``; when that file has grown
   long, ``cluster.json`` is rewritten between requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path

from kohort.broker import telemetry
from kohort.broker.cluster.resource_configs import ResourceConfigs
from kohort.broker.config import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    Config,
    ConfigError,
)
from kohort.broker.log.directory import DataDir
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    PartitionMetadata,
    QuotaValues,
    ScramUsers,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.long_work import LongWork, finish
from kohort.broker.topics.placement import spread
from kohort.broker.topics.settings import log_config
from kohort.broker.topics.topic import NO_REASSIGNMENT, Topic
from kohort.protocol.slotted import slotted

log = telemetry.Logger("cluster")

_ALL_BROKERS = ""
"""Key of the configuration of all brokers, where configuration is saved by broker."""


@slotted
class Restored:
    """The saved state of a data directory, with its logs open."""

    topics: Sequence[Topic]
    first_unused_producer_id: int
    features: Mapping[str, int]
    quotas: QuotaValues
    scram: ScramUsers
    changes: int


class ClusterStorage:
    """The data directory of a cluster.

    Args:
        path: the directory; created if it does not exist.
        cluster_id: the id of the cluster if the directory is new.
        config: the broker's configuration.
        resource_configs: the configuration of groups and client metrics.
        node_ids: the ids of the nodes, the first one first.
        by_name: the cluster's own mapping of topics, which changes, as do the next two.
        features: the finalized levels of features.
        quotas: the quotas of clients.
        scram: the SCRAM credentials of users.
        now_ms: the clock, in ms since the epoch.
        long_work: runs the rewriting of ``cluster.json``.

    Raises:
        DataDirError: the directory cannot be used.
    """

    def __init__(
        self,
        path: Path,
        cluster_id: str,
        config: Config,
        resource_configs: ResourceConfigs,
        node_ids: Sequence[int],
        by_name: Mapping[str, Topic],
        features: Mapping[str, int],
        quotas: QuotaValues,
        scram: ScramUsers,
        now_ms: Callable[[], int],
        long_work: LongWork,
    ) -> None:
        self._data_dir = DataDir.open(path, cluster_id, node_ids[0])
        self._config = config
        self._resource_configs = resource_configs
        self._node_ids = node_ids
        self._now_ms = now_ms
        self._long_work = long_work
        self._is_rewriting = False
        self._by_name = by_name
        self._features = features
        self._quotas = quotas
        self._scram = scram
        self._first_unused_producer_id = 0

    def restore(self) -> Restored:
        """Restores the saved state; unlocks the directory if that fails.

        Raises:
            DataDirError: acknowledged records may be lost, or configuration that was
                changed at run time is now invalid.
            StorageError: files cannot be read or written.
        """
        try:
            return self._restored()
        except ConfigError as error:
            self._data_dir.close()
            why = (
                f"configuration that was changed while it ran is not possible: {error}"
            )
            raise DataDirError(f"{self._data_dir.path}: {why}") from None
        except BaseException:
            self._data_dir.close()
            raise

    def _restored(self) -> Restored:
        found = self._data_dir.metadata or ClusterMetadata({}, {}, 0)
        for name, values in found.configs.items():
            if self._resource_configs.restore(name, values):
                continue
            is_common = name == _ALL_BROKERS
            self._config.restore(
                values,
                DYNAMIC_DEFAULT_BROKER_CONFIG if is_common else DYNAMIC_BROKER_CONFIG,
            )
        topics = [
            self._topic(name, saved, number)
            for number, (name, saved) in enumerate(found.topics.items())
        ]
        self._first_unused_producer_id = found.next_producer_id
        self._data_dir.put_aside_the_rest()
        # Needed once only: frees the memory.
        self._data_dir.journal.found = None
        return Restored(
            topics,
            found.next_producer_id,
            found.features,
            found.quotas,
            found.scram,
            self._data_dir.journal.number,
        )

    @property
    def cluster_id(self) -> str:
        """The id of the cluster: that of the directory, unless it is new."""
        return self._data_dir.cluster_id

    def _topic(self, name: str, saved: TopicMetadata, number: int) -> Topic:
        topic = Topic(name, saved.id, dict(saved.overrides))
        try:
            log_config(self._config, topic.overrides)
        except ValueError as error:
            raise ConfigError(f"topic {name}: {error}") from None
        for index, partition in enumerate(saved.partitions):
            there = [id_ for id_ in partition.replicas if id_ in self._node_ids]
            # All nodes run now, so reassignments are complete.
            replicas = [id_ for id_ in there if id_ not in partition.removing] or there
            if not replicas:
                # The cluster had more nodes before.
                (replicas,) = spread(1, 1, self._node_ids, (), number + index)
            # As in Kafka, a start is an election, so each begins a leader epoch.
            topic.partitions.append(
                self.open_partition(topic, index, partition.epoch + 1)
            )
            topic.replicas.append(replicas)
            is_kept = partition.leader in replicas
            topic.leaders.append(partition.leader if is_kept else replicas[0])
        return topic

    def open_partition(self, topic: Topic, index: int, leader_epoch: int) -> Partition:
        """Opens the log of a partition, or creates it.

        Raises:
            DataDirError: acknowledged records may be lost.
            StorageError: files cannot be read or written.
        """
        return self._data_dir.open_partition(
            topic.name,
            index,
            topic.id,
            log_config(self._config, topic.overrides),
            leader_epoch,
            now_ms=self._now_ms(),
        )

    def delete_partition(self, topic: Topic, index: int) -> None:
        """Deletes the log of a partition; fetches that wait for its records end.

        Raises:
            StorageError: its files cannot be deleted.
        """
        self._data_dir.delete_partition(topic.name, index)

    def topics_changed(self, topics: Mapping[str, Topic | None]) -> None:
        """Saves new and changed topics; None stands for a deleted one.

        Raises:
            StorageError: nothing was saved.
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
        """Saves configuration that was changed at run time.

        Raises:
            StorageError: the next start finds the previous configuration.
        """
        self._append(ClusterChange({}, configs=self._configs()))

    def features_changed(self) -> None:
        """Saves the finalized levels of features.

        Raises:
            StorageError: the next start finds the previous levels.
        """
        self._append(ClusterChange({}, features=self._features))

    def quotas_changed(self) -> None:
        """Saves the quotas of clients.

        Raises:
            StorageError: the next start finds the previous quotas.
        """
        self._append(ClusterChange({}, quotas=self._quotas))

    def scram_changed(self, users: ScramUsers) -> None:
        """Saves all credentials of users that have changed.

        Raises:
            StorageError: nothing was saved.
        """
        self._append(ClusterChange({}, scram=users))

    def save_producer_ids(self, first_unused: int) -> None:
        """Saves the first producer id that is not reserved.

        Raises:
            StorageError: a restart would hand out ids again.
        """
        self._append(ClusterChange({}, next_producer_id=first_unused))
        self._first_unused_producer_id = first_unused

    def _append(self, change: ClusterChange) -> None:
        self._data_dir.write_change(change)
        if self._data_dir.journal.is_outgrown and not self._is_rewriting:
            self._is_rewriting = True
            self._long_work.start(self._rewrite_soon(), _not_rewritten)

    def _rewrite_soon(self) -> Generator[None, None, None]:
        try:
            # The change first: the cluster has its topics only then, and a cluster.json
            # without them would claim to contain the change.
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
        rest = ClusterChange(
            {},
            self._configs(),
            self._first_unused_producer_id,
            self._features,
            self._quotas,
            self._scram,
        )
        return self._data_dir.journal.rewrite(self._topics(), rest)

    def _topics(self) -> Iterator[tuple[str, TopicMetadata]]:
        """Yields the topics, each in its state at the moment of saving."""
        for name in list(self._by_name):
            topic = self._by_name.get(name)
            if topic is not None:
                yield name, _saved(topic)

    def _configs(self) -> dict[str, dict[str, str]]:
        common = self._config.dynamic(DYNAMIC_DEFAULT_BROKER_CONFIG)
        own = self._config.dynamic(DYNAMIC_BROKER_CONFIG)
        return {
            _ALL_BROKERS: _texts(common),
            str(self._node_ids[0]): _texts(own),
            **{name: dict(of) for name, of in self._resource_configs.saved()},
        }

    def save(self) -> None:
        """Saves the state of the cluster, except its logs, all at once.

        Raises:
            StorageError: the previous saved state stays.
        """
        finish(self._everything())

    def checkpoint(self) -> None:
        """Saves how far logs are on the disk: a start after a crash checks less.

        Raises:
            StorageError: checkpoints cannot be written.
        """
        self._data_dir.checkpoint()

    def flush(self) -> None:
        """Flushes logs whose ``flush.ms`` has passed; errors are logged."""
        self._data_dir.flush(self._now_ms())

    def close(self) -> None:
        """Saves all state and unlocks the directory; errors are logged."""
        if self._data_dir.journal.has_changes:
            finish(self._rewrite())
        self._data_dir.close()


def _not_rewritten(error: Exception) -> None:
    # No harm: cluster.log has all changes. It grows, and the next start reads it.
    log.warning("cluster_json_not_written", reason=str(error))


def _saved(topic: Topic) -> TopicMetadata:
    return TopicMetadata(
        topic.id,
        topic.overrides,
        [
            PartitionMetadata(
                list(topic.replicas[index]),
                topic.leaders[index],
                partition.leader_epoch,
                topic.reassignments.get(index, NO_REASSIGNMENT).removing,
            )
            for index, partition in enumerate(topic.partitions)
        ],
    )


def _texts(values: dict[str, str | None]) -> dict[str, str]:
    """Drops passwords, whose values are neither shown nor saved."""
    return {name: text for name, text in values.items() if text is not None}
