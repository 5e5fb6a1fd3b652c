"""Settings: Kafka's names, the Java client's defaults, and mistakes that are named."""

from __future__ import annotations

import dataclasses
import ssl
from typing import Any

import pytest

from kohort.client.config import (
    AdminConfig,
    CommonConfig,
    ConsumerConfig,
    NewConnection,
    ProducerConfig,
    parse_address,
)
from kohort.client.errors import ConfigError

# As org.apache.kafka.clients' ConsumerConfig and ProducerConfig of Kafka 4.3 have them.
JAVA: dict[type[CommonConfig], dict[str, Any]] = {
    CommonConfig: {
        "client_id": "",
        "connections_max_idle_ms": 540_000,
        "metadata_max_age_ms": 300_000,
        "reconnect_backoff_max_ms": 1_000,
        "reconnect_backoff_ms": 50,
        "request_timeout_ms": 30_000,
        "retry_backoff_max_ms": 1_000,
        "retry_backoff_ms": 100,
        "security_protocol": "PLAINTEXT",
        "socket_connection_setup_timeout_ms": 10_000,
    },
    ConsumerConfig: {
        "allow_auto_create_topics": True,
        "auto_commit_interval_ms": 5_000,
        "auto_offset_reset": "latest",
        "check_crcs": True,
        "client_rack": "",
        "default_api_timeout_ms": 60_000,
        "enable_auto_commit": True,
        "exclude_internal_topics": True,
        "fetch_max_bytes": 52_428_800,
        "fetch_max_wait_ms": 500,
        "fetch_min_bytes": 1,
        "group_id": None,
        "group_instance_id": None,
        "heartbeat_interval_ms": 3_000,
        "isolation_level": "read_uncommitted",
        "max_partition_fetch_bytes": 1_048_576,
        "max_poll_interval_ms": 300_000,
        "max_poll_records": 500,
        "partition_assignment_strategy": ("range", "cooperative-sticky"),
        "session_timeout_ms": 45_000,
    },
    ProducerConfig: {
        "acks": "all",
        "batch_size": 16_384,
        "buffer_memory": 33_554_432,
        "compression_type": "none",
        "delivery_timeout_ms": 120_000,
        "linger_ms": 5,
        "max_block_ms": 60_000,
        "max_in_flight_requests_per_connection": 5,
        "max_request_size": 1_048_576,
        "partitioner_ignore_keys": False,
        "retries": 2_147_483_647,
    },
    AdminConfig: {"default_api_timeout_ms": 60_000},
}


@pytest.mark.parametrize("cls", JAVA)
def test_defaults_are_the_java_clients(cls: type[CommonConfig]) -> None:
    """Whoever sets nothing gets what Java's users get."""
    config = cls()
    for name, value in JAVA[cls].items():
        assert getattr(config, name) == value, name


def test_names_may_have_dots_and_values_be_text() -> None:
    """Settings of a command line or of another client's file are taken as they are."""
    config = ConsumerConfig.parse(
        {
            "bootstrap.servers": "a:1, [::1]:2",
            "session.timeout.ms": "10000",
            "enable.auto.commit": "false",
            "group_id": "g",
        }
    )
    assert config.bootstrap_servers == ("a:1", "[::1]:2")
    assert config.session_timeout_ms == 10_000
    assert config.enable_auto_commit is False
    assert ProducerConfig.parse({"acks": 1}).required_acks == 1
    assert ProducerConfig().required_acks == -1


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (ConsumerConfig, {"sesion_timeout_ms": 1}),
        (ConsumerConfig, {"session_timeout_ms": 0}),
        (ConsumerConfig, {"session_timeout_ms": "soon"}),
        (ConsumerConfig, {"session_timeout_ms": True}),
        (ConsumerConfig, {"session_timeout_ms": 1.5}),
        (ConsumerConfig, {"session_timeout_ms": None}),
        (ConsumerConfig, {"max_poll_interval_ms": 2**31}),
        (ConsumerConfig, {"auto_offset_reset": "smallest"}),
        (ConsumerConfig, {"enable_auto_commit": "yes"}),
        (ConsumerConfig, {"group_id": ""}),
        (ConsumerConfig, {"group_instance_id": "one"}),
        (ConsumerConfig, {"group_instance_id": "", "group_id": "g"}),
        (ConsumerConfig, {"partition_assignment_strategy": []}),
        (ConsumerConfig, {"partition_assignment_strategy": 5}),
        (ConsumerConfig, {"heartbeat_interval_ms": 45_000, "group_id": "g"}),
        (ConsumerConfig, {"value_deserializer": "json"}),
        (CommonConfig, {"bootstrap_servers": "localhost"}),
        (CommonConfig, {"bootstrap_servers": ""}),
        (CommonConfig, {"client_id": 5}),
        (CommonConfig, {"ssl_context": "default"}),
        (CommonConfig, {"security_protocol": "SASL_SSL"}),
        (ProducerConfig, {"acks": "2"}),
        (ProducerConfig, {"acks": "1", "enable_idempotence": True}),
        (ProducerConfig, {"retries": 0, "enable_idempotence": True}),
        (ProducerConfig, {"delivery_timeout_ms": 30_004}),
        (
            ProducerConfig,
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
        ),
    ],
)
def test_mistakes_are_named(cls: type[CommonConfig], values: dict[str, Any]) -> None:
    """The error starts with the key that is wrong."""
    with pytest.raises(ConfigError) as caught:
        cls.parse(values)
    assert str(caught.value).startswith(f"{next(iter(values))}: ")


def test_a_key_may_not_come_in_two_spellings() -> None:
    """Which of them would count?"""
    with pytest.raises(ConfigError, match=r"client\.id: is set twice"):
        CommonConfig.parse({"client_id": "a", "client.id": "b"})


def test_idempotence_follows_the_other_settings() -> None:
    """It is on unless something else is asked for that it cannot be with (KIP-679)."""
    assert ProducerConfig().is_idempotent
    assert not ProducerConfig(acks="1").is_idempotent
    assert not ProducerConfig(enable_idempotence=False).is_idempotent
    assert not ProducerConfig(max_in_flight_requests_per_connection=6).is_idempotent


def test_configurations_cannot_be_changed() -> None:
    """A client's settings stay what it was made with."""
    config = CommonConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.client_id = "x"  # type: ignore[misc]


async def _authenticate(connection: NewConnection) -> None:
    """Never called."""


def test_tls_is_made_where_it_is_asked_for() -> None:
    """SSL without a context trusts what the system trusts."""
    mine = ssl.create_default_context()
    assert CommonConfig().tls is None
    assert CommonConfig(ssl_context=mine, security_protocol="SSL").tls is mine
    sasl = CommonConfig(security_protocol="SASL_SSL", authenticate=_authenticate)
    assert sasl.tls is not None
    assert sasl.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("PLAINTEXT://kafka:1", ("kafka", 1)),
    ],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    """Names, IPv6 in brackets, and Kafka's form with a listener's name."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "::1:9092", "kafka:0"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """The text is in the error."""
    with pytest.raises(ConfigError, match=r"bootstrap_servers: .* is not host:port"):
        parse_address(text)
