"""Configurations are described and changed as by Apache Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest
from tests.wire.client import WireClient, served
from tests.wire.requests import create_topics

import kohort.protocol.apis.k32_describe_configs as k32
import kohort.protocol.apis.k33_alter_configs as k33
import kohort.protocol.apis.k44_incremental_alter_configs as k44
from kohort.protocol.errors import ErrorCode

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
ON_TOPIC, ON_BROKER, ON_CLUSTER, DEFAULT = 1, 2, 3, 5

Changes = dict[str, tuple[int, str | None]]


async def create(client: WireClient, name: str, **settings: str) -> None:
    """Creates a topic; settings have ``_`` in place of dots."""
    request = create_topics(name, config=settings)
    (result,) = (await client.call("CreateTopics", 7, request)).topics
    assert result.error_code == 0


async def describe(
    client: WireClient,
    *resources: tuple[int, str],
    keys: list[str] | None = None,
    synonyms: bool = False,
    version: int = 4,
) -> list[Any]:
    """The results of DescribeConfigs."""
    asked = [k32.DescribeConfigsResource(kind, name, keys) for kind, name in resources]
    request = k32.DescribeConfigsRequest(asked, synonyms)
    answer = await client.call("DescribeConfigs", version, request)
    return list(answer.results)


async def show(client: WireClient, key: str, name: str = "t", kind: int = TOPIC) -> Any:
    """One key of one resource."""
    (result,) = await describe(client, (kind, name), keys=[key], synonyms=True)
    (config,) = result.configs
    return config


async def overrides(client: WireClient, name: str = "t") -> dict[str, str]:
    """The settings of a topic."""
    (result,) = await describe(client, (TOPIC, name))
    return {c.name: c.value for c in result.configs if c.config_source == ON_TOPIC}


async def replace(
    client: WireClient,
    *resources: tuple[int, str, dict[str, str | None]],
    version: int = 2,
    only: bool = False,
) -> list[int]:
    """The error codes of AlterConfigs."""
    wanted = [
        k33.AlterConfigsResource(
            kind, name, [k33.AlterableConfig(k, v) for k, v in values.items()]
        )
        for kind, name, values in resources
    ]
    request = k33.AlterConfigsRequest(wanted, only)
    answer = await client.call("AlterConfigs", version, request)
    assert [(r.resource_type, r.resource_name) for r in answer.responses] == [
        (kind, name) for kind, name, _ in resources
    ]
    return [r.error_code for r in answer.responses]


async def change(
    client: WireClient,
    *resources: tuple[int, str, Changes],
    version: int = 1,
    only: bool = False,
) -> list[int]:
    """The error codes of IncrementalAlterConfigs."""
    wanted = [
        k44.AlterConfigsResource(
            kind, name, [k44.AlterableConfig(k, *v) for k, v in values.items()]
        )
        for kind, name, values in resources
    ]
    request = k44.IncrementalAlterConfigsRequest(wanted, only)
    answer = await client.call("IncrementalAlterConfigs", version, request)
    return [r.error_code for r in answer.responses]


@pytest.mark.parametrize("version", range(1, 5))
async def test_describes_a_topic(version: int) -> None:
    """Each key of a topic has its value, type and source, in every version."""
    async with served() as client:
        await create(client, "t", retention_ms="1000")
        (result,) = await describe(client, (TOPIC, "t"), version=version)
        assert (result.error_code, result.error_message) == (0, "")
        assert len(result.configs) == 33
        shown = {c.name: c for c in result.configs}
        retention = shown["retention.ms"]
        assert (retention.value, retention.config_source) == ("1000", ON_TOPIC)
        assert not any(
            c.read_only or c.is_sensitive or c.synonyms for c in result.configs
        )
        if version >= 3:
            assert (retention.config_type, retention.documentation) == (5, None)
            assert shown["cleanup.policy"].config_type == 7


async def test_describes_where_a_value_comes_from() -> None:
    """Synonyms are the values that would apply without the better ones."""
    async with served() as client:
        await create(client, "t", max_message_bytes="5000")
        size = await show(client, "max.message.bytes")
        assert [(s.name, s.value, s.source) for s in size.synonyms] == [
            ("max.message.bytes", "5000", ON_TOPIC),
            ("message.max.bytes", "1048588", DEFAULT),
        ]
        retention = await show(client, "retention.ms")
        assert (retention.value, list(retention.synonyms)) == ("604800000", [])


async def test_describes_the_keys_asked_for() -> None:
    """An unknown key is left out; no keys means all keys."""
    async with served() as client:
        await create(client, "t")
        (result,) = await describe(client, (TOPIC, "t"), keys=["nope", "segment.ms"])
        assert [c.name for c in result.configs] == ["segment.ms"]
        (result,) = await describe(client, (TOPIC, "t"), keys=[])
        assert len(result.configs) == 33


async def test_describes_the_broker() -> None:
    """Keys of groups are read-only, and show whether they were set."""
    async with served(group_max_size=3) as client:
        size = await show(client, "group.max.size", "1", BROKER)
        assert (size.value, size.read_only, size.config_source) == ("3", True, 4)
        assert [(s.value, s.source) for s in size.synonyms] == [
            ("3", 4),
            ("2147483647", DEFAULT),
        ]
        threads = await show(client, "log.cleaner.threads", "1", BROKER)
        assert (threads.value, threads.read_only) == ("1", False)
        secret = await show(client, "ssl.keystore.password", "1", BROKER)
        assert (secret.value, secret.is_sensitive) == (None, True)


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        ((TOPIC, "none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((TOPIC, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "9"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "one"), ErrorCode.INVALID_REQUEST),
        ((LOGGER, "9"), ErrorCode.INVALID_REQUEST),
        ((LOGGER, ""), ErrorCode.INVALID_REQUEST),
        ((GROUP, ""), ErrorCode.INVALID_REQUEST),
        ((METRICS, ""), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_describes_no_such_thing(
    resource: tuple[int, str], error: ErrorCode
) -> None:
    """An unknown resource has an error; the next one is described."""
    async with served() as client:
        bad, good = await describe(client, resource, (BROKER, "1"))
        assert (bad.error_code, list(bad.configs)) == (error, [])
        assert (bad.resource_type, bad.resource_name) == resource
        assert good.error_code == 0
        assert good.configs


@pytest.mark.parametrize("kind", [0, 1, 3, 5, 64])
async def test_an_unknown_type_spoils_a_describe(kind: int) -> None:
    """One resource of an unknown type fails the whole request."""
    async with served() as client:
        results = await describe(client, (BROKER, "1"), (kind, "x"))
        codes = [r.error_code for r in results]
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(3))
async def test_replaces_everything(version: int) -> None:
    """AlterConfigs resets keys that it does not name."""
    async with served() as client:
        await create(client, "t", retention_ms="1000", segment_ms="5000")
        new: dict[str, str | None] = {"retention.ms": "7"}
        assert await replace(client, (TOPIC, "t", new), version=version) == [0]
        assert await overrides(client) == {"retention.ms": "7"}
        assert await replace(client, (TOPIC, "t", {}), version=version) == [0]
        assert await overrides(client) == {}


@pytest.mark.parametrize(
    ("kind", "name", "values", "error"),
    [
        (TOPIC, "t", {"nope": "1"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"retention.ms": "x"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"retention.ms": None}, ErrorCode.INVALID_REQUEST),
        (TOPIC, "none", {"retention.ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "none", {"nope": "1"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "a b", {"retention.ms": "1"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", {"retention.ms": "1"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"group.max.size": "5"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"log.cleaner.threads": "x"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "9", {"log.cleaner.threads": "1"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "one", {"log.cleaner.threads": "1"}, ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", {"kafka": "INFO"}, ErrorCode.INVALID_REQUEST),
        (3, "g", {"a": "b"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"log.cleaner.threads": "2"}, 0),
        (BROKER, "1", {"some.plugins.key": "2"}, 0),
    ],
)
async def test_replaces_or_refuses(
    kind: int, name: str, values: dict[str, str | None], error: int
) -> None:
    """Each resource is altered or refused alone; validation gives the same codes."""
    async with served() as client:
        await create(client, "t", segment_ms="5000")
        await create(client, "other")
        assert await replace(client, (kind, name, values), only=True) == [error]
        both = await replace(
            client, (kind, name, values), (TOPIC, "other", {"segment.ms": "9"})
        )
        assert both == [error, 0]
        assert await overrides(client) == {"segment.ms": "5000"}
        assert await overrides(client, "other") == {"segment.ms": "9"}


@pytest.mark.parametrize("version", range(2))
async def test_changes_single_keys(version: int) -> None:
    """Setting one key and deleting another leaves the third unchanged."""
    async with served() as client:
        await create(client, "t", retention_ms="1", segment_ms="2", flush_ms="3")
        changes: Changes = {"retention.ms": (SET, "9"), "segment.ms": (DELETE, None)}
        assert await change(client, (TOPIC, "t", changes), version=version) == [0]
        assert await overrides(client) == {"retention.ms": "9", "flush.ms": "3"}


async def test_changes_lists() -> None:
    """Appending starts from the effective value; elements are not added twice."""
    async with served() as client:
        await create(client, "t")
        for operation, value, policy in [
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
            (SUBTRACT, "delete", "compact"),
            (SUBTRACT, "compact", ""),
            (APPEND, "", ""),
        ]:
            changes: Changes = {"cleanup.policy": (operation, value)}
            assert await change(client, (TOPIC, "t", changes)) == [0]
            assert await overrides(client) == {"cleanup.policy": policy}


@pytest.mark.parametrize(
    ("kind", "name", "key", "operation", "value", "error"),
    [
        (TOPIC, "t", "nope", SET, "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "nope", DELETE, None, 0),
        (TOPIC, "t", "", SET, "1", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", SET, None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", "retention.ms", SET, "", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", SET, "-9", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", APPEND, "5", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", SUBTRACT, "5", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "retention.ms", 9, "5", ErrorCode.UNKNOWN_SERVER_ERROR),
        (TOPIC, "t", "cleanup.policy", APPEND, "burn", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "cleanup.policy", APPEND, None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "none", "segment.ms", SET, "5", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "none", "nope", SET, "5", ErrorCode.INVALID_CONFIG),
        (BROKER, "1", "group.max.size", SET, "5", ErrorCode.INVALID_REQUEST),
        (BROKER, "", "group.max.size", SET, "5", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "group.max.size", SET, "2147483647", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "group.max.size", DELETE, None, 0),
        (BROKER, "1", "group.max.size", APPEND, "1", ErrorCode.INVALID_CONFIG),
        (
            BROKER,
            "1",
            "group.initial.rebalance.delay.ms",
            SET,
            "5",
            ErrorCode.INVALID_REQUEST,
        ),
        (BROKER, "1", "log.cleaner.threads", SET, "-1", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", "log.retention.ms", SET, "0", ErrorCode.INVALID_REQUEST),
        (BROKER, "", "listeners", SET, "PLAINTEXT://:9", ErrorCode.INVALID_REQUEST),
        (BROKER, "01", "log.cleaner.threads", SET, "1", 0),
        (BROKER, "1", "log.cleanup.policy", APPEND, "compact", 0),
        (BROKER, "1", "log.cleanup.policy", APPEND, "burn", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_changes_or_refuses(
    kind: int, name: str, key: str, operation: int, value: str | None, error: int
) -> None:
    """Each error has its code, and leaves the topic unchanged."""
    async with served() as client:
        await create(client, "t", segment_ms="5000")
        changes: Changes = {key: (operation, value)}
        assert await change(client, (kind, name, changes), only=True) == [error]
        assert await change(client, (kind, name, changes)) == [error]
        assert await overrides(client) == {"segment.ms": "5000"}


async def test_all_keys_of_a_resource_or_none() -> None:
    """One invalid key, or validation only, keeps all keys from being set."""
    async with served() as client:
        await create(client, "t")
        bad: Changes = {"segment.ms": (SET, "7"), "retention.ms": (SET, "x")}
        assert await change(client, (TOPIC, "t", bad)) == [ErrorCode.INVALID_CONFIG]
        good: Changes = {"segment.ms": (SET, "7")}
        assert await change(client, (TOPIC, "t", good), only=True) == [0]
        assert await overrides(client) == {}


async def test_a_resource_named_twice() -> None:
    """Neither of the two changes is made; other resources are changed."""
    async with served() as client:
        await create(client, "t")
        await create(client, "other")
        one: Changes = {"segment.ms": (SET, "7")}
        assert await change(
            client, (TOPIC, "t", one), (TOPIC, "other", one), (TOPIC, "t", one)
        ) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        assert await overrides(client) == {}
        assert await overrides(client, "other") == {"segment.ms": "7"}


async def test_a_key_named_twice() -> None:
    """Two changes of one key are refused."""
    async with served() as client:
        await create(client, "t")
        wanted = k44.AlterConfigsResource(
            TOPIC,
            "t",
            [
                k44.AlterableConfig("segment.ms", SET, "7"),
                k44.AlterableConfig("segment.ms", DELETE, None),
            ],
        )
        request = k44.IncrementalAlterConfigsRequest([wanted])
        answer = await client.call("IncrementalAlterConfigs", 1, request)
        assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST]


async def test_the_brokers_value_reaches_topics() -> None:
    """A broker's value set at run time applies at once, and can be reset."""
    async with served() as client:
        await create(client, "t")
        key = "log.retention.ms"
        await change(client, (BROKER, "", {key: (SET, "5000")}))
        await change(client, (BROKER, "1", {key: (SET, "6000")}))
        retention = await show(client, "retention.ms")
        assert (retention.value, retention.config_source) == ("6000", ON_BROKER)
        assert [(s.name, s.value, s.source) for s in retention.synonyms][:2] == [
            (key, "6000", ON_BROKER),
            (key, "5000", ON_CLUSTER),
        ]
        (common,) = await describe(client, (BROKER, ""))
        assert [(c.name, c.value, c.config_source) for c in common.configs] == [
            ("min.insync.replicas", "1", ON_CLUSTER),
            (key, "5000", ON_CLUSTER),
        ]
        await change(client, (BROKER, "1", {key: (DELETE, None)}))
        await replace(client, (BROKER, "", {"min.insync.replicas": "1"}))
        assert (await show(client, "retention.ms")).value == "604800000"
