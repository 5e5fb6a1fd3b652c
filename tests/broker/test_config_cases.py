"""Configuration as Apache Kafka 4.3 describes and changes it, case by case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.broker import config_cases
from tests.wire.client import served

KAFKA = json.loads(
    (Path(__file__).parent.parent / "data" / "kafka-4.3" / "configs.json").read_text()
)

ADDRESSES = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
}
"""Keys of the broker's addresses: kohort has no listener for controllers."""

STRICTER = {
    "listener.security.protocol.map": "a new listener is made of it",
    "listeners": "Kafka opens and closes listeners",
}
"""Keys that kohort refuses to change at run time, and why Kafka does not."""


def client_of_kafkas_settings() -> Any:
    """A broker that was started with the recorded Kafka's settings, and a client."""
    settings = config_cases.STARTED_WITH.items()
    return served(**{name.replace(".", "_"): value for name, value in settings})


async def test_describes_what_kafka_describes() -> None:
    """The same keys, with the same values, sources, types and synonyms."""
    async with client_of_kafkas_settings() as client:
        await config_cases.prepare(client)
        for who, expected in KAFKA["described"].items():
            kind, name = who.split(" ", 1)
            error, found = await config_cases.describe(client, int(kind), name)
            assert error == 0
            assert found.keys() == expected.keys()
            differing = {key for key in found if found[key] != expected[key]}
            assert differing <= (ADDRESSES if who.startswith("4 ") else set()), who


@pytest.mark.parametrize("who", KAFKA["refused"])
async def test_refuses_to_describe_as_kafka_does(who: str) -> None:
    """Names that are invalid, unknown, or another broker's, are refused."""
    kind, name = who.split(" ", 1)
    async with client_of_kafkas_settings() as client:
        error, found = await config_cases.describe(client, int(kind), name)
        assert (error, found) == (KAFKA["refused"][who], {})


async def test_takes_or_refuses_values_of_each_key_as_kafka_does() -> None:
    """Each key of the broker is tried with its value, a word, nothing, and -5."""
    async with client_of_kafkas_settings() as client:
        for name, (value, expected) in KAFKA["keys"].items():
            if name not in STRICTER:
                found = await config_cases.check_key(client, name, value)
                assert found == expected, name


async def test_changes_what_kafka_changes() -> None:
    """Single changes have Kafka's error codes, and the same resulting settings."""
    by_case = dict(KAFKA["played"])
    async with client_of_kafkas_settings() as client:
        await config_cases.prepare(client)
        for case in config_cases.CASES:
            found = await config_cases.play(client, case, 0)
            assert json.loads(json.dumps(found)) == by_case.pop(repr(case)), case
    assert not by_case
