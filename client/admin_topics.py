"""The part of `Admin` that is about topics, their records, and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.client.admin_values import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    CreatedTopic,
    NewTopic,
    ResourceType,
    Results,
)
from kohort.client.cluster import Cluster
from kohort.client.errors import (
    ConfigError,
    KohortError,
    LeaderNotAvailableError,
    UnknownTopicError,
    error_of,
)
from kohort.client.fan_out import (
    PATIENCE,
    Where,
    fan_out,
    of_partitions,
    of_topics,
)
from kohort.client.metadata import NOBODY, NOTHING, Metadata, TopicInfo, read
from kohort.client.offsets import OffsetAndTimestamp, TopicPartition
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.protocol.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.errors import ErrorCode

_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_OF_A_NODE = {ResourceType.BROKER, ResourceType.BROKER_LOGGER}

Outcome = dict[str, Any | KohortError]


class TopicCalls:
    """Calls about topics.

    Every call takes `timeout_ms`, None for ``default.api.timeout.ms``, within which
    it is tried again, and raises `ClosedError` if the client is closed. What goes
    wrong with an item is in its result.
    """

    cluster: Cluster

    def _name_of(self, node_id: int | None) -> str | None:
        return None if node_id is None else self.cluster.name_of(node_id)

    # -- topics

    async def list_topics(self, timeout_ms: int | None = None) -> dict[str, TopicInfo]:
        """All topics by name, internal ones too.

        Raises:
            KohortError: nobody answers.
        """
        deadline = self.cluster.deadline(timeout_ms)
        metadata, _ = await self.cluster.retrying(
            deadline, lambda: self._metadata(None)
        )
        return dict(metadata.topics)

    async def describe_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None
    ) -> Results[str, TopicInfo]:
        """Topics, their partitions and leaders."""

        async def ask(
            _: int | None, names: Sequence[str]
        ) -> Mapping[str, TopicInfo | KohortError]:
            metadata, broker = await self._metadata(names)
            return {name: _of_metadata(metadata, name, broker) for name in names}

        deadline = self.cluster.deadline(timeout_ms)
        where = of_topics("Metadata")
        return await fan_out(self.cluster, deadline, topics, _to_anybody, ask, where)

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Results[str, CreatedTopic]:
        """Creates topics; all brokers may take a moment to hear of them.

        After a connection that was lost meanwhile, a topic that was created all the
        same is a `TopicExistsError`.
        """
        wanted = {topic.name: topic for topic in topics}
        deadline = self.cluster.deadline(timeout_ms)

        async def ask(
            node_id: int | None, names: Sequence[str]
        ) -> Mapping[str, CreatedTopic | KohortError]:
            request = CreateTopicsRequest(
                [_creatable(wanted[name]) for name in names],
                self.cluster.config.request_timeout_ms,
                validate_only,
            )
            response = await self.cluster.call(node_id, "CreateTopics", request)
            return {
                row.name: self._topic_error("CreateTopics", node_id, row.name, row)
                or CreatedTopic(
                    row.name, row.topic_id, row.num_partitions, row.replication_factor
                )
                for row in response.topics
            }

        where = of_topics("CreateTopics")
        return await fan_out(
            self.cluster, deadline, wanted, self._to_controller, ask, where
        )

    async def delete_topics(
        self, topics: Iterable[str], timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Deletes topics."""
        deadline = self.cluster.deadline(timeout_ms)

        async def ask(
            node_id: int | None, names: Sequence[str]
        ) -> Mapping[str, KohortError | None]:
            limit_ms = self.cluster.config.request_timeout_ms
            states = [DeleteTopicState(name) for name in names]
            request = DeleteTopicsRequest(states, names, limit_ms)
            response = await self.cluster.call(node_id, "DeleteTopics", request)
            return {
                row.name: self._topic_error("DeleteTopics", node_id, row.name, row)
                for row in response.responses
            }

        where = of_topics("DeleteTopics")
        return await fan_out(
            self.cluster, deadline, topics, self._to_controller, ask, where
        )

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Adds partitions to topics.

        Args:
            counts: how many there shall be, by topic.
            assignments: the new partitions' replicas, by topic.
            validate_only: whether it is only tried.
            timeout_ms: see above.
        """
        deadline = self.cluster.deadline(timeout_ms)

        def row_of(name: str) -> CreatePartitionsTopic:
            replicas = (assignments or {}).get(name)
            if replicas is None:
                return CreatePartitionsTopic(name, counts[name], None)
            rows = [CreatePartitionsAssignment(ids) for ids in replicas]
            return CreatePartitionsTopic(name, counts[name], rows)

        async def ask(
            node_id: int | None, names: Sequence[str]
        ) -> Mapping[str, KohortError | None]:
            request = CreatePartitionsRequest(
                [row_of(name) for name in names],
                self.cluster.config.request_timeout_ms,
                validate_only,
            )
            response = await self.cluster.call(node_id, "CreatePartitions", request)
            return {
                row.name: self._topic_error("CreatePartitions", node_id, row.name, row)
                for row in response.results
            }

        where = of_topics("CreatePartitions")
        return await fan_out(
            self.cluster, deadline, counts, self._to_controller, ask, where
        )

    # -- records

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> Results[TopicPartition, int]:
        """Deletes the records before some offsets; -1 stands for all there are.

        Returns:
            The first offset that is left, by partition.
        """
        deadline = self.cluster.deadline(timeout_ms)

        async def ask(
            node_id: int | None, some: Sequence[TopicPartition]
        ) -> Mapping[TopicPartition, int | KohortError]:
            rows = [
                DeleteRecordsTopic(
                    topic,
                    [
                        DeleteRecordsPartition(p, offsets[TopicPartition(topic, p)])
                        for p in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ]
            request = DeleteRecordsRequest(rows, self.cluster.config.request_timeout_ms)
            response = await self.cluster.call(node_id, "DeleteRecords", request)
            return {
                TopicPartition(topic.name, row.partition_index): row.low_watermark
                if not row.error_code
                else self._row_error("DeleteRecords", node_id, topic.name, row)
                for topic in response.topics
                for row in topic.partitions
            }

        where = of_partitions("DeleteRecords")
        return await fan_out(
            self.cluster,
            deadline,
            offsets,
            self._to_leaders,
            ask,
            where,
            patience=PATIENCE,
        )

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """The first offsets at or after some times.

        Args:
            timestamps: milliseconds, or `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`.
            isolation_level: as for consumers.
            timeout_ms: see above.
        """
        if isolation_level not in _ISOLATION:
            known = ", ".join(_ISOLATION)
            raise ConfigError(
                f"isolation_level: {isolation_level!r} is not one of {known}"
            )
        deadline = self.cluster.deadline(timeout_ms)
        # A broker that does not know -3 would take it for a time.
        lowest = 7 if min(timestamps.values(), default=0) < -2 else 1

        async def ask(
            node_id: int | None, some: Sequence[TopicPartition]
        ) -> Mapping[TopicPartition, OffsetAndTimestamp | KohortError]:
            rows = [
                ListOffsetsTopic(
                    topic,
                    [
                        ListOffsetsPartition(
                            p, -1, timestamps[TopicPartition(topic, p)]
                        )
                        for p in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ]
            limit_ms = self.cluster.config.request_timeout_ms
            request = ListOffsetsRequest(
                -1, _ISOLATION[isolation_level], rows, limit_ms
            )
            response = await self.cluster.call(
                node_id, "ListOffsets", request, versions=(lowest, 11)
            )
            return {
                TopicPartition(topic.name, row.partition_index): OffsetAndTimestamp(
                    row.offset, row.timestamp, row.leader_epoch
                )
                if not row.error_code
                else self._row_error("ListOffsets", node_id, topic.name, row)
                for topic in response.topics
                for row in topic.partitions
            }

        where = of_partitions("ListOffsets")
        return await fan_out(
            self.cluster,
            deadline,
            timestamps,
            self._to_leaders,
            ask,
            where,
            patience=PATIENCE,
        )

    # -- configurations

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Configurations, by key.

        Args:
            resources: whose.
            keys: which; None for all.
            include_synonyms: whether to tell where else a key is set.
            include_documentation: whether to tell what keys are for.
            timeout_ms: see above.
        """
        deadline = self.cluster.deadline(timeout_ms)

        async def ask(
            node_id: int | None, some: Sequence[ConfigResource]
        ) -> Mapping[ConfigResource, dict[str, ConfigEntry] | KohortError]:
            rows = [DescribeConfigsResource(r.type, r.name, keys) for r in some]
            request = DescribeConfigsRequest(
                rows, include_synonyms, include_documentation
            )
            response = await self.cluster.call(node_id, "DescribeConfigs", request)
            return {
                _resource(row): self._config_error("DescribeConfigs", node_id, row)
                or {entry.name: _entry(entry) for entry in row.configs}
                for row in response.results
            }

        where = _of_resources("DescribeConfigs")
        return await fan_out(
            self.cluster, deadline, resources, _to_owners, ask, where, patience=PATIENCE
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | ConfigChange | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Results[ConfigResource, None]:
        """Changes single keys; the others stay (KIP-339).

        Args:
            changes: by key, a new value, None for the default again, or a
                `ConfigChange`.
            validate_only: whether it is only tried.
            timeout_ms: see above.
        """
        deadline = self.cluster.deadline(timeout_ms)

        async def ask(
            node_id: int | None, some: Sequence[ConfigResource]
        ) -> Mapping[ConfigResource, KohortError | None]:
            rows = [
                AlterConfigsResource(
                    r.type, r.name, [_alterable(*each) for each in changes[r].items()]
                )
                for r in some
            ]
            request = IncrementalAlterConfigsRequest(rows, validate_only)
            api = "IncrementalAlterConfigs"
            response = await self.cluster.call(node_id, api, request)
            return {
                _resource(row): self._config_error(api, node_id, row)
                for row in response.responses
            }

        where = _of_resources("IncrementalAlterConfigs")
        return await fan_out(
            self.cluster, deadline, changes, _to_owners, ask, where, patience=PATIENCE
        )

    # -- who is asked

    async def _metadata(self, topics: Sequence[str] | None) -> tuple[Metadata, str]:
        """What a broker knows now of some topics, or all; and its name."""
        api = "Metadata"
        rows = None
        if topics is not None:
            rows = [MetadataRequestTopic(name=topic) for topic in topics]
        connection = await self.cluster.connection(None)
        # Before version 1 there was no way to ask for none.
        version = connection.version(api, (1, 13))
        response = await connection.send(api, version, MetadataRequest(rows, False))
        if response.error_code:
            raise connection.error_of(response.error_code, api)
        return read(response, self.cluster.clock(), NOTHING), connection.name

    async def _to_controller(self, items: Sequence[str]) -> Mapping[str, int | None]:
        controller_id = self.cluster.metadata.controller_id
        if controller_id == NOBODY:
            await self.cluster.refresh()
            controller_id = self.cluster.metadata.controller_id
        return dict.fromkeys(items, None if controller_id == NOBODY else controller_id)

    async def _to_leaders(
        self, items: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | KohortError | None]:
        metadata, broker = await self._metadata(list(by_topic(items)))
        found: dict[TopicPartition, int | KohortError | None] = {}
        for topic, partition in items:
            key = TopicPartition(topic, partition)
            info = _of_metadata(metadata, topic, broker)
            if isinstance(info, KohortError):
                info.partition = partition
                found[key] = info
            elif not 0 <= partition < len(info.partitions):
                found[key] = UnknownTopicError(
                    f"the topic has {len(info.partitions)} partitions",
                    api="Metadata",
                    broker=broker,
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            elif (leader_id := metadata.leader(topic, partition)) == NOBODY:
                found[key] = LeaderNotAvailableError(
                    "nobody leads the partition just now",
                    api="Metadata",
                    broker=broker,
                    topic=topic,
                    partition=partition,
                    code=ErrorCode.LEADER_NOT_AVAILABLE,
                )
            else:
                found[key] = leader_id
        return found

    # -- errors

    def _topic_error(
        self, api: str, node_id: int | None, topic: str, row: Any
    ) -> KohortError | None:
        if not row.error_code:
            return None
        return error_of(
            row.error_code,
            api=api,
            broker=self._name_of(node_id),
            topic=topic,
            message=row.error_message,
        )

    def _row_error(
        self, api: str, node_id: int | None, topic: str, row: Any
    ) -> KohortError:
        return error_of(
            row.error_code,
            api=api,
            broker=self._name_of(node_id),
            topic=topic,
            partition=row.partition_index,
        )

    def _config_error(
        self, api: str, node_id: int | None, row: Any
    ) -> KohortError | None:
        if not row.error_code:
            return None
        is_topic = row.resource_type == ResourceType.TOPIC
        return error_of(
            row.error_code,
            api=api,
            broker=self._name_of(node_id),
            topic=row.resource_name if is_topic else None,
            message=row.error_message,
        )


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of partitions, by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


async def _to_anybody(items: Sequence[str]) -> Mapping[str, int | None]:
    return dict.fromkeys(items)


async def _to_owners(
    items: Sequence[ConfigResource],
) -> Mapping[ConfigResource, int | None]:
    """A broker's configuration is its own; any broker has those of topics."""
    return {
        item: int(item.name)
        if item.type in _OF_A_NODE and item.name.isdecimal()
        else None
        for item in items
    }


def _of_metadata(metadata: Metadata, name: str, broker: str) -> TopicInfo | KohortError:
    topic = metadata.topics.get(name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
    if topic is None or code:
        return error_of(code, api="Metadata", broker=broker, topic=name)
    return topic


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition, replicas)
        for partition, replicas in topic.assignments.items()
    ]
    configs = [CreatableTopicConfig(key, value) for key, value in topic.configs.items()]
    # Whoever says where replicas are may not say how many there are.
    counts = (
        (-1, -1) if assignments else (topic.num_partitions, topic.replication_factor)
    )
    return CreatableTopic(topic.name, *counts, assignments, configs)


def _of_resources(api: str) -> Where[ConfigResource]:
    return lambda resource: {
        "api": api,
        "topic": resource.name if resource.type == ResourceType.TOPIC else None,
        "group": resource.name if resource.type == ResourceType.GROUP else None,
    }


def _resource(row: Any) -> ConfigResource:
    return ConfigResource(ResourceType(row.resource_type), row.resource_name)


def _entry(row: Any) -> ConfigEntry:
    return ConfigEntry(
        row.name,
        row.value,
        row.config_source,
        row.read_only,
        row.is_sensitive,
        row.config_type,
        [(each.name, each.value, each.source) for each in row.synonyms],
        row.documentation or None,
    )


def _alterable(name: str, change: str | ConfigChange | None) -> AlterableConfig:
    if change is None:
        change = ConfigChange(ConfigOperation.DELETE)
    elif isinstance(change, str):
        change = ConfigChange(ConfigOperation.SET, change)
    return AlterableConfig(name, change.operation, change.value)
