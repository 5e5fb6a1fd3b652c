"""The admin client: topics, configurations, groups and offsets of any Kafka."""

from __future__ import annotations

from typing import Unpack

from kohort.client.administering import (
    config_calls,
    group_calls,
    topic_calls,
    transaction_calls,
)
from kohort.client.administering.values import ClusterDescription
from kohort.client.config import AdminConfig
from kohort.client.errors import ClosedError
from kohort.client.lifecycle import Client, Lifecycle
from kohort.client.network.cluster import CLOSE_MS, Cluster
from kohort.client.network.metadata import Node
from kohort.client.settings import AdminSettings
from kohort.protocol.apis.k60_describe_cluster import DescribeClusterRequest


class Admin(Client):
    """An admin client.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            (await admin.create_topics([NewTopic("orders", 6)])).check()

    Each request goes to the node that can answer it: the controller, a leader, a
    coordinator, or a certain broker. If that has moved, the request is retried.

    Every call retries for `timeout_ms`, None for ``default.api.timeout.ms``, and raises
    `ClosedError` if the client is closed. The error of an item is in its result. The
    calls are functions in `kohort.client.administering`.

    Args:
        config: the settings; or pass them as keywords instead:
        settings: each setting, under Kafka's name with underscores.

    Raises:
        ConfigError: an unknown setting or an invalid value.
    """

    def __init__(
        self, config: AdminConfig | None = None, **settings: Unpack[AdminSettings]
    ) -> None:
        self.config = AdminConfig.choose(config, settings)
        self._life = Lifecycle("client")
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The connections.

        Raises:
            ClosedError: `start` was not awaited.
        """
        if self._cluster is None:
            raise ClosedError("the client was not started")
        return self._cluster

    async def start(self) -> None:
        """Finds the cluster.

        Raises:
            ClosedError: the client was started before, or closed.
            KohortError: no bootstrap server responds in ``default.api.timeout.ms``.
        """
        cluster = Cluster(self.config)
        await self._life.connect(cluster)
        self._cluster = cluster

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Closes all connections, within the time limit; pending calls fail."""
        await self._life.close(timeout_ms, lambda: self.cluster.close(timeout_ms))

    async def describe_cluster(
        self, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """The cluster's id, its controller and its nodes.

        Raises:
            KohortError: no broker responds.
        """
        api = "DescribeCluster"

        async def once() -> ClusterDescription:
            connection = await self.cluster.connection(None)
            response = await connection.call(api, DescribeClusterRequest())
            nodes = {
                b.broker_id: Node(b.broker_id, b.host, b.port, b.rack)
                for b in response.brokers
            }
            return ClusterDescription(
                response.cluster_id, response.controller_id, nodes
            )

        deadline = self.cluster.deadline(timeout_ms)
        return await self.cluster.retrying(deadline, once, api=api)

    list_topics = topic_calls.list_topics
    describe_topics = topic_calls.describe_topics
    create_topics = topic_calls.create_topics
    delete_topics = topic_calls.delete_topics
    create_partitions = topic_calls.create_partitions
    delete_records = topic_calls.delete_records
    list_offsets = topic_calls.list_offsets

    describe_configs = config_calls.describe_configs
    alter_configs = config_calls.alter_configs

    list_consumer_groups = group_calls.list_consumer_groups
    describe_consumer_groups = group_calls.describe_consumer_groups
    delete_consumer_groups = group_calls.delete_consumer_groups
    remove_members_from_consumer_group = group_calls.remove_members_from_consumer_group

    list_consumer_group_offsets = group_calls.list_consumer_group_offsets
    alter_consumer_group_offsets = group_calls.alter_consumer_group_offsets
    delete_consumer_group_offsets = group_calls.delete_consumer_group_offsets

    list_transactions = transaction_calls.list_transactions
    describe_transactions = transaction_calls.describe_transactions
    describe_producers = transaction_calls.describe_producers
    fence_producers = transaction_calls.fence_producers
    abort_transaction = transaction_calls.abort_transaction
