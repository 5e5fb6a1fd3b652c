"""The broker: listens, accepts, drains, stops. The only file that opens sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kohort.broker import telemetry
from kohort.broker.clock import Clock, RealClock
from kohort.broker.cluster.cluster import Cluster, ClusterError, Node
from kohort.broker.cluster.status import status
from kohort.broker.config import Config
from kohort.broker.config_started import address, started_with
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.events.lines import unheard, write_line
from kohort.broker.housekeeping import Housekeeper
from kohort.broker.ids import Ids, run_id
from kohort.broker.slow_connection import SlowConnection
from kohort.broker.topics.topic import EVENTS_TOPIC, Topic

if TYPE_CHECKING:
    from kohort.broker.cluster.events_topic import EventsTopic

BACKLOG = 1024
"""Connections that may wait to be accepted: 1,000 consumers start at once."""
DRAIN_SECONDS = 1.0
"""Time that clients have to read the answers that are on their way when the broker
stops. Requests that wait for something (joins, fetches) are not answered."""

log = telemetry.Logger("broker")


class Listener:
    """The port of one node.

    Args:
        node: the node that answers there.
        host: address to listen on.
        port: port to listen on; 0 for one that the system picks, the same one
            whenever the node is started again.
    """

    def __init__(self, node: Node, host: str, port: int) -> None:
        self.node = node
        self.host = host
        self.port = port
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def bind(self) -> None:
        """Takes the port; clients cannot connect yet.

        Raises:
            OSError: the address cannot be listened on.
        """
        # Two brokers on one port would share its connections without a word.
        self._server = await asyncio.get_running_loop().create_server(
            self._connection,
            self.host,
            self.port,
            backlog=BACKLOG,
            reuse_port=False,
            start_serving=False,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _connection(self) -> Connection:
        delay_ms = self.node.cluster.config["response.delay.ms"]
        if delay_ms:
            return SlowConnection(delay_ms / 1000, self.node, self.connections)
        return Connection(self.node, self.connections)

    async def serve(self) -> None:
        """Accepts connections.

        Raises:
            OSError: another process listens on the port.
        """
        assert self._server is not None
        self.node.is_open = True
        await self._server.start_serving()

    def close(self) -> None:
        """Accepts no more."""
        self.node.is_open = False
        if self._server is not None:
            loop = asyncio.get_running_loop()
            # Windows' loop has no readers.
            with contextlib.suppress(NotImplementedError):
                for listening in self._server.sockets:
                    loop.remove_reader(listening.fileno())
            # A socket accepted this moment still becomes a connection, which sees
            # that the node is not open; a closed server would drop it.
            loop.call_soon(self._server.close)

    async def drain(self) -> None:
        """Sends pending answers, and closes all connections."""
        open_ones = [connection.close() for connection in list(self.connections)]
        if open_ones:
            await asyncio.wait(open_ones, timeout=DRAIN_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None


class Broker:
    """A Kafka broker in this process, or a cluster of them.

        async with Broker({"group.max.size": 3}) as broker:
            consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)

    Args:
        config: Kafka's configuration keys and their values, or a `Config`.
        host: address to listen on.
        port: port to listen on; 0 for one that the system picks. The second node
            listens on the next one, and so on.
        advertise: "host:port" in responses to clients, if it differs from the
            address; a port of 0 stands for the one listened on. It is the first
            node's; the next port is the second node's, and so on.
        seed: makes ids repeatable; None for random ones.
        nodes: number of nodes. Their ids are ``node.id`` and the following ones.
        data_dir: folder for topics, groups and offsets, in Kafka's formats; None to
            keep them in memory.
        labels: labels of this run in its events: settings, a seed, anything.
        events_heartbeats: whether to publish an event for each heartbeat.

    Attributes:
        cluster: the cluster's state, once started.
        events: all events, as one stream; see `kohort.broker.events`.

    Raises:
        ConfigError: from the constructor; an unknown setting or an invalid value.
        ValueError: from the constructor; `nodes` is less than 1.
        DataDirError: from `start`; the folder cannot be used.
        OSError: from `start`; the address cannot be listened on.
    """

    def __init__(
        self,
        config: Config | Mapping[str, object] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str | None = None,
        seed: int | None = None,
        nodes: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        events_heartbeats: bool = False,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster of {nodes} nodes: there must be at least 1")
        self.config = config if isinstance(config, Config) else Config(config or {})
        self.events = Events(labels)
        self.events.heartbeats = events_heartbeats
        self.events.listen(write_line, unheard)
        self.host = host
        self.port = port
        self._advertise = advertise
        self._seed = seed
        self._node_count = nodes
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._listeners: dict[int, Listener] = {}
        # Stopping a node takes a moment; it must not be started meanwhile.
        self._changing_nodes = asyncio.Lock()
        self._clock: Clock
        self._housekeeper: Housekeeper | None = None
        self._events_topic: EventsTopic | None = None
        self.cluster: Cluster

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap.servers`` of clients: "host:port" of each node."""
        nodes = self.cluster.nodes.values()
        return ",".join(address(node.host, node.port) for node in nodes)

    @property
    def connections(self) -> set[Connection]:
        """The open connections, of all nodes."""
        return set().union(*(each.connections for each in self._listeners.values()))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; when it returns, clients can connect.

        Groups of a data directory are loaded meanwhile; requests about groups that are
        not loaded yet are answered COORDINATOR_LOAD_IN_PROGRESS.
        """
        for name, value, origin in self.config.unused:
            log.warning("key_has_no_effect_yet", key=name, value=value, origin=origin)
        self._clock = RealClock(asyncio.get_running_loop())
        self.events.begin(run_id())
        self.cluster = Cluster(
            self.config,
            self._clock,
            Ids(self._seed),
            data_dir=self._data_dir,
            nodes=self._node_count,
            events=self.events,
        )
        self.cluster.topic_created = self._topic_created
        try:
            for number, node in enumerate(self.cluster.nodes.values()):
                await self._bind(node, number)
            self.port = self._listeners[self.config["node.id"]].port
            self._open_events_topic()
            # All ports are known, and groups are loading, when clients connect.
            self.cluster.load_groups()
            for listener in self._listeners.values():
                await self._serve(listener)
        except BaseException:
            await self._stop_listening()
            await self._close_events_topic()
            self.cluster.close()
            raise
        self._housekeeper = Housekeeper(
            self.cluster, self._clock, lambda: self.connections
        )
        self._housekeeper.start()

    async def _serve(self, listener: Listener) -> None:
        await listener.serve()
        self._publish("node_started", listener.node)

    def _close(self, listener: Listener) -> None:
        was_open = listener.node.is_open
        listener.close()
        if was_open:
            self._publish("node_stopped", listener.node)

    def _publish(self, kind: str, node: Node) -> None:
        self.events.of(node.id).tell(kind, self._clock.now())

    def _open_events_topic(self) -> None:
        """Writes events to their topic from now on, if there is or shall be one."""
        topic = self.cluster.topics.by_name.get(EVENTS_TOPIC)
        if topic is not None:
            self._topic_created(topic)
        elif self.config["events.topic.enable"]:
            self.cluster.auto_create(EVENTS_TOPIC)

    def _topic_created(self, topic: Topic) -> None:
        if topic.name == EVENTS_TOPIC:
            from kohort.broker.cluster.events_topic import (
                EventsTopic,
            )

            if self._events_topic is not None:
                self._events_topic.leave()
            self._events_topic = EventsTopic(self.cluster, self.events, topic)
            self._events_topic.start()

    async def _close_events_topic(self) -> None:
        view, self._events_topic = self._events_topic, None
        if view is not None:
            await view.close()

    async def _bind(self, node: Node, number: int) -> None:
        before = self._listeners.get(node.id)
        if before is not None:
            port = before.port
        else:
            port = self.port + number if self.port else 0
        listener = self._listeners[node.id] = Listener(node, self.host, port)
        await listener.bind()
        node.host, node.port = self._advertised(listener.port, number)
        node.started_with = started_with(
            node.id,
            (self.host, listener.port),
            (node.host, node.port),
            self.cluster.log_dir,
        )

    def _advertised(self, port: int, number: int) -> tuple[str, int]:
        if self._advertise is None:
            # Clients cannot connect to "all addresses"; they get this machine's name.
            anywhere = self.host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared only
            return (socket.gethostname() if anywhere else self.host), port
        host, _, text = self._advertise.rpartition(":")
        return host.strip("[]"), int(text) + number if int(text) else port

    async def wait_until_loaded(self) -> None:
        """Waits until all groups are loaded."""
        loader = self.cluster.shards.loader
        if loader.is_busy:
            done = asyncio.Event()
            loader.idle.append(done.set)
            await done.wait()

    async def stop(self) -> None:
        """Stops accepting, sends pending answers, and closes all connections.

        No effect if the broker has not started, or has stopped.
        """
        housekeeper, self._housekeeper = self._housekeeper, None
        if housekeeper is None:
            return
        async with self._changing_nodes:
            housekeeper.stop()
            try:
                await self._stop_listening()
                await self._close_events_topic()
            finally:
                # Also when cancelled: this releases the data directory.
                self.cluster.close()

    async def _stop_listening(self) -> None:
        for listener in self._listeners.values():
            self._close(listener)
        await asyncio.gather(*(each.drain() for each in self._listeners.values()))

    # -- power over nodes

    async def stop_node(self, node_id: int) -> None:
        """Stops a node: closes its connections; other nodes become leaders.

        Raises:
            ClusterError: the node is unknown, or stopped.
        """
        async with self._changing_nodes:
            node = self.cluster.node(node_id)
            if not node.is_running:
                raise ClusterError(f"node {node_id} does not run")
            listener = self._listeners[node_id]
            self._close(listener)
            self.cluster.node_stopped(node)
            await listener.drain()

    async def start_node(self, node_id: int) -> None:
        """Starts a node that was stopped, on the port that it had.

        It becomes leader of leaderless partitions only.

        Raises:
            ClusterError: the node is unknown, or runs.
            OSError: another process has taken its port.
        """
        async with self._changing_nodes:
            node = self.cluster.node(node_id)
            if node.is_running:
                raise ClusterError(f"node {node_id} runs")
            listener = self._listeners[node_id]
            try:
                await listener.bind()
                await self._serve(listener)
            except BaseException:
                self._close(listener)
                raise
            self.cluster.node_started(node)

    def move_partition(self, topic: str, partition: int, node_id: int) -> None:
        """Makes a node the leader of a partition, and a replica if it is none yet.

        Raises:
            ClusterError: an unknown topic, partition or node, or a node that is not
                running.
        """
        self.cluster.move_partition(topic, partition, node_id)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Makes a node the coordinator of a group, and of all groups of its shard.

        Raises:
            ClusterError: the node is unknown, or stopped.
        """
        self.cluster.move_coordinator(group_id, node_id)

    def coordinator_of(self, group_id: str) -> int:
        """The node id of a group's coordinator; -1 if there is none."""
        return self.cluster.shards.for_group(group_id).node_id

    def status(self) -> dict[str, object]:
        """The nodes, topics and coordinators, as JSON."""
        return status(self.cluster)
