"""Configuration of groups, client metrics, loggers and nodes, also after restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.wire.client import WireClient, connected, connected_to, served

import kohort.protocol.apis.k32_describe_configs as k32
import kohort.protocol.apis.k44_incremental_alter_configs as k44
import kohort.protocol.apis.k57_update_features as k57
from kohort.broker import telemetry
from kohort.broker.cluster import resource_configs
from kohort.broker.cluster.resource_configs import ResourceConfigs, TooManyError
from kohort.broker.config import Config
from kohort.broker.config_keys import KOHORT_KEYS
from kohort.broker.log.store import StorageError
from kohort.broker.server import Broker
from kohort.protocol.apis.k74_list_config_resources import ListConfigResourcesRequest
from kohort.protocol.errors import ErrorCode

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = range(2)
MIN_ISR = "min.insync.replicas"


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Restores the process's log levels at the end."""
    before = telemetry.level()
    yield
    telemetry.configure()
    telemetry.set_level(None, before)


async def describe(
    client: WireClient,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    documentation: bool = False,
) -> dict[str, Any]:
    """The keys of a resource by name."""
    resource = k32.DescribeConfigsResource(kind, name, keys or None)
    request = k32.DescribeConfigsRequest([resource], False, documentation)
    answer = await client.call("DescribeConfigs", version, request)
    (result,) = answer.results
    assert result.error_code == 0
    return {row.name: row for row in result.configs}


async def change(
    client: WireClient, kind: int, name: str, key: str, value: str | None
) -> int:
    """Sets or deletes a key; returns the error code."""
    row = k44.AlterableConfig(key, DELETE if value is None else SET, value)
    request = k44.IncrementalAlterConfigsRequest(
        [k44.AlterConfigsResource(kind, name, [row])]
    )
    answer = await client.call("IncrementalAlterConfigs", 1, request)
    code: int = answer.responses[0].error_code
    return code


async def listed(client: WireClient, *kinds: int) -> list[tuple[int, str]]:
    """The resources in ListConfigResources."""
    answer = await client.call(
        "ListConfigResources", 1, ListConfigResourcesRequest(list(kinds))
    )
    return [(row.resource_type, row.resource_name) for row in answer.config_resources]


async def test_configuration_of_groups_survives_a_restart(tmp_path: Path) -> None:
    """It is stored by name until it is deleted, also if the group does not exist."""
    key = "consumer.session.timeout.ms"
    async with Broker(data_dir=tmp_path) as broker, connected(broker) as client:
        assert await change(client, GROUP, "g", key, "50000") == 0
        assert await change(client, METRICS, "m", "metrics", "a,b") == 0
        assert await change(client, METRICS, "gone", "metrics", "a") == 0
        assert await change(client, METRICS, "gone", "metrics", None) == 0
    async with Broker(data_dir=tmp_path) as broker, connected(broker) as client:
        assert await listed(client, GROUP, METRICS) == [(GROUP, "g"), (METRICS, "m")]
        row = (await describe(client, GROUP, "g"))[key]
        assert (row.value, row.config_source) == ("50000", 8)
        row = (await describe(client, METRICS, "m"))["metrics"]
        assert (row.value, row.config_source) == ("a,b", 7)
        assert await change(client, GROUP, "g", key, None) == 0
        assert await listed(client, GROUP) == []


def test_a_limited_number_of_resources_has_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the limit, resources with configuration can still be changed."""
    monkeypatch.setattr(resource_configs, "LIMIT", 2)
    configs = ResourceConfigs(Config(), lambda: None)
    for name in ("a", "b"):
        configs.put(GROUP, name, {"k": "1"})
    with pytest.raises(TooManyError):
        configs.put(GROUP, "c", {"k": "1"})
    configs.put(METRICS, "c", {"k": "1"})
    configs.put(GROUP, "a", {"k": "2"})
    configs.put(GROUP, "b", {})
    configs.put(GROUP, "c", {"k": "1"})
    assert configs.names(GROUP) == ["a", "c"]
    with pytest.raises(TooManyError):
        configs.put(GROUP, "a", {"k": "1" * resource_configs.LONGEST})


async def test_patterns_of_java() -> None:
    """Checked as far as it costs little: flags and scripts are left out."""
    async with served() as client:
        for pattern, code in (
            (r"(?iu)[一-龥]+\u4e00[\u0041-Z](?<n>a)\k<n>b++", 0),
            (r"a(?i)b", 0),
            ("[z-a]", ErrorCode.INVALID_CONFIG),
            ("(?i", ErrorCode.INVALID_CONFIG),
            ("[z-a]" * 200, 0),
        ):
            value = f"client_id={pattern}"
            assert await change(client, METRICS, "m", "match", value) == code


async def test_a_broker_keeps_a_limited_number_of_unknown_keys() -> None:
    """Unknown keys are limited; Kafka keeps all of them."""
    async with served() as client:
        for count, code in ((1000, 0), (1001, ErrorCode.INVALID_REQUEST)):
            rows = [k44.AlterableConfig(f"k{i}", SET, "x") for i in range(count)]
            request = k44.IncrementalAlterConfigsRequest(
                [k44.AlterConfigsResource(BROKER, "1", rows)]
            )
            answer = await client.call("IncrementalAlterConfigs", 1, request)
            assert answer.responses[0].error_code == code


def test_configuration_that_cannot_be_saved_is_taken_back() -> None:
    """The client gets an error, and nothing has changed."""

    def full() -> None:
        raise StorageError("no space left on device")

    configs = ResourceConfigs(Config(), full)
    with pytest.raises(StorageError):
        configs.put(GROUP, "g", {"k": "1"})
    assert configs.names(GROUP) == []


@pytest.mark.parametrize("version", [3, 4])
async def test_each_key_is_documented_on_request(version: int) -> None:
    """As in Kafka, each key has a text, sent on request (KIP-569)."""
    async with served() as client:
        for kind, name in [(BROKER, "1"), (GROUP, "g"), (METRICS, "m")]:
            rows = await describe(
                client, kind, name, version=version, documentation=True
            )
            assert all(row.documentation for row in rows.values())
            rows = await describe(client, kind, name, version=version)
            assert {row.documentation for row in rows.values()} == {None}
        size = "group.max.size"
        rows = await describe(client, BROKER, "1", size, documentation=True)
        assert (
            rows[size].documentation
            == "Maximum number of members of a group (KIP-389)."
        )


async def test_kohorts_own_keys_are_shown_by_name_only() -> None:
    """Clients that know only Kafka's keys do not see kohort's own."""
    async with served(wire_error_numbering="kip-389") as client:
        assert not KOHORT_KEYS.keys() & (await describe(client, BROKER, "1")).keys()
        rows = await describe(client, BROKER, "1", *KOHORT_KEYS)
        assert rows.keys() == KOHORT_KEYS.keys()
        assert rows["wire.error.numbering"].value == "kip-389"


async def test_each_node_says_where_it_listens(tmp_path: Path) -> None:
    """Ids and addresses are the node's; the directory is the cluster's."""
    async with Broker(nodes=2, data_dir=tmp_path) as broker:
        for node in broker.cluster.nodes.values():
            async with connected_to(broker.host, node.port) as client:
                rows = await describe(client, BROKER, str(node.id))
            assert {
                name: (rows[name].value, rows[name].config_source)
                for name in ("listeners", "advertised.listeners", "node.id", "log.dirs")
            } == {
                "listeners": (f"PLAINTEXT://127.0.0.1:{node.port}", 4),
                "advertised.listeners": (f"PLAINTEXT://127.0.0.1:{node.port}", 4),
                "node.id": (str(node.id), 4),
                "log.dirs": (str(tmp_path), 4),
            }


async def test_a_running_broker_keeps_its_address() -> None:
    """Setting the present address is accepted, as it changes nothing."""
    async with served() as client:
        (row,) = (await describe(client, BROKER, "1", "listeners")).values()
        assert await change(client, BROKER, "1", "listeners", row.value) == 0
        for key in ("listeners", "listener.security.protocol.map"):
            code = await change(client, BROKER, "1", key, "PLAINTEXT://127.0.0.1:1")
            assert code == ErrorCode.INVALID_REQUEST


async def test_min_insync_replicas_is_set_once_for_all_brokers(tmp_path: Path) -> None:
    """A new cluster takes the broker's value; a later start's is ignored."""
    async with Broker({MIN_ISR: 2}, data_dir=tmp_path):
        pass
    async with (
        Broker({MIN_ISR: 1}, data_dir=tmp_path) as broker,
        connected(broker) as client,
    ):
        rows = await describe(client, BROKER, "")
        assert (rows[MIN_ISR].value, rows[MIN_ISR].config_source) == ("2", 3)
        assert broker.cluster.create_topic("t", 1).min_insync_replicas == 2
        assert await change(client, BROKER, "", MIN_ISR, "3") == 0
        for name, value in (("1", "4"), ("1", None), ("", None)):
            code = await change(client, BROKER, name, MIN_ISR, value)
            assert code == ErrorCode.INVALID_CONFIG
        assert broker.cluster.topics.by_name["t"].min_insync_replicas == 3


async def test_min_insync_replicas_of_a_broker_without_the_feature() -> None:
    """At level 0 of the feature a broker has its own value, until it is raised."""
    feature = "eligible.leader.replicas.version"
    async with served() as client:
        for level, kind in ((0, 2), (1, 1)):
            update = k57.FeatureUpdateKey(feature, level, upgrade_type=kind)
            request = k57.UpdateFeaturesRequest(1000, [update])
            answer = await client.call("UpdateFeatures", 2, request)
            assert answer.error_code == 0
            code = await change(client, BROKER, "1", MIN_ISR, "2")
            assert code == (ErrorCode.INVALID_CONFIG if level else 0)
            (row,) = (await describe(client, BROKER, "1", MIN_ISR)).values()
            assert row.config_source == (3 if level else 2)


async def test_levels_of_loggers() -> None:
    """A logger has its own level, or the root's; levels have Kafka's names."""
    telemetry.configure(level="warning")
    async with served() as client:
        assert await change(client, LOGGER, "1", "groups", "DEBUG") == 0
        rows = await describe(client, LOGGER, "1")
        assert (rows["groups"].value, rows["root"].value) == ("DEBUG", "WARN")
        assert {row.config_source for row in rows.values()} == {6}
        assert not any(row.read_only or row.is_sensitive for row in rows.values())
        assert telemetry.Logger("groups").is_on("debug")
        assert await change(client, LOGGER, "1", "root", "ERROR") == 0
        assert await change(client, LOGGER, "1", "groups", None) == 0
        rows = await describe(client, LOGGER, "1", "groups")
        assert rows["groups"].value == "ERROR"
        assert not telemetry.Logger("groups").is_on("warning")
