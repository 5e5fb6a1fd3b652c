"""The brokers: kohort's cluster and its connections, in a process of the simulation."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from kohort.broker.clock import BrokerClock, Timer, ns
from kohort.broker.cluster.accounted import sources_of
from kohort.broker.cluster.cluster import Cluster, ClusterError, Node
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.events.seen import Seen
from kohort.broker.faults.connection import faulty_class
from kohort.broker.faults.plan import Faults
from kohort.broker.ids import Ids
from kohort.broker.log.partition import Partition
from kohort.broker.long_work import Pace, finish
from kohort.broker.request import Request
from kohort.broker.topics.topic import (
    INTERNAL_TOPICS,
    NO_NODE,
    OFFSETS_TOPIC,
    Topic,
)
from kohort.protocol.fields import Buffer
from kohort.simulation.world.costs import KEY_AT, REBALANCE_APIS, Costs
from kohort.simulation.world.network import PORT, Network
from kohort.simulation.world.records import Arrivals, FlowingPartition, FlushedPartition
from kohort.simulation.world.scheduler import Process, Scheduler

_ID_BITS: Final = 64
FLUSH_S: Final = 30.0
"""Linux writes pages to the disk that changed 30 s ago (vm.dirty_expire_centisecs).
``log.flush.interval.ms`` has no limit by default."""


class _Clock(BrokerClock):
    """The brokers' clock: that of their process."""

    def __init__(self, process: Process, costs: Costs) -> None:
        super().__init__(None, "manual", now=process.time())
        self.mode = "real"
        self._process = process
        self._costs = costs

    def now(self) -> float:
        """The virtual time."""
        return self._process.scheduler.now

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` at a time; what it takes is a cost of the coordinators."""
        handle: Timer = self._process.call_at(when, self._costs.timed, callback)
        return handle


class _Cluster(Cluster):
    """A cluster whose topics have records without bytes; internal ones have real ones.

    Attributes:
        rates: of topics that are created: records per second in each partition.
        costs: what the coordinators have cost.
    """

    def __init__(
        self, scheduler: Scheduler, costs: Costs, *args: Any, **kwargs: Any
    ) -> None:
        self._scheduler = scheduler
        self.costs = costs
        self._arriving = scheduler.random("records")
        self.rates: dict[str, float] = {}
        super().__init__(*args, **kwargs)

    def _make_partition(self, topic: Topic, index: int) -> Partition:
        if topic.name in INTERNAL_TOPICS:
            return FlushedPartition(f"{topic.name}-{index}")
        rate = self.rates.get(topic.name, 0.0)
        phase = self._arriving.random()
        arrivals = Arrivals(self._scheduler.now, rate, phase)
        return FlowingPartition(f"{topic.name}-{index}", arrivals, self._scheduler)


class _Connection(Connection):
    """A connection whose requests are costs of the coordinators."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Handles the requests that these bytes complete, and counts their cost."""
        if len(data) > KEY_AT and data[KEY_AT] in REBALANCE_APIS:
            costs = cast("_Cluster", self.node.cluster).costs
            costs.wire_bytes += len(data)
            costs.timed(super().data_received, data)
        else:
            Connection.data_received(self, data)

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends a response, and counts its bytes."""
        if request.api.key in REBALANCE_APIS:
            costs = cast("_Cluster", self.node.cluster).costs
            costs.wire_bytes += sum(map(len, parts))
        Connection.send(self, request, parts)


class Brokers:
    """A cluster in one process, with a host for each node.

    Args:
        scheduler: the time and the seed.
        network: the nodes listen there.
        config: Kafka's configuration keys and their values.
        nodes: the number of nodes.
        labels: labels of the run in its events.
        run: its id there; None: one by the seed.
        listener: called with each event, as it is published.

    Attributes:
        process: the process of all nodes.
        cluster: the cluster's state.
        events: the stream of events, with accounts.
        costs: what the coordinators have cost so far.
        faults: rules by which they misbehave; see `Faults`.

    Raises:
        ConfigError: an unknown key or an invalid value.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        config: Mapping[str, object],
        nodes: int,
        labels: Mapping[str, str],
        run: str | None = None,
        listener: Callable[[Seen], object] | None = None,
    ) -> None:
        random = scheduler.random("brokers")
        self.process = process = Process(scheduler, "brokers")
        self.costs = Costs()
        self.events = Events(labels, wall=lambda: ns(scheduler.now))
        own = uuid.UUID(int=random.getrandbits(128), version=4)
        self.events.begin(run or str(own))
        if listener is not None:
            self.events.listen(listener)
        self._connections: dict[int, set[Connection]] = {}
        self.faults = Faults(scheduler.random("faults").getrandbits(_ID_BITS))
        self._faulty_class = faulty_class(self.faults, _Connection)
        with process.running():
            self.cluster = _Cluster(
                scheduler,
                self.costs,
                Config(config),
                _Clock(process, self.costs),
                Ids(random.getrandbits(_ID_BITS)),
                nodes=nodes,
                events=self.events,
            )
            self.events.watch(sources_of(self.cluster), is_empty=True)
            self.events.hold_accounts()
            self.cluster.load_coordinators()
            self.faults.bind(self.cluster, self.events)
            self.faults.changed = self._faults_changed
            interval_ms = self.cluster.config["log.flush.interval.ms"]
            self._flush_s = FLUSH_S if interval_ms is None else interval_ms / 1000
            self._flush()
            for node in self.cluster.nodes.values():
                self._connections[node.id] = set()
                node.addresses = [(host_of(node.id), PORT)]
                network.listen(host_of(node.id), self._acceptor(node))
                self._open(node)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The address of each node."""
        return [f"{host_of(node_id)}:{PORT}" for node_id in self.cluster.nodes]

    def _acceptor(self, node: Node) -> Callable[[], tuple[Process, Connection] | None]:
        def accept() -> tuple[Process, Connection] | None:
            if not node.is_open:
                return None
            with self.process.running():
                connection = _Connection(node, self._connections[node.id])
                self._ask_for_faults(connection)
            return self.process, connection

        return accept

    def _ask_for_faults(self, connection: Connection) -> None:
        """Puts a connection under the rules, while there are any."""
        if self.faults.is_active:
            connection.__class__ = self._faulty_class

    def _faults_changed(self) -> None:
        for node_id in self._connections:
            for connection in self._in_order(node_id):
                self._ask_for_faults(connection)
                connection.faults_changed()

    def _open(self, node: Node) -> None:
        node.is_open = True
        self.events.of(node.id).tell("node_started", self.process.time())

    # -- topics

    def create_topic(self, name: str, partitions: int, rate: float) -> None:
        """Creates a topic on all nodes.

        Args:
            name: its name.
            partitions: the number of its partitions.
            rate: records per second in each of them.
        """
        with self.process.running():
            self.cluster.rates[name] = rate
            factor = len(self.cluster.nodes)
            self.cluster.create_topic(name, partitions, factor)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic, up to a number."""
        with self.process.running():
            topic = self.cluster.topics.by_name[name]
            finish(self.cluster.grow_topic(topic, partitions, None, Pace()))

    # -- nodes

    def stop(self, node_id: int) -> None:
        """Stops a node: its coordinators move to other nodes, its connections close."""
        with self.process.running():
            node = self._closed(node_id)
            self.cluster.node_stopped(node)
            for connection in self._in_order(node_id):
                connection.close()

    def crash(self, node_id: int, *, is_power_lost: bool = False) -> None:
        """Kills a node: its connections are reset, and no request is answered.

        Args:
            node_id: the node.
            is_power_lost: whether it loses what was not flushed. The records that
                another running node has are not lost.
        """
        with self.process.running():
            node = self._closed(node_id)
            for connection in self._in_order(node_id):
                connection.abort()
            self.process.call_soon(self._crashed, node, is_power_lost)

    def _crashed(self, node: Node, is_power_lost: bool) -> None:
        self.cluster.node_stopped(node)
        topic = self.cluster.topics.by_name.get(OFFSETS_TOPIC)
        if topic is None or not is_power_lost:
            return
        for partition, leader in zip(topic.partitions, topic.leaders, strict=True):
            if leader == NO_NODE and isinstance(partition, FlushedPartition):
                partition.lose_unflushed()

    def _flush(self) -> None:
        """Flushes the log of the groups, now and from time to time."""
        topic = self.cluster.topics.by_name.get(OFFSETS_TOPIC)
        for partition in () if topic is None else topic.partitions:
            partition.flush()
        self.process.call_later(self._flush_s, self._flush)

    def start(self, node_id: int) -> None:
        """Starts a node that was stopped, or has crashed.

        Raises:
            ClusterError: it runs.
        """
        with self.process.running():
            node = self.cluster.node(node_id)
            if node.is_running:
                raise ClusterError(f"node {node_id} is running already")
            self._open(node)
            self.cluster.node_started(node)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Makes a node the coordinator of a group; see `Cluster.move_coordinator`."""
        with self.process.running():
            self.cluster.move_coordinator(group_id, node_id)

    def _closed(self, node_id: int) -> Node:
        node = self.cluster.node(node_id)
        if not node.is_open:
            raise ClusterError(f"node {node_id} is stopped")
        node.is_open = False
        self.events.of(node_id).tell("node_stopped", self.process.time())
        return node

    def _in_order(self, node_id: int) -> list[Connection]:
        """The open connections of a node, in the order in which they were made."""
        return sorted(self._connections[node_id], key=lambda each: each.number)

    def close(self) -> None:
        """Publishes all accounts, as a broker does when it stops."""
        with self.process.running():
            self.cluster.shards.disconnections.stop()
            for node in self.cluster.nodes.values():
                if node.is_open:
                    self._closed(node.id)
            self.cluster.close()
            self.events.finish_accounts()
            self.events.release_accounts()


def host_of(node_id: int) -> str:
    """The host of a node."""
    return f"node-{node_id}"
