"""The admin client: topics, configurations, groups and offsets of any Kafka."""

from __future__ import annotations

from typing import Any, Self

from kohort.client.admin_groups import GroupCalls
from kohort.client.admin_topics import TopicCalls
from kohort.client.admin_values import ClusterDescription
from kohort.client.cluster import CLOSE_MS, Cluster
from kohort.client.config import AdminConfig
from kohort.client.errors import ClosedError, ConfigError
from kohort.client.metadata import Node
from kohort.protocol.apis.k60_describe_cluster import DescribeClusterRequest


class Admin(TopicCalls, GroupCalls):
    """An admin client.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            (await admin.create_topics([NewTopic("orders", 6)])).check()

    Each request goes to the node that can answer it: the controller, a leader, a
    coordinator, a certain broker; it is tried again if that has moved.

    Args:
        config: the configuration; or else
        settings: its keys.

    Raises:
        ConfigError: a key does not exist, or a value cannot be.
    """

    def __init__(self, config: AdminConfig | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise ConfigError(f"{next(iter(settings))}: is given besides a config")
        self.config = AdminConfig.of(settings) if config is None else config
        self._cluster: Cluster | None = None
        self._is_starting = False
        self._is_closed = False

    @property
    def cluster(self) -> Cluster:  # type: ignore[override]
        """The connections.

        Raises:
            ClosedError: `start` was not awaited.
        """
        if self._cluster is None:
            raise ClosedError("the client was not started")
        return self._cluster

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Finds the cluster.

        Raises:
            ClosedError: it was started before, or closed.
            KohortError: no bootstrap server answers in ``default.api.timeout.ms``.
        """
        if self._is_starting or self._is_closed:
            raise ClosedError("an admin client is started once")
        self._is_starting = True
        cluster = Cluster(self.config)
        await cluster.start()
        if self._is_closed:
            await cluster.close(0)
            raise ClosedError("the client was closed")
        self._cluster = cluster

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Ends all connections, within the time; calls under way fail."""
        self._is_closed = True
        if self._cluster is not None:
            await self._cluster.close(timeout_ms)

    async def describe_cluster(
        self, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """The cluster's id, its controller and its nodes.

        Raises:
            KohortError: nobody answers.
        """
        api = "DescribeCluster"

        async def once() -> ClusterDescription:
            connection = await self.cluster.connection(None)
            version = connection.version(api)
            response = await connection.send(api, version, DescribeClusterRequest())
            if response.error_code:
                raise connection.error_of(response.error_code, api)
            nodes = {
                b.broker_id: Node(b.broker_id, b.host, b.port, b.rack)
                for b in response.brokers
            }
            return ClusterDescription(
                response.cluster_id, response.controller_id, nodes
            )

        deadline = self.cluster.deadline(timeout_ms)
        return await self.cluster.retrying(deadline, once, api=api)
