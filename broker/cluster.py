"""What the handlers work on: the cluster's state, and the node that was asked."""

from __future__ import annotations

from kohort.broker.clock import Clock
from kohort.broker.config import Config
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import Append
from kohort.broker.coordinator.events import TopicsDeleted
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.driver import GroupDriver
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.ids import Ids
from kohort.broker.topics import Topics

MINUTE_MS = 60_000


class Cluster:
    """Everything that is the same on all nodes.

    Attributes:
        id: the cluster's id, 22 characters.
        config: the broker's configuration.
        clock: the one clock.
        ids: the one source of ids.
        topics: the topics and their partitions.
        nodes: the nodes by id.
    """

    def __init__(self, config: Config, clock: Clock, ids: Ids) -> None:
        self.id = ids.cluster_id()
        self.config = config
        self.clock = clock
        self.ids = ids
        self.topics = Topics(config, ids)
        self.nodes: dict[int, Node] = {}
        self._next_producer_id = 0

    def new_producer_id(self) -> int:
        """A producer id that nobody has had (KIP-98)."""
        given = self._next_producer_id
        self._next_producer_id += 1
        return given

    @property
    def controller_id(self) -> int:
        """The node that is the controller."""
        return min(self.nodes)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self.clock.now() * 1000)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, and the offsets that groups have committed for it."""
        self.topics.delete(name)
        for node in self.nodes.values():
            node.groups.submit(TopicsDeleted((name,)))


class Node:
    """One broker of the cluster.

    Attributes:
        id: node id.
        host: host that clients are told to connect to.
        port: port that clients are told to connect to.
        cluster: what it shares with the others.
        groups: the groups that it coordinates.
        fetch_sessions: the fetch sessions that it keeps (KIP-227).
    """

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self.id = node_id
        self.host = ""
        self.port = 0
        self.cluster = cluster
        coordinator = Coordinator(group_settings(cluster.config), cluster.ids.member_id)
        self.groups = GroupDriver(coordinator, cluster.clock, _keep_in_memory)
        self.fetch_sessions = FetchSessions(
            cluster.ids, cluster.config["max.incremental.fetch.session.cache.slots"]
        )
        cluster.nodes[node_id] = self


def _keep_in_memory(_: Append) -> None:
    """Groups live as long as the process: the coordinator itself keeps them."""


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
