"""The broker: listens, accepts, drains, stops. The only module that opens sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, get_args

from kohort.broker import telemetry, transports
from kohort.broker.clock import BrokerClock, Mode, RealClock, ns
from kohort.broker.cluster.accounted import sources_of
from kohort.broker.cluster.cluster import Cluster, ClusterError, Node
from kohort.broker.cluster.status import status
from kohort.broker.config import Config, ConfigError
from kohort.broker.config_started import (
    MAX_PORT,
    address,
    parse_address,
    started_with,
)
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.events.lines import unheard, write_line
from kohort.broker.housekeeping import Housekeeper
from kohort.broker.ids import Ids, run_id
from kohort.broker.long_work import finish
from kohort.broker.topics.topic import EVENTS_TOPIC, Topic

if TYPE_CHECKING:
    from pathlib import Path

    from kohort.broker.cluster.events_topic import EventsTopic
    from kohort.broker.faults.plan import Faults
    from kohort.broker.faults.requests import Requests
    from kohort.broker.thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")

BACKLOG = 1024
"""Connections that may wait to be accepted: 1,000 consumers may start at once."""
DRAIN_SECONDS = 1.0
"""Seconds that clients have to read pending responses when the broker stops. Requests
that wait for something (joins, fetches) are not answered."""

log = telemetry.Logger("broker")


def _advertised(text: str) -> tuple[str, int]:
    """The host and port of `advertise`.

    Raises:
        ConfigError: it is something else.
    """
    try:
        return parse_address(text)
    except ConfigError as error:
        raise ConfigError(f"advertise={error}") from None


def _path(folder: str | os.PathLike[str] | None) -> Path | None:
    if folder is None:
        return None
    from pathlib import Path

    return Path(folder)


class Listener:
    """The ports of one node.

    Args:
        node: the node that answers there.
        host: address to listen on.
        ports: ports to listen on, those of ``--port`` first; 0 lets the system pick
            one, which the node keeps when it is started again.
        opened: called with each new connection.
    """

    def __init__(
        self,
        node: Node,
        host: str,
        ports: Sequence[int],
        opened: Callable[[Connection], object] = id,
    ) -> None:
        self.node = node
        self._opened = opened
        self.host = host
        self.ports = [*ports]
        self.connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []

    async def bind(self) -> None:
        """Takes the ports; clients cannot connect yet.

        Raises:
            OSError: an address is not available: `filename`.
        """
        # Those of a start that was given up are closed.
        self._servers = []
        for number, port in enumerate(self.ports):
            try:
                # With `reuse_port` two brokers would silently share connections.
                server = await asyncio.get_running_loop().create_server(
                    partial(self._connection, number),
                    self.host,
                    port,
                    backlog=BACKLOG,
                    reuse_port=False,
                    start_serving=False,
                )
            except OSError as error:
                error.filename = address(self.host, port)
                raise
            self._servers.append(server)
            for listening in server.sockets:
                transports.send_unpaced(listening)
            self.ports[number] = server.sockets[0].getsockname()[1]

    def _connection(self, number: int) -> Connection:
        connection = Connection(self.node, self.connections, number)
        self._opened(connection)
        return connection

    async def serve(self) -> None:
        """Accepts connections.

        Raises:
            OSError: another process listens on the port.
        """
        self.node.is_open = True
        for server in self._servers:
            await server.start_serving()

    def close(self) -> None:
        """Stops accepting."""
        self.node.is_open = False
        loop = asyncio.get_running_loop()
        for server in self._servers:
            # Windows' loop has no readers.
            with contextlib.suppress(NotImplementedError):
                for listening in server.sockets:
                    loop.remove_reader(listening.fileno())
            # A socket accepted at this moment still becomes a connection, which sees
            # that the node is not open; a closed server would drop it.
            loop.call_soon(server.close)

    async def drain(self) -> None:
        """Sends pending responses, and closes all connections."""
        open_ones = [connection.close() for connection in list(self.connections)]
        if open_ones:
            await asyncio.wait(open_ones, timeout=DRAIN_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        while self._servers:
            await self._servers.pop().wait_closed()


class Broker:
    """A Kafka broker in this process, or a cluster of them.

        async with Broker({"group.max.size": 3}) as broker:
            consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)

    In blocking code it runs in a separate thread, with its own event loop. `call` and
    `run` are then the way to its other methods:

        with Broker(nodes=2) as broker:
            consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
            broker.run(broker.stop_node(2))

    The defaults are Kafka's; those of the pytest fixture, and of `kohort.Kohort()`, are
    without an initial rebalance delay and with sessions as short as clients like.

    Args:
        config: Kafka's configuration keys and their values, or a `Config`.
        host: address to listen on.
        port: port of the first node; further nodes use the following ports. 0 picks
            free ports.
        advertise: "host:port" in responses to clients, if it differs from the address;
            a port of 0 stands for the one listened on. It applies to the first node;
            further nodes use the following ports.
        listeners: further ports to listen on, each with its own `advertise`, for
            example for clients in containers; further nodes use the following ports.
        seed: makes ids repeatable; None for random ones.
        nodes: number of nodes. Their ids are ``node.id`` and the following ones.
        data_dir: folder for topics, groups and offsets, in Kafka's formats; None keeps
            them in memory.
        labels: labels of this run in its events: settings, a seed, anything.
        events_heartbeats: whether to publish an event for each heartbeat.
        clock: "real": time flows; "manual": it stands still until it is moved.
        watch_fetches: whether to keep the account of delivery from the start
            (`kohort.broker.events.delivery`), also while no reader wants accounts.

    Attributes:
        cluster: the cluster's state, once started.
        clock: the time of groups and retention, once started; see `BrokerClock`.
        events: all events, as one stream; see `kohort.broker.events`.
        at_stop: called when the broker begins to stop.

    Raises:
        ConfigError: from the constructor: an unknown setting or an invalid value.
        ValueError: from the constructor: `nodes` is less than 1, or `clock` unknown.
        DataDirError: from `start`: the folder cannot be used.
        OSError: from `start`: the address is not available.
    """

    def __init__(
        self,
        config: Config | Mapping[str, object] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str | None = None,
        listeners: Mapping[int, str] | None = None,
        seed: int | None = None,
        nodes: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        events_heartbeats: bool = False,
        clock: Mode = "real",
        watch_fetches: bool = False,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster of {nodes} nodes: there must be at least 1")
        last = port + nodes - 1
        if not 0 <= port <= MAX_PORT or last > MAX_PORT:
            # uvloop would take the lowest 16 bits.
            raise ConfigError(f"port={port}: ports are 0 to {MAX_PORT}, for all nodes")
        if clock not in get_args(Mode):
            raise ValueError(f"clock={clock!r}: must be 'real' or 'manual'")
        self.config = config if isinstance(config, Config) else Config(config or {})
        self.events = Events(labels)
        self.events.heartbeats = events_heartbeats
        self.events.listen(write_line, unheard)
        self._faults: Faults | None = None
        self._faulty_class: type[Connection] | None = None
        self.host = host
        self.port = port
        self._advertise = [None if advertise is None else _advertised(advertise)]
        self._advertise += [_advertised(text) for text in (listeners or {}).values()]
        self._further_ports = [*(listeners or {})]
        self._seed = seed
        self._replacements = 0
        self._node_count = nodes
        self._data_dir = data_dir
        self._listeners: dict[int, Listener] = {}
        # Stopping a node takes a moment, during which it must not be started.
        self._changing_nodes = asyncio.Lock()
        self._thread: LoopThread | None = None
        self._clock_mode = clock
        self._watches_fetches = watch_fetches
        self.clock: BrokerClock
        self._stopped_at: float | None = None
        self._housekeeper: Housekeeper | None = None
        self.at_stop: list[Callable[[], object]] = []
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

    @property
    def faults(self) -> Faults:
        """Rules for errors, delays and disconnects; see `Faults`."""
        if self._faults is None:
            # Loaded on first use, so that brokers start sooner.
            from kohort.broker.faults.plan import Faults

            self._faults = Faults(self._seed or 0)
            self._faults.changed = self._faults_changed
            if hasattr(self, "cluster"):
                self._faults.bind(self.cluster, self.events)
        return self._faults

    @property
    def requests(self) -> Requests:
        """The recorder of requests, off by default; see `Requests`."""
        return self.faults.requests

    @property
    def is_running(self) -> bool:
        """True if it has started and not begun to stop."""
        return self._housekeeper is not None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, traceback: object
    ) -> None:
        await self.stop()
        if kind is None and self._faults is not None:
            self._faults.raise_errors()

    def __enter__(self) -> Self:
        """Starts in a separate thread; when it returns, clients can connect."""
        if self._thread is not None or self.is_running:
            raise RuntimeError("this broker is running already")
        from kohort.broker.thread import LoopThread

        thread = LoopThread(self)
        thread.start()
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: object
    ) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        thread.stop()
        if kind is None:
            thread.raise_faults()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function in the thread of a ``with`` block; returns its result.

            broker.call(broker.move_partition, "orders", 0, 2)

        Raises:
            StoppedError: the broker is in no ``with`` block.
        """
        return self._own_thread().call(function, *args, **kwargs)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread of a ``with`` block; returns its result.

            broker.run(broker.stop_node(2))

        Raises:
            StoppedError: the broker is in no ``with`` block.
        """
        try:
            thread = self._own_thread()
        except RuntimeError:
            work.close()
            raise
        return thread.submit(work).result()

    @property
    def thread(self) -> LoopThread | None:
        """The thread of a ``with`` block; None outside of one."""
        return self._thread

    def _own_thread(self) -> LoopThread:
        if self._thread is None:
            from kohort.broker.thread import StoppedError

            raise StoppedError("the broker runs in no `with` block")
        return self._thread

    async def start(self) -> None:
        """Starts to listen; when it returns, clients can connect.

        Groups of a data directory are loaded in the background; meanwhile requests for
        them are answered COORDINATOR_LOAD_IN_PROGRESS.
        """
        for name, value, origin in self.config.unused:
            log.warning("key_has_no_effect_yet", key=name, value=value, origin=origin)
        loop = asyncio.get_running_loop()
        self.clock = BrokerClock(
            loop,
            self._clock_mode,
            now=self._stopped_at,
            credit=self._credit,
            work=self._work,
            moved=self._clock_moved,
        )
        self.events.begin(run_id())
        ids = Ids(self._seed)
        if self._replacements:
            ids.go_on(self._replacements)
        self.cluster = Cluster(
            self.config,
            self.clock,
            ids,
            client_clock=RealClock(loop),
            data_dir=_path(self._data_dir),
            nodes=self._node_count,
            events=self.events,
        )
        if self._faults is not None or self.config["response.delay.ms"]:
            self.faults.bind(self.cluster, self.events)
        self.cluster.topic_created = self._topic_created
        self.events.watch(sources_of(self.cluster), is_empty=self._data_dir is None)
        if self._watches_fetches:
            self._watches_fetches = False
            self.events.hold_accounts()
        try:
            for number, node in enumerate(self.cluster.nodes.values()):
                await self._bind(node, number)
            self.port = self._listeners[self.config["node.id"]].ports[0]
            self._open_events_topic()
            # When clients connect, all ports are known and groups are loading.
            self.cluster.load_coordinators()
            for listener in self._listeners.values():
                await self._serve(listener)
        except BaseException:
            await self._stop_listening()
            await self._close_events_topic()
            self.cluster.close()
            raise
        self._housekeeper = Housekeeper(self.cluster, lambda: self.connections)
        self._housekeeper.start()

    def _credit(self, until: float | None) -> None:
        """Counts live members as heard from, while the clock is moved ahead."""
        self.cluster.shards.credit(until)

    def _clock_moved(self, seconds: float, credits_heartbeats: bool) -> None:
        """Publishes an advance of the clock, before its consequences."""
        now = self.clock.now()
        self.events.of(self.config["node.id"]).tell(
            "clock_advanced",
            now,
            until_ns=ns(now + seconds),
            credits_heartbeats=credits_heartbeats,
        )

    def _work(self) -> int:
        return len(self.cluster.long_work)

    def _ask_for_faults(self, connection: Connection) -> None:
        """Puts a connection under the fault plan while there are rules."""
        if self._faults is not None and self._faults.is_active:
            from kohort.broker.faults.connection import faulty_class

            if self._faulty_class is None:
                self._faulty_class = faulty_class(self._faults)
            # The same slots, with other methods: plain connections pay nothing.
            connection.__class__ = self._faulty_class

    def _faults_changed(self) -> None:
        for connection in self.connections:
            self._ask_for_faults(connection)
            connection.faults_changed()

    async def _serve(self, listener: Listener) -> None:
        await listener.serve()
        self._publish("node_started", listener.node)

    def _close(self, listener: Listener) -> None:
        was_open = listener.node.is_open
        listener.close()
        if was_open:
            self._publish("node_stopped", listener.node)

    def _publish(self, kind: str, node: Node) -> None:
        self.events.of(node.id).tell(kind, self.clock.now())

    def _open_events_topic(self) -> None:
        """Writes events to their topic from now on, if it exists or is configured."""
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
            ports = before.ports
        else:
            first = (self.port, *self._further_ports)
            ports = [port + number if port else 0 for port in first]
        listener = self._listeners[node.id] = Listener(
            node, self.host, ports, self._ask_for_faults
        )
        await listener.bind()
        node.addresses = [
            self._advertised(advertise, port, number)
            for advertise, port in zip(self._advertise, listener.ports, strict=True)
        ]
        node.started_with = started_with(
            node.id,
            [(self.host, port) for port in listener.ports],
            node.addresses,
            self.cluster.log_dir,
        )

    def _advertised(
        self, advertise: tuple[str, int] | None, port: int, number: int
    ) -> tuple[str, int]:
        if advertise is None:
            # Clients cannot connect to "all addresses", so they get this machine's
            # name.
            anywhere = self.host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared only
            return (socket.gethostname() if anywhere else self.host), port
        host, first = advertise
        return host, first + number if first else port

    async def wait_until_loaded(self) -> None:
        """Waits until all groups are loaded."""
        loader = self.cluster.loader
        if loader.is_busy:
            done = asyncio.Event()
            loader.idle.append(done.set)
            await done.wait()

    async def stop(self) -> None:
        """Stops accepting, sends pending responses, and closes all connections.

        Does nothing if the broker has not started, or has stopped.
        """
        housekeeper, self._housekeeper = self._housekeeper, None
        if housekeeper is None:
            return
        for callback in [*self.at_stop]:
            callback()
        async with self._changing_nodes:
            housekeeper.stop()
            self.cluster.shards.disconnections.stop()
            try:
                await self._stop_listening()
                await self._close_events_topic()
            finally:
                self._stopped_at = self.clock.now()
                # Also when cancelled: this releases the data directory.
                self.cluster.close()

    async def replace(self) -> None:
        """Puts another, empty cluster in the place of this one, on the same ports.

        Clients find another cluster id, and none of their topics, groups and producer
        ids. Faults and recorded requests stay. Waits for conditions end as at a stop.

        Raises:
            ClusterError: the broker is stopped, or has a data directory.
            OSError: another process has taken a port.
        """
        if not self.is_running:
            raise ClusterError("the broker is stopped")
        if self._data_dir is not None:
            raise ClusterError("a cluster with a data directory cannot be replaced")
        await self.stop()
        self._replacements += 1
        await self.start()

    async def _stop_listening(self) -> None:
        for listener in self._listeners.values():
            self._close(listener)
        await asyncio.gather(*(each.drain() for each in self._listeners.values()))

    # -- control over nodes

    async def stop_node(self, node_id: int) -> None:
        """Stops a node: closes its connections; other nodes become leaders.

        Raises:
            ClusterError: the node is unknown, or stopped.
        """
        async with self._changing_nodes:
            await self._stop_node(node_id)

    async def _stop_node(self, node_id: int) -> None:
        node = self.cluster.node(node_id)
        if not node.is_running:
            raise ClusterError(f"node {node_id} is stopped")
        listener = self._listeners[node_id]
        self._close(listener)
        self.cluster.node_stopped(node)
        await listener.drain()

    async def start_node(self, node_id: int) -> None:
        """Starts a stopped node, on its previous port.

        It becomes leader of leaderless partitions only.

        Raises:
            ClusterError: the node is unknown, or runs.
            OSError: another process has taken its port.
        """
        async with self._changing_nodes:
            await self._start_node(node_id)

    async def _start_node(self, node_id: int) -> None:
        node = self.cluster.node(node_id)
        if node.is_running:
            raise ClusterError(f"node {node_id} is running already")
        listener = self._listeners[node_id]
        try:
            await listener.bind()
            await self._serve(listener)
        except BaseException:
            self._close(listener)
            raise
        self.cluster.node_started(node)

    async def restart_node(self, node_id: int) -> None:
        """Stops a node and starts it again, on the same port.

        Its coordinators move to other nodes, if there are any.

        Raises:
            ClusterError: the node is unknown, or stopped.
            OSError: another process has taken its port.
        """
        async with self._changing_nodes:
            await self._stop_node(node_id)
            await self._start_node(node_id)

    def move_partition(self, topic: str, partition: int, node_id: int) -> None:
        """Makes a node the leader of a partition, and a replica if necessary.

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
        """The node id of a group's coordinator; -1 without one."""
        return self.cluster.shards.for_id(group_id).node_id

    def status(self) -> dict[str, object]:
        """The nodes, topics and coordinators, as JSON."""
        return finish(status(self.cluster))
