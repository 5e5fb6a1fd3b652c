"""Quotas of clients are set and described: the same responses as Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_restart import broker_on, killed
from tests.wire.client import WireClient, connected, served

from kohort.broker.cluster.quotas import MOST_ENTITIES
from kohort.protocol.apis.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from kohort.protocol.apis.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntryData,
    OpData,
)
from kohort.protocol.errors import ErrorCode

EXACT, DEFAULT, ANY = range(3)

Entity = tuple[tuple[str, str | None], ...]
USER: Entity = (("user", "bob"),)
ADDRESS: Entity = (("ip", "127.0.0.1"),)


def entry(entity: Entity, values: Mapping[str, float | None]) -> EntryData:
    """Quotas of an entity; None removes one."""
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    return EntryData([EntityData(*name) for name in entity], ops)


async def alter(
    client: WireClient,
    *entries: EntryData,
    validate_only: bool = False,
    version: int = 1,
) -> list[int]:
    """Alters quotas; returns the error of each entity."""
    request = AlterClientQuotasRequest(entries, validate_only)
    response = await client.call("AlterClientQuotas", version, request)
    assert all(
        (e.error_code == 0) == (e.error_message is None) for e in response.entries
    )
    return [row.error_code for row in response.entries]


async def put(client: WireClient, entity: Entity, **values: float | None) -> int:
    """Alters the quotas of one entity; returns the error."""
    (error,) = await alter(client, entry(entity, values))
    return error


async def describe(
    client: WireClient,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    """The response to DescribeClientQuotas; components are (type, match, name)."""
    rows = [ComponentData(*component) for component in components]
    request = DescribeClientQuotasRequest(rows, strict)
    return await client.call("DescribeClientQuotas", version, request)


async def quotas(
    client: WireClient, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[Entity, dict[str, float]]:
    """The values of the entities that match."""
    response = await describe(client, *components, strict=strict)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        tuple((each.entity_type, each.entity_name) for each in row.entity): {
            each.key: each.value for each in row.values
        }
        for row in response.entries
    }


@pytest.mark.parametrize("version", range(2))
async def test_quotas_are_set_and_removed(version: int) -> None:
    """Values are merged; an entity without any is removed."""
    async with served() as client:
        first = entry(USER, {"producer_byte_rate": 1000, "request_percentage": 12.5})
        second = entry(USER, {"controller_mutation_rate": 0.5})
        for each in (first, second):
            assert await alter(client, each, version=version) == [0]
        assert await quotas(client) == {
            USER: {
                "producer_byte_rate": 1000,
                "request_percentage": 12.5,
                "controller_mutation_rate": 0.5,
            }
        }
        assert await put(client, USER, request_percentage=None, nothing=None) == 0
        left = {"producer_byte_rate": 1000, "controller_mutation_rate": 0.5}
        assert await quotas(client) == {USER: left}
        assert await put(client, USER, **dict.fromkeys(left)) == 0
        assert await quotas(client) == {}


@pytest.mark.parametrize(
    ("entity", "key", "value", "is_valid"),
    [
        (USER, "consumer_byte_rate", 1e15, True),
        (USER, "consumer_byte_rate", 1000.5, False),
        (USER, "consumer_byte_rate", 0, False),
        (USER, "consumer_byte_rate", -1, False),
        (USER, "consumer_byte_rate", 2.0**64, False),
        (USER, "request_percentage", 0.5, True),
        (USER, "request_percentage", -0.5, False),
        (USER, "connection_creation_rate", 10, False),
        (USER, "nothing", 10, False),
        ((("user", None),), "producer_byte_rate", 10, True),
        ((("client-id", "c"), ("user", "bob")), "producer_byte_rate", 10, True),
        ((("client-id", None), ("user", None)), "producer_byte_rate", 10, True),
        ((("user", ""),), "producer_byte_rate", 10, False),
        ((("group", "g"),), "producer_byte_rate", 10, False),
        ((), "producer_byte_rate", 10, False),
        (ADDRESS, "connection_creation_rate", 10, True),
        (ADDRESS, "connection_creation_rate", 10.5, False),
        (ADDRESS, "connection_creation_rate", 2.0**31, False),
        (ADDRESS, "producer_byte_rate", 10, False),
        ((("ip", None),), "connection_creation_rate", 10, True),
        ((("ip", "::1"),), "connection_creation_rate", 10, True),
        ((("ip", "localhost"),), "connection_creation_rate", 10, True),
        ((("ip", "not an ip"),), "connection_creation_rate", 10, False),
        ((*ADDRESS, *USER), "connection_creation_rate", 10, False),
    ],
)
async def test_keys_values_and_entities(
    entity: Entity, key: str, value: float, is_valid: bool
) -> None:
    """Bytes are whole numbers above 0; an address has a quota of connections only."""
    async with served() as client:
        error = await put(client, entity, **{key: value})
        assert error == (0 if is_valid else ErrorCode.INVALID_REQUEST)
        assert await quotas(client) == ({entity: {key: value}} if is_valid else {})


async def test_one_invalid_value_refuses_an_entity() -> None:
    """Other entities of the request get their quotas."""
    async with served() as client:
        good: Entity = (("user", "ana"),)
        errors = await alter(
            client,
            entry(USER, {"producer_byte_rate": 1, "nothing": 1}),
            entry(good, {"producer_byte_rate": 1}),
        )
        assert errors == [ErrorCode.INVALID_REQUEST, 0]
        assert await quotas(client) == {good: {"producer_byte_rate": 1}}


async def test_an_entity_or_key_that_occurs_twice() -> None:
    """The first of two entries is applied, although the response is an error."""
    async with served() as client:
        errors = await alter(
            client,
            entry(USER, {"producer_byte_rate": 1}),
            entry(USER, {"consumer_byte_rate": 2}),
        )
        assert errors == [ErrorCode.INVALID_REQUEST]
        assert await quotas(client) == {USER: {"producer_byte_rate": 1}}
        op = OpData("producer_byte_rate", 10.0)
        twice = EntryData([EntityData("user", "ana")], [op, op])
        assert await alter(client, twice) == [ErrorCode.INVALID_REQUEST]
        names = [EntityData("user", "cleo"), EntityData("user", "dora")]
        assert await alter(client, EntryData(names, [op])) == [0]
        assert (("user", "dora"),) in await quotas(client)


async def test_quotas_have_a_limit() -> None:
    """At the limit, entities with quotas can still be altered."""
    async with served() as client:
        many = [
            entry((("user", str(number)),), {"producer_byte_rate": 1})
            for number in range(MOST_ENTITIES + 1)
        ]
        errors = await alter(client, *many)
        assert errors[:-1] == [0] * MOST_ENTITIES
        assert errors[-1] == ErrorCode.POLICY_VIOLATION
        assert await alter(client, many[0]) == [0]
        assert await alter(client, many[-1]) == [ErrorCode.POLICY_VIOLATION]


async def test_validated_quotas_are_not_set() -> None:
    """Validation gives the response of a change."""
    async with served() as client:
        good = entry(USER, {"producer_byte_rate": 1})
        bad = entry(USER, {"producer_byte_rate": -1})
        assert await alter(client, good, validate_only=True) == [0]
        assert await alter(client, bad, validate_only=True) == [42]
        assert await quotas(client) == {}


USER_AND_CLIENT: Entity = (("client-id", "c"), ("user", "bob"))
DEFAULT_USER: Entity = (("user", None),)
CLIENT: Entity = (("client-id", "c"),)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [USER, USER_AND_CLIENT, DEFAULT_USER, CLIENT, ADDRESS]),
        ([], True, []),
        ([("user", ANY, None)], False, [USER, USER_AND_CLIENT, DEFAULT_USER]),
        ([("user", ANY, None)], True, [USER, DEFAULT_USER]),
        ([("user", DEFAULT, None)], False, [DEFAULT_USER]),
        ([("user", EXACT, "bob")], False, [USER, USER_AND_CLIENT]),
        ([("user", EXACT, "bob")], True, [USER]),
        ([("user", EXACT, "ana")], False, []),
        ([("client-id", EXACT, "c"), ("user", ANY, None)], True, [USER_AND_CLIENT]),
        ([("client-id", ANY, None)], False, [USER_AND_CLIENT, CLIENT]),
        ([("ip", ANY, None)], True, [ADDRESS]),
    ],
)
async def test_filters(
    components: list[tuple[str, int, str | None]], strict: bool, found: list[Entity]
) -> None:
    """A strict filter leaves out entities with further names."""
    async with served() as client:
        for entity in (USER, USER_AND_CLIENT, DEFAULT_USER, CLIENT):
            assert await put(client, entity, producer_byte_rate=1) == 0
        assert await put(client, ADDRESS, connection_creation_rate=1) == 0
        assert [*await quotas(client, *components, strict=strict)] == found


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", -1, "x")], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_filters_that_cannot_be(
    components: list[tuple[str, int, str | None]], error: int
) -> None:
    """For an invalid filter the list of entries is null."""
    async with served() as client:
        for version in range(2):
            response = await describe(client, *components, version=version)
            assert (response.error_code, response.entries) == (error, None)


async def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    """After a kill and after a stop; a removed quota stays removed."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        await put(client, DEFAULT_USER, producer_byte_rate=5, request_percentage=7.5)
        await put(client, CLIENT, consumer_byte_rate=3)
        await put(client, CLIENT, consumer_byte_rate=None)
        copy = killed(path)
    expected = {DEFAULT_USER: {"producer_byte_rate": 5, "request_percentage": 7.5}}
    for folder in (copy, path, path):
        async with broker_on(folder) as broker, connected(broker) as client:
            assert await quotas(client) == expected
