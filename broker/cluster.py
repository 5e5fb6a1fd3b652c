"""What the handlers work on: the cluster's state, and the node that was asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.broker import telemetry
from kohort.broker.clock import Clock
from kohort.broker.config import Config
from kohort.broker.controller import Controller
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.bus import Events
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.group_records import Encoder
from kohort.broker.ids import Ids
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import LongWork, Pace, finish
from kohort.broker.request_memory import RequestMemory
from kohort.broker.shards import NodeGroups, Shards
from kohort.broker.topics import (
    EVENTS_TOPIC,
    EVENTS_TOPIC_OVERRIDES,
    NOBODY,
    OFFSETS_TOPIC,
    Topic,
    Topics,
    offsets_topic_overrides,
    spread,
)
from kohort.broker.unread import Unread

if TYPE_CHECKING:
    from kohort.broker.api_counts import ApiCounters
    from kohort.broker.cluster_storage import ClusterStorage

log = telemetry.get_logger("cluster")

MINUTE_MS = 60_000
IN_MEMORY_COST = 10
"""Cost of making or deleting a partition in memory, as `Pace` counts."""
ON_DISK_COST = 300
"""The same with a data directory: a folder with four small files."""
SCANNED_GROUP_COST = 1
"""Cost of looking for deleted topics in the offsets of one group."""
PRODUCER_ID_BLOCK = 1000
"""Producer ids that are set aside at once: one write for so many producers, and
as many ids lost at a kill."""


class ClusterError(ValueError):
    """What was asked of the cluster cannot be done; one sentence that says why."""


class Cluster:
    """Everything that is the same on all nodes.

    Args:
        config: the broker's configuration.
        clock: the one clock.
        ids: the one source of ids.
        data_dir: where logs are kept; None for memory.
        nodes: how many nodes there are; the first is ``node.id``.
        events: where what happens is told.

    Attributes:
        id: the cluster's id, 22 characters.
        config: the broker's configuration.
        clock: the one clock.
        ids: the one source of ids.
        topics: the topics and their partitions.
        nodes: the nodes by id.
        topic_created: called with each topic that is created; None for nobody.
        shards: the partitions of ``__consumer_offsets`` and their coordinators.
        long_work: work of requests that takes more than one turn of the event loop.
        request_memory: memory that long requests take until they are handled.
        unread: bytes of answers that clients have not read yet.
        controller: makes changes of topics, one request after the other.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        ids: Ids,
        *,
        data_dir: Path | None = None,
        nodes: int = 1,
        events: Events,
    ) -> None:
        self.id = ids.cluster_id()
        self.config = config
        self.clock = clock
        self.ids = ids
        self._storage: ClusterStorage | None = None
        self._first_unused_producer_id = 0
        self._next_producer_id = 0
        self.topic_created: Callable[[Topic], object] | None = None
        self.long_work = LongWork()
        self.unread = Unread()
        self.request_memory = RequestMemory(
            config["queued.max.request.bytes"],
            config["socket.request.max.bytes"],
            clock,
        )
        self.controller = Controller(self.long_work)
        self._partition_cost = IN_MEMORY_COST if data_dir is None else ON_DISK_COST
        self.topics = Topics(
            config,
            ids,
            self._make_partition,
            self._drop_partition,
            self._partition_cost,
            self._topics_changed,
            self._config_changed,
        )
        self.shards = Shards(
            group_settings(config),
            clock,
            Encoder(self.topics.ids, codec=config["offsets.topic.compression.codec"]),
            ids.member_id,
            config["coordinator.load.delay.ms"],
            self._create_offsets_topic,
            events,
        )
        first = config["node.id"]
        self.nodes = {id_: Node(id_, self) for id_ in range(first, first + nodes)}
        if data_dir is not None:
            # In memory nothing of files is loaded: the start is to be quick.
            from kohort.broker.cluster_storage import ClusterStorage  # noqa: PLC0415

            self._storage = ClusterStorage.open(data_dir, self)
            self.id = self._storage.cluster_id

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self.clock.now() * 1000)

    # -- nodes

    @property
    def running(self) -> list[int]:
        """The ids of the nodes that run."""
        return [node.id for node in self.nodes.values() if node.is_running]

    @property
    def controller_id(self) -> int:
        """The node that is the controller: one that runs."""
        return min(self.running)

    def node(self, node_id: int) -> Node:
        """A node by its id.

        Raises:
            ClusterError: there is none.
        """
        if node_id not in self.nodes:
            there_are = ", ".join(map(str, self.nodes))
            raise ClusterError(f"there is no node {node_id}; there are {there_are}")
        return self.nodes[node_id]

    def node_started(self, node: Node) -> None:
        """A node takes requests: it leads what nobody leads, of what it may."""
        node.is_running = True
        node.fetch_sessions = self._fetch_sessions()
        changed = []
        for topic in self.topics.by_name.values():
            for index, leader in enumerate(topic.leaders):
                if leader == NOBODY and node.id in topic.replicas[index]:
                    self._lead(topic, index, node.id)
                    changed.append(topic)
        self._leaders_changed(changed)

    def node_stopped(self, node: Node) -> None:
        """A node takes no more requests: others lead what it led, if they may."""
        node.is_running = False
        changed = []
        for topic in self.topics.by_name.values():
            for index, leader in enumerate(topic.leaders):
                if leader == node.id:
                    elected = self._elected(topic.replicas[index])
                    self._lead(topic, index, elected, "stopped")
                    changed.append(topic)
        self._leaders_changed(changed)

    def _elected(self, replicas: Sequence[int]) -> int:
        for node_id in replicas:
            if node_id in self.nodes and self.nodes[node_id].is_running:
                return node_id
        return NOBODY

    def _lead(
        self, topic: Topic, index: int, node_id: int, cause: str = "moved"
    ) -> None:
        self.topics.lead(topic, index, node_id)
        if topic.name == OFFSETS_TOPIC:
            self.shards.lead(index, node_id, cause)

    def _fetch_sessions(self) -> FetchSessions:
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
        """Creates a topic at once; its name is legal and not taken.

        Args:
            name: its name.
            partitions: how many.
            replication_factor: replicas of each; not more than there are nodes.
            overrides: its own configuration.
            replicas: the replicas of each, in place of both numbers.

        Raises:
            StorageError: there is no room for it.
        """
        if replicas is None:
            replicas = self.spread_topic(partitions, replication_factor)
        topic = finish(self.make_topic(name, replicas, overrides, Pace()))
        self.enter_topics([topic])
        return topic

    def spread_topic(self, partitions: int, factor: int) -> list[list[int]]:
        """The replicas that the next topic gets: on each node as many."""
        return self._spread(partitions, factor, self.topics.count)

    def make_topic(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        overrides: dict[str, str] | None,
        pace: Pace,
    ) -> Generator[None, None, Topic]:
        """Makes a topic's logs; see `NewTopics`.

        Raises:
            StorageError: there is no room for them.
        """
        if name == EVENTS_TOPIC:
            # Whoever creates it: the broker fills it, and it shall have bounds.
            overrides = EVENTS_TOPIC_OVERRIDES | (overrides or {})
        return (yield from self.topics.make(name, replicas, overrides, pace))

    def enter_topics(self, topics: Sequence[Topic]) -> None:
        """Writes down that topics have been made; from now on they are there.

        Raises:
            StorageError: there is no room for that; none of them is there.
        """
        for topic in topics:
            # Not before: nodes may have stopped or started while it was made.
            topic.leaders[:] = map(self._elected, topic.replicas)
        self.topics.enter(topics)
        for topic in topics:
            if topic.name == OFFSETS_TOPIC:
                self.shards.attach(topic)
            if self.topic_created is not None:
                self.topic_created(topic)

    def grow_topic(
        self,
        topic: Topic,
        count: int,
        replicas: Sequence[Sequence[int]] | None = None,
        pace: Pace | None = None,
    ) -> Generator[None, None, None]:
        """Adds partitions to a topic, up to `count`; `replicas` are of those added.

        Raises:
            StorageError: there is no room for them.
        """
        first = len(topic.partitions)
        if replicas is None:
            of_first = topic.replicas[0]
            start = list(self.nodes).index(of_first[0]) + first
            replicas = self._spread(count - first, len(of_first), start)
        yield from self.topics.grow(topic, replicas, self._elected, pace or Pace())

    def _spread(self, count: int, factor: int, start: int) -> list[list[int]]:
        # Where none runs nobody leads, and all may later.
        running = self.running or list(self.nodes)
        stopped = self.nodes.keys() - set(running)
        return spread(count, factor, running, stopped, start)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic at once, and the offsets committed for it."""
        finish(self.delete_topics([self.topics.by_name[name]], Pace()))

    def delete_topics(
        self, topics: Sequence[Topic], pace: Pace
    ) -> Generator[None, None, None]:
        """Deletes topics, and the offsets that groups have committed for them.

        They are gone when the first piece is done. The other pieces are done also
        if the work is stopped.

        Raises:
            StorageError: they would be there again after a restart; they stay.
        """
        self.topics.remove(topics)
        names = [topic.name for topic in topics]
        if OFFSETS_TOPIC in names:
            self.shards.detach("deleted")
        rest = self._deletions(topics, names)
        try:
            for cost in rest:
                if pace.spend(cost):
                    yield
        finally:
            for _ in rest:
                pass

    def _deletions(self, topics: Sequence[Topic], names: list[str]) -> Iterator[int]:
        """Deletes the logs and offsets of topics that are gone; yields costs."""
        for shard in list(self.shards):
            shard.topics_deleted(names)
            yield SCANNED_GROUP_COST * (1 + shard.group_count)
        for topic in topics:
            for index, partition in enumerate(topic.partitions):
                self._drop_partition(topic, index, partition)
                yield self._partition_cost

    def auto_create(self, name: str) -> None:
        """Creates a topic at once, as one that a client has asked for."""
        count, factor, overrides = self.automatic(name)
        self.create_topic(name, count, factor, overrides)

    def automatic(self, name: str) -> tuple[int, int, dict[str, str] | None]:
        """Settings of a topic that a client's request creates, as in Kafka.

        Returns:
            Partitions, replicas of each, and the topic's own configuration.
        """
        config = self.config
        if name == OFFSETS_TOPIC:
            # Kafka waits until there are as many brokers; here there never may be.
            factor = min(config["offsets.topic.replication.factor"], len(self.nodes))
            count = config["offsets.topic.num.partitions"]
            return count, factor, offsets_topic_overrides(config)
        if name == EVENTS_TOPIC:
            # All in one partition: so they are read in the order of the stream.
            return 1, len(self.nodes), None
        factor = min(config["default.replication.factor"], len(self.nodes))
        return config["num.partitions"], factor, None

    def _create_offsets_topic(self) -> None:
        self.auto_create(OFFSETS_TOPIC)

    def _make_partition(self, topic: Topic, index: int) -> Partition:
        if self._storage is None:
            return Partition(f"{topic.name}-{index}")
        return self._storage.open_partition(topic, index, 0)

    def _drop_partition(self, topic: Topic, index: int, partition: Partition) -> None:
        if self._storage is None:
            partition.close()
            return
        try:
            self._storage.delete_partition(topic, index)
        except StorageError as error:
            # The topic is gone all the same; the next start tries again.
            log.warning(
                "files_not_deleted", partition=partition.name, reason=str(error)
            )

    # -- moving

    def move_partition(self, topic_name: str, index: int, node_id: int) -> None:
        """Makes a node lead a partition; it becomes a replica if it is none.

        Raises:
            ClusterError: there is no such topic, partition or node, or the node
                does not run.
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
            raise ClusterError(f"node {node_id} does not run")
        leader = topic.leaders[index]
        if leader == node_id:
            return
        replicas = list(topic.replicas[index])
        if node_id not in replicas:
            # It takes the place of the leader, or of whoever leads if all run.
            replicas[replicas.index(leader) if leader in replicas else 0] = node_id
            topic.replicas[index] = replicas
        self._lead(topic, index, node_id)
        self._leaders_changed([topic])

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Makes a node coordinate a group, and all groups of the same partition.

        Raises:
            ClusterError: as in `move_partition`.
        """
        index = self.shards.index_of(group_id)
        self.move_partition(OFFSETS_TOPIC, index, node_id)

    # -- producers

    def new_producer_id(self) -> int:
        """A producer id that nobody has had (KIP-98).

        Raises:
            StorageError: it could not be made sure that nobody gets it again.
        """
        given = self._next_producer_id
        if given == self._first_unused_producer_id:
            self._first_unused_producer_id = given + PRODUCER_ID_BLOCK
            try:
                if self._storage is not None:
                    self._storage.producer_ids_set_aside()
            except BaseException:
                self._first_unused_producer_id = given
                raise
        self._next_producer_id = given + 1
        return given

    # -- surviving restarts

    @property
    def first_unused_producer_id(self) -> int:
        """Producer ids from here on have never been given, nor set aside."""
        return self._first_unused_producer_id

    def restore(self, topics: Iterable[Topic], first_unused_producer_id: int) -> None:
        """Takes over what a data directory has, before anything else happens."""
        self._next_producer_id = first_unused_producer_id
        self._first_unused_producer_id = first_unused_producer_id
        for topic in topics:
            self.topics.add(topic)

    def _topics_changed(self, topics: Mapping[str, Topic | None]) -> None:
        if self._storage is not None:
            self._storage.topics_changed(topics)

    def _config_changed(self) -> None:
        if self._storage is not None:
            self._storage.config_changed()

    def _leaders_changed(self, topics: Iterable[Topic]) -> None:
        """Writes down the leaders; never fails, as a start elects anew anyway."""
        changed = {topic.name: topic for topic in topics}
        if changed:
            try:
                self._topics_changed(changed)
            except StorageError as error:
                log.warning("leaders_not_kept", reason=str(error))

    def load_groups(self) -> None:
        """Begins to load the groups that ``__consumer_offsets`` has."""
        topic = self.topics.by_name.get(OFFSETS_TOPIC)
        if topic is not None:
            self.shards.attach(topic)
        if self._storage is not None:
            try:
                self._storage.save()
            except StorageError as error:
                log.warning("leaders_not_kept", reason=str(error))

    def close(self) -> None:
        """No timer fires any more, and all is on the disk."""
        self.long_work.close()
        self.shards.detach("stopped")
        if self._storage is not None:
            self._storage.close()

    def flush(self) -> None:
        """Brings on the disk what has waited for that long enough (``flush.ms``)."""
        if self._storage is not None:
            self._storage.flush()

    def checkpoint(self) -> None:
        """Writes down up to where logs are on the disk.

        Raises:
            StorageError: that did not work.
        """
        if self._storage is not None:
            self._storage.checkpoint()

    # -- telling

    def status(self) -> dict[str, object]:
        """What there is, as JSON has it: nodes, topics, and coordinators."""
        led = [
            leader for topic in self.topics.by_name.values() for leader in topic.leaders
        ]
        return {
            "cluster_id": self.id,
            "nodes": [
                {
                    "id": node.id,
                    "host": node.host,
                    "port": node.port,
                    "running": node.is_running,
                    "partitions_led": led.count(node.id),
                    "groups": sum(s.group_count for s in self.shards.of_node(node.id)),
                }
                for node in self.nodes.values()
            ],
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition": index,
                            "replicas": list(topic.replicas[index]),
                            "leader": topic.leaders[index],
                            "leader_epoch": partition.leader_epoch,
                            "log_start_offset": partition.log_start_offset,
                            "log_end_offset": partition.log_end_offset,
                        }
                        for index, partition in enumerate(topic.partitions)
                    ],
                }
                for topic in self.topics.by_name.values()
            ],
            "coordinators": [
                {
                    "partition": shard.index,
                    "node": shard.node_id,
                    "state": shard.state,
                    "groups": shard.group_count,
                }
                for shard in self.shards
            ],
        }


class Node:
    """One broker of the cluster.

    Attributes:
        id: node id.
        host: host that clients are told to connect to.
        port: port that clients are told to connect to.
        cluster: what it shares with the others.
        is_running: whether it takes requests.
        is_open: whether it takes connections: not any more once it begins to stop.
        groups: the groups that it coordinates.
        fetch_sessions: the fetch sessions that it keeps (KIP-227).
        counters: what is counted of its requests; None where nobody wants to know.
    """

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self.id = node_id
        self.host = ""
        self.port = 0
        self.cluster = cluster
        self.is_running = True
        self.is_open = False
        self.groups = NodeGroups(node_id, cluster.shards)
        self.counters: ApiCounters | None = None
        self.fetch_sessions = FetchSessions(
            cluster.ids, cluster.config["max.incremental.fetch.session.cache.slots"]
        )


def group_settings(config: Config) -> GroupSettings:
    """The settings of the group coordinator, from Kafka's keys."""
    return GroupSettings(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
        offsets_retention_check_interval_ms=config[
            "offsets.retention.check.interval.ms"
        ],
    )
