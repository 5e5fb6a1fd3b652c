"""Types as users see them: mypy checks this file, and each error that it must find.

Under `warn_unused_ignores` an ignored error that mypy no longer finds is an error.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, assert_type, get_type_hints

import pytest

from kohort.client import (
    Admin,
    AdminConfig,
    AdminSettings,
    Consumer,
    ConsumerConfig,
    ConsumerRecord,
    ConsumerSettings,
    Producer,
    ProducerConfig,
    ProducerSettings,
)
from kohort.client.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (AdminSettings, AdminConfig),
        (ConsumerSettings, ConsumerConfig),
        (ProducerSettings, ProducerConfig),
    ],
)
def test_typed_settings_are_those_of_the_configuration(
    settings: type, config: Any
) -> None:
    """The same names and types, in the same order; K and V stand for any type."""
    hints = get_type_hints(config)
    declared = {each.name: hints[each.name] for each in dataclasses.fields(config)}
    typed: dict[str, Any] = {}
    for name, hint in get_type_hints(settings).items():
        typed[name] = hint[Any] if getattr(hint, "__parameters__", ()) else hint
    assert list(typed.items()) == list(declared.items())


def test_mypy_finds_a_wrong_setting() -> None:
    """So does the constructor: a name, a type, a word."""
    with pytest.raises(ConfigError):
        Consumer(sesion_timeout_ms=1)  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        Consumer(session_timeout_ms="soon")  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        Consumer(auto_offset_reset="newest")  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        Producer(group_id="billing")  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        Admin(linger_ms=5)  # type: ignore[call-arg]
    settings: ConsumerSettings = {
        "grup_id": "billing",  # type: ignore[typeddict-unknown-key]
    }
    assert settings


def test_a_consumer_is_of_the_types_that_its_deserializers_make() -> None:
    """Bytes without one."""
    assert_type(Consumer(), Consumer[bytes, bytes])
    assert_type(Consumer(value_deserializer=int), Consumer[bytes, int])
    both = Consumer(key_deserializer=bytes.decode, value_deserializer=json.loads)
    assert_type(both, Consumer[str, Any])
    assert_type(Consumer(config=ConsumerConfig()), Consumer[Any, Any])
    settings: ConsumerSettings = {"group_id": "billing"}
    assert_type(Consumer("orders", **settings), Consumer[bytes, bytes])


def test_a_producer_takes_what_its_serializers_take() -> None:
    """Bytes without one."""
    as_text: Callable[[str], bytes] = str.encode
    assert_type(Producer(), Producer[bytes, bytes])
    assert_type(Producer(key_serializer=as_text), Producer[str, bytes])
    assert_type(Producer(ProducerConfig()), Producer[Any, Any])


async def _processed(consumer: Consumer[str, int]) -> ConsumerRecord[str, int]:
    """Never called: for mypy."""
    async for record in consumer:
        assert_type(record.key, str | None)
        assert_type(record.value, int | None)
    return await consumer.getone()


async def _sent(producer: Producer[str, bytes]) -> None:
    """Never called: for mypy."""
    await producer.send("orders", b"one", key="alice")
    await producer.send("orders", "one")  # type: ignore[arg-type]
