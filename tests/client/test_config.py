"""Settings: Kafka's names, the Java client's defaults, and errors that name them."""

from __future__ import annotations

import dataclasses
import ssl
from typing import Any

import pytest

from kohort.client import Consumer
from kohort.client.config import (
    AdminConfig,
    CommonConfig,
    ConsumerConfig,
    ProducerConfig,
    parse_address,
)
from kohort.client.errors import ConfigError
from kohort.client.security import NewConnection, OAuthToken

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
        "group_protocol": "classic",
        "group_remote_assignor": None,
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
    """Without settings a client works like a Java client."""
    config = cls()
    for name, value in JAVA[cls].items():
        assert getattr(config, name) == value, name


def test_names_may_have_dots_and_values_be_text() -> None:
    """Settings from a command line or another client's file are accepted."""
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
        (ProducerConfig, {"compression_level": 1}),
        (ProducerConfig, {"compression_level": 1, "compression_type": "snappy"}),
        (ProducerConfig, {"compression_level": 0, "compression_type": "gzip"}),
        (ProducerConfig, {"compression_level": 18, "compression_type": "lz4"}),
        (ProducerConfig, {"compression_level": 23, "compression_type": "zstd"}),
        (ConsumerConfig, {"group_instance_id": "one"}),
        (ConsumerConfig, {"group_protocol": "share"}),
        (ConsumerConfig, {"group_remote_assignor": "", "group_protocol": "consumer"}),
        (ConsumerConfig, {"group_instance_id": "", "group_id": "g"}),
        (ConsumerConfig, {"partition_assignment_strategy": []}),
        (ConsumerConfig, {"partition_assignment_strategy": 5}),
        (ConsumerConfig, {"heartbeat_interval_ms": 45_000, "group_id": "g"}),
        (ConsumerConfig, {"value_deserializer": "json"}),
        (ConsumerConfig, {"partition_assignment_strategy": "range,rnage"}),
        (ConsumerConfig, {"group_instance_id": "a b", "group_id": "g"}),
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
    """The error starts with the invalid key."""
    with pytest.raises(ConfigError) as caught:
        cls.parse(values)
    assert str(caught.value).startswith(f"{next(iter(values))}: ")


@pytest.mark.parametrize(
    ("cls", "key", "text"),
    [
        (ConsumerConfig, "sesion_timeout_ms", "; did you mean session_timeout_ms?"),
        (ConsumerConfig, "auto.ofset.reset", "; did you mean auto.offset.reset?"),
        (ConsumerConfig, "autoOffsetReset", "; did you mean auto_offset_reset?"),
        (ConsumerConfig, "linger_ms", "consumers have no such setting; producers have"),
        (ProducerConfig, "group.id", "producers have no such setting; consumers have"),
        (AdminConfig, "group_id", "clients have no such setting; consumers have"),
        (ConsumerConfig, "group.max.size", ": this is a broker's setting"),
        (ProducerConfig, "max_batch_size", ": the setting is batch_size"),
        (ConsumerConfig, "ssl.keystore.location", "an ssl.SSLContext for all of TLS"),
    ],
)
def test_an_unknown_setting_is_explained(
    cls: type[CommonConfig], key: str, text: str
) -> None:
    """A near name, the kind of client that has it, or the alternative here."""
    with pytest.raises(ConfigError) as caught:
        cls.parse({key: 1})
    assert str(caught.value).startswith(f"{key}: ")
    assert str(caught.value).endswith(text)


def test_a_name_like_no_other_is_only_refused() -> None:
    """A wrong guess would be worse than none."""
    with pytest.raises(ConfigError, match=r"have no such setting$"):
        ConsumerConfig.parse({"colour": "red"})


def test_assignors_may_have_the_names_of_java_classes() -> None:
    """A configuration copied from a Java service works."""
    package = "org.apache.kafka.clients.consumer"
    config = ConsumerConfig.parse(
        {
            "partition.assignment.strategy": f"{package}.RangeAssignor,"
            f"{package}.RoundRobinAssignor,{package}.StickyAssignor,"
            f"{package}.CooperativeStickyAssignor"
        }
    )
    assert config.partition_assignment_strategy == (
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    )


@pytest.mark.parametrize(
    ("topics", "settings", "text"),
    [
        (["t"], {}, "group_id: "),
        ([{"group.id": "g"}], {}, "topics: "),
        ([["t"]], {"group_id": "g"}, "topics: "),
        ([""], {"group_id": "g"}, "topics: "),
        (["t"], {"group_id": "g", "config": {"group_id": "g"}}, "config: "),
    ],
)
def test_a_consumer_checks_its_arguments_when_it_is_made(
    topics: list[Any], settings: dict[str, Any], text: str
) -> None:
    """Not when it starts or polls."""
    with pytest.raises(ConfigError, match=f"^{text}"):
        Consumer(*topics, **settings)


@pytest.mark.parametrize(
    ("protocol", "setting"),
    [
        ("consumer", {"session_timeout_ms": 10_000}),
        ("consumer", {"heartbeat_interval_ms": 1_000}),
        ("consumer", {"partition_assignment_strategy": "range"}),
        ("classic", {"group_remote_assignor": "range"}),
    ],
)
def test_settings_of_the_other_group_protocol_are_refused(
    protocol: str, setting: dict[str, Any]
) -> None:
    """As in the Java client: they would have no effect."""
    (key,) = setting
    with pytest.raises(ConfigError, match=f"^{key}: group_protocol={protocol} makes"):
        ConsumerConfig.parse({"group.protocol": protocol, **setting})
    other = {"classic": "consumer", "consumer": "classic"}[protocol]
    found = ConsumerConfig.parse({"group.protocol": other, **setting})
    assert found.group_protocol == other


def test_a_key_may_not_come_in_two_spellings() -> None:
    """It would be unclear which one applies."""
    with pytest.raises(ConfigError, match=r"client\.id: is set twice"):
        CommonConfig.parse({"client_id": "a", "client.id": "b"})


def test_idempotence_follows_the_other_settings() -> None:
    """On unless another setting rules it out (KIP-679)."""
    assert ProducerConfig().is_idempotent
    assert not ProducerConfig(acks="1").is_idempotent
    assert not ProducerConfig(enable_idempotence=False).is_idempotent
    assert not ProducerConfig(max_in_flight_requests_per_connection=6).is_idempotent


def test_configurations_cannot_be_changed() -> None:
    """A client keeps the settings that it was created with."""
    config = CommonConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.client_id = "x"  # type: ignore[misc]


async def _authenticate(connection: NewConnection) -> None:
    """Never called."""


def test_tls_is_made_where_it_is_asked_for() -> None:
    """SSL without a context uses the system's CA certificates."""
    mine = ssl.create_default_context()
    assert CommonConfig().tls is None
    assert CommonConfig(ssl_context=mine, security_protocol="SSL").tls is mine
    sasl = CommonConfig(security_protocol="SASL_SSL", authenticate=_authenticate)
    assert sasl.tls is not None
    assert sasl.tls.verify_mode is ssl.CERT_REQUIRED


ALICE = {"sasl_username": "alice", "sasl_password": "s3cret"}
PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    **ALICE,
}


async def _token() -> str:
    """Never called."""
    return ""


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sasl_mechanism": None}, "security_protocol: SASL_SSL needs sasl_mechanism"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism: 'GSSAPI' is not one of PLAIN"),
        ({"sasl_username": None}, "sasl_username: is missing, PLAIN needs it"),
        ({"sasl_password": None}, "sasl_password: is missing, PLAIN needs it"),
        ({"sasl_password": ""}, "sasl_password: must be non-empty text"),
        ({"sasl_password": b"s3cret"}, "sasl_password: must be non-empty text"),
        ({"sasl_password": "s3cret\0"}, "sasl_password: has a character"),
        ({"sasl_password": "s3cret\ud800"}, "sasl_password: has a character"),
        ({"security_protocol": "SSL"}, "sasl_mechanism: SSL makes no use of it"),
        (
            {"security_protocol": "PLAINTEXT", "sasl_mechanism": None},
            "sasl_username: PLAINTEXT makes no use of it",
        ),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl_username: OAUTHBEARER makes no use"),
        (
            {"sasl_mechanism": "OAUTHBEARER", **dict.fromkeys(ALICE)},
            "sasl_oauth_token_provider: is missing, OAUTHBEARER needs it",
        ),
        (
            {"sasl_oauth_token_provider": _token},
            "sasl_oauth_token_provider: PLAIN makes no use of it",
        ),
        (
            {"sasl_oauth_token_provider": "s3cret"},
            "sasl_oauth_token_provider: must be an async function",
        ),
        ({"authenticate": _authenticate}, "authenticate: replaces sasl_mechanism"),
        (
            {"authenticate": _authenticate, "sasl_mechanism": None},
            "sasl_username: authenticate makes no use of it",
        ),
        ({"sasl.jaas.config": "... s3cret"}, "sasl.jaas.config: kohort does not read"),
        ({"sasl_plain_password": "s3cret"}, "sasl_plain_password: the setting is sasl"),
    ],
)
def test_credentials_that_do_not_fit_are_refused(
    changes: dict[str, Any], error: str
) -> None:
    """The error names the setting, and never shows a password."""
    settings = PLAIN | changes
    with pytest.raises(ConfigError) as caught:
        CommonConfig.parse({key: v for key, v in settings.items() if v is not None})
    assert str(caught.value).startswith(error)
    assert "s3cret" not in str(caught.value)


def test_a_configuration_does_not_show_its_password() -> None:
    """Applications log configurations; the user name is no secret."""
    shown = repr(ConsumerConfig(group_id="g", **PLAIN))
    assert "alice" in shown
    assert "s3cret" not in shown
    assert "s3cret" not in repr(OAuthToken("s3cret"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("PLAINTEXT://kafka:1", ("kafka", 1)),
    ],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    """Names, IPv6 in brackets, and Kafka's form with a listener name."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "::1:9092", "kafka:0"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """The error has the text."""
    with pytest.raises(ConfigError, match=r"bootstrap_servers: .* is not host:port"):
        parse_address(text)
