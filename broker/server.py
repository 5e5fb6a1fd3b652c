"""The broker: listens, accepts, drains, stops. The only file that opens sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Self

from kohort.broker import telemetry
from kohort.broker.clock import Clock, RealClock, Timer
from kohort.broker.cluster import Cluster, Node
from kohort.broker.config import Config
from kohort.broker.connection import Connection
from kohort.broker.ids import Ids

BACKLOG = 1024
"""Connections that may wait to be accepted: 1,000 consumers start at once."""
DRAIN_SECONDS = 1.0
"""Time that clients have to read the answers that are on their way when the broker
stops. Requests that wait for something (joins, fetches) are not answered."""

log = telemetry.get_logger("broker")


class Broker:
    """A Kafka broker in this process.

        async with Broker({"group.max.size": 3}) as broker:
            consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers)

    Args:
        config: Kafka's configuration keys and their values, or a `Config`.
        host: address to listen on.
        port: port to listen on; 0 for one that the system picks.
        advertise: "host:port" that clients are told to connect to, where that
            differs; a port of 0 stands for the one listened on.
        seed: makes ids repeatable; None for random ones.

    Attributes:
        cluster: the cluster's state, once started.
        connections: the open connections.

    Raises:
        ConfigError: from the constructor; a key is unknown or a value is bad.
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
    ) -> None:
        self.config = config if isinstance(config, Config) else Config(config or {})
        self.host = host
        self.port = port
        self._advertise = advertise
        self._seed = seed
        self.connections: set[Connection] = set()
        self._server: asyncio.Server
        self._clock: Clock
        self._housekeeping: Timer | None = None
        self.cluster: Cluster

    @property
    def bootstrap_servers(self) -> str:
        """What clients take as ``bootstrap.servers``: "host:port"."""
        node = self.cluster.nodes[self.config["node.id"]]
        host = f"[{node.host}]" if ":" in node.host else node.host
        return f"{host}:{node.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; when it returns, clients can connect and every group is served."""
        for name, value, origin in self.config.unused:
            log.warning("key_has_no_effect_yet", key=name, value=value, origin=origin)
        loop = asyncio.get_running_loop()
        self._clock = RealClock(loop)
        self.cluster = Cluster(self.config, self._clock, Ids(self._seed))
        node = Node(self.config["node.id"], self.cluster)
        # Two brokers on one port would share its connections without a word.
        self._server = await loop.create_server(
            lambda: Connection(node, self.connections),
            self.host,
            self.port,
            backlog=BACKLOG,
            reuse_port=False,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        node.host, node.port = self._advertised()
        node.groups.start()
        self._schedule_housekeeping()

    def _advertised(self) -> tuple[str, int]:
        if self._advertise is None:
            # Nobody can connect to "all addresses"; this machine's name will do.
            anywhere = self.host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared only
            return (socket.gethostname() if anywhere else self.host), self.port
        host, _, port = self._advertise.rpartition(":")
        return host.strip("[]"), int(port) or self.port

    async def stop(self) -> None:
        """Accepts no more, lets answers under way out, and closes all connections."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        self._server.close()
        open_ones = [connection.close() for connection in list(self.connections)]
        if open_ones:
            await asyncio.wait(open_ones, timeout=DRAIN_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        for node in self.cluster.nodes.values():
            node.groups.stop()
        await self._server.wait_closed()

    def _schedule_housekeeping(self) -> None:
        interval = self.config["log.retention.check.interval.ms"] / 1000
        idle = self.config["connections.max.idle.ms"] / 1000
        pause = min(interval, idle / 4 if idle > 0 else interval, 60.0)
        self._housekeeping = self._clock.call_at(
            self._clock.now() + max(pause, 0.05), self._keep_house
        )

    def _keep_house(self) -> None:
        """Closes idle connections; drops records that have been kept long enough."""
        idle_ms = self.config["connections.max.idle.ms"]
        if idle_ms >= 0:
            limit = self._clock.now() - idle_ms / 1000
            for connection in list(self.connections):
                if connection.is_idle_since(limit):
                    log.info("idle_connection_closed", client=connection.client_address)
                    connection.abort()
        now_ms = self.cluster.now_ms()
        for topic in self.cluster.topics.by_name.values():
            for partition in topic.partitions:
                partition.expire(now_ms)
        self._schedule_housekeeping()
