"""Calls of an admin client about configurations of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kohort.client.administering.fan_out import (
    UNKNOWN_TOPIC_ATTEMPTS,
    Answers,
    Ask,
    Connected,
    NodeId,
    error_in,
    fan_out,
)
from kohort.client.administering.values import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
    Results,
)
from kohort.client.network.cluster import Cluster
from kohort.protocol.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kohort.protocol.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

V = TypeVar("V")

_OF_A_NODE = {ResourceType.BROKER, ResourceType.BROKER_LOGGER}


async def describe_configs(
    admin: Connected,
    resources: Iterable[ConfigResource],
    *,
    keys: Sequence[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    timeout_ms: int | None = None,
) -> Results[ConfigResource, dict[str, ConfigEntry]]:
    """Configurations, by key.

    Args:
        admin: the client.
        resources: the topics, brokers and groups.
        keys: the keys to return; None for all.
        include_synonyms: whether to return where else a key is set.
        include_documentation: whether to return the documentation of keys.
        timeout_ms: see `Admin`.
    """
    cluster = admin.cluster

    async def ask(
        node_id: NodeId, some: Sequence[ConfigResource]
    ) -> Answers[ConfigResource, dict[str, ConfigEntry]]:
        rows = [DescribeConfigsResource(r.type, r.name, keys) for r in some]
        request = DescribeConfigsRequest(rows, include_synonyms, include_documentation)
        response = await cluster.call(node_id, "DescribeConfigs", request)
        return {
            _resource(row): error_in(row)
            or {entry.name: _entry(entry) for entry in row.configs}
            for row in response.results
        }

    return await _ask_owners(cluster, "DescribeConfigs", timeout_ms, resources, ask)


async def alter_configs(
    admin: Connected,
    changes: Mapping[ConfigResource, Mapping[str, str | ConfigChange | None]],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[ConfigResource, None]:
    """Changes single keys; the others stay (KIP-339).

    Args:
        admin: the client.
        changes: by key, a new value, None for the default again, or a `ConfigChange`.
        validate_only: whether the broker only checks the changes.
        timeout_ms: see `Admin`.
    """
    cluster, api = admin.cluster, "IncrementalAlterConfigs"

    async def ask(
        node_id: NodeId, some: Sequence[ConfigResource]
    ) -> Answers[ConfigResource, None]:
        rows = [
            AlterConfigsResource(
                r.type, r.name, [_alterable(*each) for each in changes[r].items()]
            )
            for r in some
        ]
        request = IncrementalAlterConfigsRequest(rows, validate_only)
        response = await cluster.call(node_id, api, request)
        return {_resource(row): error_in(row) for row in response.responses}

    return await _ask_owners(cluster, api, timeout_ms, changes, ask)


async def _ask_owners(
    cluster: Cluster,
    api: str,
    timeout_ms: int | None,
    resources: Iterable[ConfigResource],
    ask: Ask[ConfigResource, V],
) -> Results[ConfigResource, V]:
    def where(resource: ConfigResource) -> Mapping[str, Any]:
        kinds = {ResourceType.TOPIC: "topic", ResourceType.GROUP: "group"}
        kind = kinds.get(resource.type)
        return {"api": api} if kind is None else {"api": api, kind: resource.name}

    return await fan_out(
        cluster,
        cluster.deadline(timeout_ms),
        resources,
        _to_owners,
        ask,
        where,
        patience=UNKNOWN_TOPIC_ATTEMPTS,
    )


async def _to_owners(
    _: Cluster,
    items: Sequence[ConfigResource],
) -> Answers[ConfigResource, NodeId]:
    """A broker answers for itself; any broker answers for topics and groups."""
    return {
        item: int(item.name)
        if item.type in _OF_A_NODE and item.name.isdecimal()
        else None
        for item in items
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
