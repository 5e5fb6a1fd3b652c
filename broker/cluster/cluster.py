"""The cluster: its nodes, topics and shards, and their saved state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kohort.broker import telemetry
from kohort.broker.clock import BrokerClock, Clock
from kohort.broker.cluster.controller import Controller
from kohort.broker.cluster.coordinator_settings import (
    group_settings,
    plays_first_use,
    transaction_settings,
)
from kohort.broker.cluster.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    TRANSACTION_VERSION,
    Features,
)
from kohort.broker.cluster.fetch_sessions import FetchSessions
from kohort.broker.cluster.leaders import Coordinated, Leaders
from kohort.broker.cluster.producer_ids import ProducerIds
from kohort.broker.cluster.quotas import Quotas
from kohort.broker.cluster.resource_configs import ResourceConfigs
from kohort.broker.cluster.scram import Scram
from kohort.broker.cluster.topics_image import ClusterTopics
from kohort.broker.config import Config
from kohort.broker.events.bus import Events
from kohort.broker.flow_control import Unread
from kohort.broker.ids import Ids
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import LongWork, Pace, finish
from kohort.broker.request_memory import RequestMemory
from kohort.broker.runtime.loader import Loader
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.shards.credit import Credit, Sender
from kohort.broker.shards.first_use import FirstUse
from kohort.broker.shards.group_shards import GroupShards
from kohort.broker.shards.transaction_shards import TransactionShards
from kohort.broker.topics.automatic import automatic
from kohort.broker.topics.placement import spread
from kohort.broker.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from kohort.broker.topics.topics import Topics
from kohort.protocol.kafka_versions import apis_of

if TYPE_CHECKING:
    from pathlib import Path

    from kohort.broker.api_counts import ApiCounters
    from kohort.broker.cluster.storage import ClusterStorage
    from kohort.broker.fetch_watch import FetchWatch
    from kohort.broker.log.ended_transactions import EndMarker
    from kohort.broker.log.metadata import ScramUsers
    from kohort.broker.log.partition import Partition
    from kohort.broker.shards.group_records import Encoder

log = telemetry.Logger("cluster")

IN_MEMORY_COST = 10
"""Cost of making or deleting a partition in memory, as `Pace` counts."""
ON_DISK_COST = 300
"""The same with a data directory: a folder with four small files."""
SCANNED_GROUP_COST = 1
"""Cost of looking for deleted topics in the offsets of one group."""


class ClusterError(ValueError):
    """The cluster cannot make a change; the message says why in one sentence."""


class OpenConnection(Sender, Protocol):
    """A client's connection."""

    def forget_repeated(self) -> None:
        """Has the next request handled anew, even if it equals the latest one."""


class Cluster:
    """The state that all nodes share.

    Args:
        config: the broker's configuration.
        clock: the broker's clock, which may stand still or be moved ahead.
        ids: the only source of ids.
        client_clock: for promises to clients' own clocks (`kohort.broker.clock`);
            None: the same clock.
        data_dir: the folder of the logs; None keeps them in memory.
        nodes: the number of nodes; the id of the first is ``node.id``.
        events: the stream of events.

    Attributes:
        id: the cluster's id, 22 characters.
        is_on_disk: whether the cluster has a data directory.
        log_dir: path of the data directory, or the one that Kafka would report.
        config: the broker's configuration.
        resource_configs: the configuration of groups and client metrics.
        clock: the broker's clock.
        client_clock: times the waits that clients measure on their own clocks.
        ids: the only source of ids.
        events: the stream of events.
        topics: the topics and their partitions.
        nodes: the nodes by id.
        topic_created: called with each topic that is created, if set.
        shards: the partitions of ``__consumer_offsets`` and their coordinators.
        transactions: the partitions of ``__transaction_state`` and their coordinators.
        loader: reads the logs of both.
        leaders: elects the leaders of partitions; `leaders_changed` saves them.
        long_work: runs the work of requests that takes several turns of the loop.
        request_memory: limits the memory of long requests.
        unread: the bytes of responses that clients have not read yet.
        first_times: what was logged once, per client or group.
        controller: changes topics, one request after the other.
        producer_ids: hands out producer ids.
        apis: the APIs that clients may use, by key (``api.versions``).
        features: the finalized levels of Kafka's features.
        quotas: the quotas of clients.
        scram: the SCRAM credentials of users.
        changes: number of changes to saved state; continues after a restart.
        connections: the number of connections that all nodes have accepted.
        open_connections: the open connections, by number.
        fetch_watch: notes the fetches of clients; None while no reader wants accounts.
    """

    def __init__(
        self,
        config: Config,
        clock: BrokerClock,
        ids: Ids,
        *,
        client_clock: Clock | None = None,
        data_dir: Path | None = None,
        nodes: int = 1,
        events: Events,
    ) -> None:
        self.id = ids.cluster_id()
        self.config = config
        self.resource_configs = ResourceConfigs(config, self._config_changed)
        self.clock = clock
        self.client_clock = clock if client_clock is None else client_clock
        self.ids = ids
        self.events = events
        self._storage: ClusterStorage | None = None
        self.changes = 0
        self.producer_ids = ProducerIds(self._save_producer_ids)
        version = config["api.versions"]
        self.apis = apis_of(version)
        self.features = Features(self._features_changed, version)
        self.quotas = Quotas(config, self.client_clock, self._quotas_changed)
        self.scram = Scram(self._scram_changed)
        self._allows_consumer_groups = (
            "consumer" in config["group.coordinator.rebalance.protocols"]
        )
        self.topic_created: Callable[[Topic], object] | None = None
        self.long_work = LongWork()
        self.unread = Unread()
        self.first_times = telemetry.FirstTimes()
        self.connections = 0
        self.open_connections: dict[int, OpenConnection] = {}
        self.fetch_watch: FetchWatch | None = None
        self.request_memory = RequestMemory(
            config["queued.max.request.bytes"],
            config["socket.request.max.bytes"],
            self.client_clock,
        )
        self.controller = Controller(self.long_work)
        self.is_on_disk = data_dir is not None
        self.log_dir = str(
            config["log.dir"][0] if data_dir is None else data_dir.absolute()
        )
        self._partition_cost = ON_DISK_COST if self.is_on_disk else IN_MEMORY_COST
        self.topics = Topics(
            config,
            ids,
            self._make_partition,
            self._drop_partition,
            self._partition_cost,
            self._topics_changed,
            self._config_changed,
        )
        runtime = Runtime(
            clock, Loader(clock), config["coordinator.load.delay.ms"], events
        )
        self.loader = runtime.loader
        is_first_use = plays_first_use(config)
        shards = FirstUse if is_first_use else GroupShards
        self.shards = shards(
            group_settings(config, self.resource_configs.of_groups),
            runtime,
            self._make_encoder,
            config["group.coordinator.append.linger.ms"],
            ids.member_id,
            partial(self.auto_create, OFFSETS_TOPIC),
            Credit(self.open_connections),
            ClusterTopics(self.topics),
        )
        self.transactions = TransactionShards(
            transaction_settings(config),
            runtime,
            partial(self.auto_create, TRANSACTIONS_TOPIC),
            self.producer_ids.new,
            partial(self.features.level, TRANSACTION_VERSION),
            self._write_marker,
            refuses_first=is_first_use,
        )
        self._coordinated: dict[str, Coordinated] = {
            OFFSETS_TOPIC: self.shards,
            TRANSACTIONS_TOPIC: self.transactions,
        }
        self.leaders = Leaders(self.topics, self._coordinated, self._is_running)
        first = config["node.id"]
        self.nodes = {id_: Node(id_, self) for id_ in range(first, first + nodes)}
        if data_dir is not None:
            self._restore(data_dir)
            self._configure_coordinators()
        self._require_min_insync_replicas()

    def _require_min_insync_replicas(self) -> None:
        """Sets min.insync.replicas for all brokers, as Kafka does for a new cluster."""
        if self.features.levels.get(ELIGIBLE_LEADER_REPLICAS):
            self.config.require_for_all_brokers("min.insync.replicas")

    def log_end(self, topic: str, partition: int, time_ns: int) -> int | None:
        """The end of a partition's log at a time of the broker's clock.

        None if it is unknown: the partition is gone or in files, or the clock stood
        still at that time while records were written.
        """
        found = self.topics.by_name.get(topic)
        if found is None or partition >= len(found.partitions):
            return None
        ends = found.partitions[partition].store.ends_at(time_ns // 1_000_000)
        if ends is None or (self.clock.mode == "manual" and ends[0] != ends[1]):
            return None
        return ends[1]

    @property
    def has_consumer_groups(self) -> bool:
        """True if groups of the consumer protocol are enabled (KIP-848)."""
        return self._allows_consumer_groups and self.features.level(GROUP_VERSION) > 0

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self.clock.now() * 1000)

    # -- nodes

    @property
    def running(self) -> list[int]:
        """The ids of the running nodes."""
        return [node.id for node in self.nodes.values() if node.is_running]

    @property
    def controller_id(self) -> int:
        """The id of the controller: the first running node."""
        return min(self.running)

    def node(self, node_id: int) -> Node:
        """Returns a node by its id.

        Raises:
            ClusterError: the id is unknown.
        """
        if node_id not in self.nodes:
            there_are = ", ".join(map(str, self.nodes))
            raise ClusterError(f"there is no node {node_id}; the nodes are {there_are}")
        return self.nodes[node_id]

    def node_started(self, node: Node) -> None:
        """Marks a node as running.

        It becomes leader of the leaderless partitions that it replicates.
        """
        node.is_running = True
        node.has_producer_ids = not plays_first_use(self.config)
        node.fetch_sessions = self.fetch_sessions()
        self.leaders_changed(self.leaders.node_started(node.id))

    def node_stopped(self, node: Node) -> None:
        """Marks a node as stopped; running replicas become leaders in its place."""
        node.is_running = False
        self.leaders_changed(self.leaders.node_stopped(node.id))

    def _is_running(self, node_id: int) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and node.is_running

    def fetch_sessions(self) -> FetchSessions:
        """New fetch sessions, for a node that starts."""
        slots = self.config["max.incremental.fetch.session.cache.slots"]
        return FetchSessions(self.ids, slots)

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = 1,
        overrides: dict[str, str] | None = None,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
    ) -> Topic:
        """Creates a topic at once. The caller has checked its name.

        Args:
            name: its name.
            partitions: the number of partitions.
            replication_factor: replicas per partition; at most the number of nodes.
            overrides: the topic's own configuration.
            replicas: the replicas of each partition, in place of both numbers.

        Raises:
            StorageError: the disk has no room for it.
        """
        if replicas is None:
            replicas = self.spread_topic(partitions, replication_factor)
        topic = finish(self.topics.make(name, replicas, overrides, Pace()))
        self.enter_topics([topic])
        return topic

    def spread_topic(self, partitions: int, factor: int) -> list[list[int]]:
        """Places the replicas of the next topic, evenly over the nodes."""
        return self._spread(partitions, factor, self.topics.count)

    def enter_topics(self, topics: Sequence[Topic]) -> None:
        """Saves topics that were made, and makes them visible.

        Raises:
            StorageError: the topics could not be saved; none of them is visible.
        """
        for topic in topics:
            # Only now: nodes may have stopped or started while it was made.
            topic.leaders[:] = map(self.leaders.elected, topic.replicas)
        self.topics.enter(topics)
        for topic in topics:
            coordinators = self._coordinated.get(topic.name)
            if coordinators is not None:
                coordinators.attach(topic)
            if self.topic_created is not None:
                self.topic_created(topic)
        self.shards.topics_changed([topic.name for topic in topics])

    def grow_topic(
        self,
        topic: Topic,
        count: int,
        replicas: Sequence[Sequence[int]] | None,
        pace: Pace,
    ) -> Generator[None, None, None]:
        """Adds partitions to a topic, up to `count`; `replicas` are of those added.

        Raises:
            StorageError: the disk has no room for them.
        """
        first = len(topic.partitions)
        if replicas is None:
            of_first = topic.replicas[0]
            start = list(self.nodes).index(of_first[0]) + first
            replicas = self._spread(count - first, len(of_first), start)
        yield from self.topics.grow(topic, replicas, self.leaders.elected, pace)
        self.shards.topics_changed([topic.name])

    def _spread(self, count: int, factor: int, start: int) -> list[list[int]]:
        # If no node runs, the partitions are leaderless until one starts.
        running = self.running or list(self.nodes)
        stopped = self.nodes.keys() - set(running)
        return spread(count, factor, running, stopped, start)

    def delete_topics(
        self, topics: Sequence[Topic], pace: Pace
    ) -> Generator[None, None, None]:
        """Deletes topics, and the offsets that groups have committed for them.

        The first piece removes the topics. The other pieces are done even if the
        work is stopped.

        Raises:
            StorageError: the deletion could not be saved; the topics stay.
        """
        self.topics.remove(topics)
        names = [topic.name for topic in topics]
        for name in self._coordinated.keys() & set(names):
            self._coordinated[name].detach("deleted")
        self.shards.topics_changed(names)
        rest = self._deletions(topics, names)
        try:
            for cost in rest:
                if pace.spend(cost):
                    yield
        finally:
            for _ in rest:
                pass

    def _deletions(self, topics: Sequence[Topic], names: list[str]) -> Iterator[int]:
        """Deletes the logs and offsets of removed topics; yields the costs."""
        for shard in list(self.shards):
            shard.topics_deleted(names)
            yield SCANNED_GROUP_COST * (1 + shard.group_count)
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                self._drop_partition(topic, index, partition)
                yield self._partition_cost

    def auto_create(self, name: str) -> None:
        """Creates a topic at once with the settings of automatic creation."""
        count, factor, overrides = self.automatic(name)
        self.create_topic(name, count, factor, overrides)

    def automatic(self, name: str) -> tuple[int, int, dict[str, str] | None]:
        """Returns the settings of a topic that is created automatically, as in Kafka.

        Returns:
            Number of partitions, replication factor, own configuration.
        """
        return automatic(self.config, name, len(self.nodes))

    def _make_encoder(self) -> Encoder:
        from kohort.broker.shards.group_records import Encoder

        codec = self.config["offsets.topic.compression.codec"]
        return Encoder(self.topics.ids, codec=codec)

    def _write_marker(
        self, end: EndMarker, topic: str, index: int, answer: Callable[[int], object]
    ) -> None:
        from kohort.broker.cluster.markers import write_marker

        write_marker(self, None, end, topic, index, answer)

    def _make_partition(self, topic: Topic, index: int) -> Partition:
        if self._storage is None:
            # Loaded with the first topic, so that brokers start sooner.
            from kohort.broker.log.partition import Partition

            return Partition(f"{topic.name}-{index}")
        return self._storage.open_partition(topic, index, 0)

    def _drop_partition(self, topic: Topic, index: int, partition: Partition) -> None:
        if self.fetch_watch is not None:
            self.fetch_watch.dropped(partition)
        if self._storage is None:
            partition.close()
            return
        try:
            self._storage.delete_partition(topic, index)
        except StorageError as error:
            # The topic is deleted anyway; the next start removes the files.
            log.warning(
                "files_not_deleted", partition=partition.name, reason=str(error)
            )

    # -- moving

    def move_partition(self, topic_name: str, index: int, node_id: int) -> None:
        """Makes a node the leader of a partition; it becomes a replica if necessary.

        Raises:
            ClusterError: the topic, partition or node is unknown, or the node is
                stopped.
        """
        topic = self.topics.by_name.get(topic_name)
        if topic is None:
            names = ", ".join(sorted(self.topics.by_name)) or "none"
            raise ClusterError(f"there is no topic {topic_name!r}; there are: {names}")
        if not 0 <= index < len(topic.partitions):
            last = len(topic.partitions) - 1
            raise ClusterError(
                f"topic {topic_name} has no partition {index}, only 0 to {last}"
            )
        if not self.node(node_id).is_running:
            raise ClusterError(f"node {node_id} is stopped")
        if topic.leaders[index] != node_id:
            self.leaders.move(topic, index, node_id)
            self.leaders_changed([topic])

    def allows_unclean_election(self, topic: Topic) -> bool:
        """Returns whether replicas that are not in sync may become leader."""
        values = self.config.topic(topic.overrides)
        return bool(values["unclean.leader.election.enable"])

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Makes a node the coordinator of a group, and of all groups of its shard.

        Raises:
            ClusterError: as in `move_partition`.
        """
        index = self.shards.index_of(group_id)
        self.move_partition(OFFSETS_TOPIC, index, node_id)

    def move_transaction_coordinator(self, transactional_id: str, node_id: int) -> None:
        """Makes a node the coordinator of a transactional id, and of its whole shard.

        Raises:
            ClusterError: as in `move_partition`.
        """
        index = self.transactions.index_of(transactional_id)
        self.move_partition(TRANSACTIONS_TOPIC, index, node_id)

    # -- surviving restarts

    def _restore(self, data_dir: Path) -> None:
        """Takes over the state of the data directory, if there is one."""
        # Loaded only with a data directory: a broker in memory starts faster.
        from kohort.broker.cluster.storage import ClusterStorage

        self._storage = ClusterStorage(
            data_dir,
            self.id,
            self.config,
            self.resource_configs,
            list(self.nodes),
            self.topics.by_name,
            self.features.levels,
            self.quotas.values,
            self.scram.users,
            self.now_ms,
            self.long_work,
        )
        restored = self._storage.restore()
        self.id = self._storage.cluster_id
        self.producer_ids.restore(restored.first_unused_producer_id)
        self.features.restore(restored.features)
        self.quotas.restore(restored.quotas)
        self.scram.restore(restored.scram)
        self.changes = restored.changes
        for topic in restored.topics:
            self.topics.add(topic)
        epochs = [p.leader_epoch for t in restored.topics for p in t.partitions]
        if epochs:
            # Each start begins a leader epoch, so its number is new.
            self.ids.go_on(max(epochs))

    def _features_changed(self) -> None:
        self._require_min_insync_replicas()
        for connection in self.open_connections.values():
            connection.forget_repeated()
        self.changes += 1
        if self._storage is not None:
            self._storage.features_changed()

    def _quotas_changed(self) -> None:
        self.changes += 1
        if self._storage is not None:
            self._storage.quotas_changed()

    def _scram_changed(self, users: ScramUsers) -> None:
        self.changes += 1
        if self._storage is not None:
            self._storage.scram_changed(users)

    def _save_producer_ids(self, first_unused: int) -> None:
        self.changes += 1
        if self._storage is not None:
            self._storage.save_producer_ids(first_unused)

    def _topics_changed(self, topics: Mapping[str, Topic | None]) -> None:
        self.changes += 1
        if self._storage is not None:
            self._storage.topics_changed(topics)

    def _configure_coordinators(self) -> None:
        """Passes on the broker's configuration, which may have changed at run time."""
        of_groups = self.resource_configs.of_groups
        self.shards.configure(group_settings(self.config, of_groups))

    def _config_changed(self) -> None:
        self._configure_coordinators()
        self.changes += 1
        if self._storage is not None:
            self._storage.config_changed()

    def leaders_changed(self, topics: Iterable[Topic]) -> None:
        """Saves leaders and replicas; errors are logged, as a start elects anew."""
        changed = {topic.name: topic for topic in topics}
        if changed:
            try:
                self._topics_changed(changed)
            except StorageError as error:
                log.warning("leaders_not_kept", reason=str(error))

    def load_coordinators(self) -> None:
        """Starts loading the groups, and then the transactions, from their topics."""
        for name, coordinators in self._coordinated.items():
            topic = self.topics.by_name.get(name)
            if topic is not None:
                coordinators.attach(topic)
        if self._storage is not None:
            try:
                self._storage.save()
            except StorageError as error:
                log.warning("leaders_not_kept", reason=str(error))

    def close(self) -> None:
        """Stops all timers and flushes everything to the disk."""
        self.long_work.close()
        for coordinators in self._coordinated.values():
            coordinators.detach("stopped")
        if self._storage is not None:
            self._storage.close()

    def flush(self) -> None:
        """Flushes the logs whose ``flush.ms`` has passed."""
        if self._storage is not None:
            self._storage.flush()

    def checkpoint(self) -> None:
        """Writes the recovery points of the logs.

        Raises:
            StorageError: they could not be written.
        """
        if self._storage is not None:
            self._storage.checkpoint()


class Node:
    """One broker of the cluster.

    Attributes:
        id: node id.
        addresses: its advertised host and port on each listener; the first is that of
            ``--port``.
        cluster: the state that it shares with the other nodes.
        is_running: whether it handles requests.
        is_open: whether it accepts connections; False once it begins to stop.
        submit_group_event: hands an event to the coordinator of its group; refuses it
            if the coordinator is on another node.
        submit_transaction_event: the same for the coordinator of a transactional id.
        commit_refused: publishes that offsets were refused before they reached a
            coordinator.
        note_member: notes the connection of a member, by its SyncGroup or the heartbeat
            of a consumer group.
        connection_closed: publishes that the connection of members is closed.
        fetch_sessions: its fetch sessions (KIP-227).
        has_producer_ids: whether it hands out producer ids. A node of Kafka has none
            at the first InitProducerId; see `plays_first_use`.
        counters: counters of its requests; None if they are not counted.
        started_with: configuration set at the start that is in no file.
    """

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self.id = node_id
        self.addresses = [("", 0)]
        self.cluster = cluster
        self.is_running = True
        self.is_open = False
        self.submit_group_event = partial(cluster.shards.submit, node_id)
        self.submit_transaction_event = partial(cluster.transactions.submit, node_id)
        self.commit_refused = partial(cluster.shards.commit_refused, node_id)
        self.note_member = cluster.shards.disconnections.heard
        self.connection_closed = cluster.shards.connection_closed
        self.counters: ApiCounters | None = None
        self.started_with: Mapping[str, str] = {}
        self.fetch_sessions = cluster.fetch_sessions()
        self.has_producer_ids = not plays_first_use(cluster.config)

    @property
    def host(self) -> str:
        """The advertised host on the first listener."""
        return self.addresses[0][0]

    @property
    def port(self) -> int:
        """The advertised port on the first listener."""
        return self.addresses[0][1]
