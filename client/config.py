"""Settings of the clients: Kafka's names with underscores, the Java client's defaults.

Durations are in milliseconds, sizes in bytes. Values may be text, as they come
from a command line; `parse` takes Kafka's own names with dots, too.
"""

from __future__ import annotations

import dataclasses
import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from kohort.client.errors import ConfigError, KohortError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class NewConnection(Protocol):
    """A connection on which only authentication may send requests."""

    def version(self, api_name: str) -> int:
        """The newest version of an API that both sides have."""

    async def send(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request; returns its response."""

    def error_of(
        self, code: int, api_name: str, message: str | None = None
    ) -> KohortError:
        """The error that an error code of this broker stands for."""


Authenticate = Callable[[NewConnection], Awaitable[None]]
"""Authenticates the client by requests on a new connection (SASL)."""

_Check = Callable[[str, Any], Any]

_TLS = frozenset({"SSL", "SASL_SSL"})


def _refuse(key: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{key}: {value!r} is not {wanted}")


def _number(default: int | None, least: int, most: int = INT64_MAX) -> Any:
    """A setting that is a whole number of a range."""

    def check(key: str, value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            raise _refuse(key, value, "a whole number") from None
        if not isinstance(number, int) or isinstance(number, bool):
            raise _refuse(key, value, "a whole number")
        if not least <= number <= most:
            wanted = f"at least {least}" if number < least else f"at most {most}"
            raise _refuse(key, value, wanted)
        return number

    return _setting(default, check)


def _choice(default: str, *values: str) -> Any:
    """A setting that is one of a few words."""

    def check(key: str, value: Any) -> str:
        if str(value) not in values:  # acks may be the number
            raise _refuse(key, value, f"one of {', '.join(values)}")
        return str(value)

    return _setting(default, check)


def _flag(default: bool | None) -> Any:
    """A setting that is true or false."""

    def check(key: str, value: Any) -> bool:
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise _refuse(key, value, "true or false")
        return value

    return _setting(default, check)


def _text(default: str | None, *, may_be_empty: bool = True) -> Any:
    """A setting that is any text."""

    def check(key: str, value: Any) -> str:
        if not isinstance(value, str) or not (value or may_be_empty):
            raise _refuse(
                key, value, "text" if may_be_empty else "text with something in it"
            )
        return value

    return _setting(default, check)


def _words(default: Sequence[str]) -> Any:
    """A setting that is a list, or its items with commas between them."""

    def check(key: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        try:
            words = tuple(value)
        except TypeError:
            raise _refuse(key, value, "a list of names") from None
        if not words or not all(isinstance(word, str) and word for word in words):
            raise _refuse(key, value, "a list of names")
        return words

    return _setting(tuple(default), check)


def _hook(check_type: type | None = None) -> Any:
    """A setting that is an object of Python, or none."""

    def check(key: str, value: Any) -> Any:
        if check_type is None:
            if not callable(value):
                raise _refuse(key, value, "callable")
        elif not isinstance(value, check_type):
            raise _refuse(key, value, f"an {check_type.__name__}")
        return value

    return _setting(None, check)


def _setting(default: Any, check: _Check) -> Any:
    return dataclasses.field(default=default, metadata={"check": check})


@dataclass(frozen=True, kw_only=True, slots=True)
class CommonConfig:
    """Settings of all clients.

    Attributes:
        ssl_context: makes connections with TLS; see `security_protocol`.
        authenticate: authenticates the client on every new connection (SASL).

    Raises:
        ConfigError: an invalid value; the message names the setting.
    """

    bootstrap_servers: Sequence[str] = _words(("localhost:9092",))
    client_id: str = _text("")
    security_protocol: str = _choice(
        "PLAINTEXT", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
    )
    ssl_context: ssl.SSLContext | None = _hook(ssl.SSLContext)
    authenticate: Authenticate | None = _hook()
    request_timeout_ms: int = _number(30_000, 0, INT32_MAX)
    default_api_timeout_ms: int = _number(60_000, 0, INT32_MAX)
    connections_max_idle_ms: int = _number(540_000, -1)
    socket_connection_setup_timeout_ms: int = _number(10_000, 0)
    reconnect_backoff_ms: int = _number(50, 0)
    reconnect_backoff_max_ms: int = _number(1_000, 0)
    retry_backoff_ms: int = _number(100, 0)
    retry_backoff_max_ms: int = _number(1_000, 0)
    metadata_max_age_ms: int = _number(300_000, 0)

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            checked = each.metadata["check"](each.name, value)
            object.__setattr__(self, each.name, checked)
        for address in self.bootstrap_servers:
            parse_address(address)
        is_tls = self.security_protocol in _TLS
        if self.ssl_context is not None and not is_tls:
            # A caller with a TLS context does not expect plaintext on the wire.
            raise ConfigError(
                f"ssl_context: {self.security_protocol} makes no use of it, "
                "security_protocol has to be SSL or SASL_SSL"
            )
        if self.security_protocol.startswith("SASL") and self.authenticate is None:
            raise ConfigError(
                f"security_protocol: {self.security_protocol} needs authenticate"
            )
        self.check()

    def check(self) -> None:
        """Holds the settings against each other.

        Raises:
            ConfigError: some of them contradict each other.
        """

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """The configuration with these settings, defaults for the others.

        Args:
            values: by Kafka's names, with underscores or dots.

        Raises:
            ConfigError: a key does not exist, comes twice, or has a value that
                it cannot have.
        """
        known = {each.name for each in dataclasses.fields(cls)}
        settings: dict[str, Any] = {}
        for key, value in values.items():
            name = key.replace(".", "_")
            if name not in known:
                raise ConfigError(f"{key}: unknown setting of {cls.__name__}")
            if name in settings:
                raise ConfigError(f"{key}: is set twice")
            settings[name] = value
        return cls(**settings)

    @classmethod
    def choose(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """The configuration of a client that was given one, or else settings.

        Raises:
            ConfigError: both are given, or as from `parse`.
        """
        if config is None:
            return cls.parse(settings)
        if settings:
            raise ConfigError(f"{next(iter(settings))}: given together with a config")
        return config

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of connections; None for plain ones.

        Where none is given, SSL takes the system's certificates.
        """
        if self.security_protocol not in _TLS:
            return None
        return self.ssl_context or _system_tls_context()


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerConfig(CommonConfig):
    """Settings of a consumer."""

    group_id: str | None = _text(None)
    group_instance_id: str | None = _text(None, may_be_empty=False)
    session_timeout_ms: int = _number(45_000, 1, INT32_MAX)
    heartbeat_interval_ms: int = _number(3_000, 1, INT32_MAX)
    max_poll_interval_ms: int = _number(300_000, 1, INT32_MAX)
    max_poll_records: int = _number(500, 1, INT32_MAX)
    partition_assignment_strategy: Sequence[str] = _words(
        ("range", "cooperative-sticky")
    )
    enable_auto_commit: bool = _flag(default=True)
    auto_commit_interval_ms: int = _number(5_000, 0, INT32_MAX)
    auto_offset_reset: str = _choice("latest", "earliest", "latest", "none")
    isolation_level: str = _choice(
        "read_uncommitted", "read_uncommitted", "read_committed"
    )
    fetch_min_bytes: int = _number(1, 0, INT32_MAX)
    fetch_max_bytes: int = _number(50 * 1024 * 1024, 0, INT32_MAX)
    fetch_max_wait_ms: int = _number(500, 0, INT32_MAX)
    max_partition_fetch_bytes: int = _number(1024 * 1024, 0, INT32_MAX)
    check_crcs: bool = _flag(default=True)
    client_rack: str = _text("")
    allow_auto_create_topics: bool = _flag(default=True)
    exclude_internal_topics: bool = _flag(default=True)
    key_deserializer: Callable[[bytes], Any] | None = _hook()
    value_deserializer: Callable[[bytes], Any] | None = _hook()

    def check(self) -> None:
        """As above."""
        if self.group_id is None:
            if self.group_instance_id is not None:
                raise ConfigError("group_instance_id: is nothing without group_id")
            return
        if not self.group_id:
            raise ConfigError("group_id: '' cannot be joined")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms: {self.heartbeat_interval_ms} is not below "
                f"session_timeout_ms, {self.session_timeout_ms}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerConfig(CommonConfig):
    """Settings of a producer."""

    acks: str = _choice("all", "all", "-1", "0", "1")
    enable_idempotence: bool | None = _flag(None)
    """None for: if the other settings allow it (KIP-679)."""
    linger_ms: int = _number(5, 0)
    batch_size: int = _number(16_384, 0, INT32_MAX)
    buffer_memory: int = _number(32 * 1024 * 1024, 0)
    compression_type: str = _choice("none", "none", "gzip", "snappy", "lz4", "zstd")
    max_request_size: int = _number(1024 * 1024, 0, INT32_MAX)
    max_in_flight_requests_per_connection: int = _number(5, 1, INT32_MAX)
    retries: int = _number(INT32_MAX, 0, INT32_MAX)
    delivery_timeout_ms: int = _number(120_000, 0, INT32_MAX)
    max_block_ms: int = _number(60_000, 0)
    partitioner_ignore_keys: bool = _flag(default=False)
    partitioner: Callable[..., int] | None = _hook()
    key_serializer: Callable[[Any], bytes] | None = _hook()
    value_serializer: Callable[[Any], bytes] | None = _hook()

    def check(self) -> None:
        """As above."""
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery_timeout_ms: {self.delivery_timeout_ms} is below linger_ms "
                f"+ request_timeout_ms, {self.linger_ms + self.request_timeout_ms}"
            )
        if self.enable_idempotence:
            for key, why in self._against_idempotence():
                raise ConfigError(f"{key}: {why} with enable_idempotence")

    def _against_idempotence(self) -> list[tuple[str, str]]:
        found = []
        if self.acks not in {"all", "-1"}:
            found.append(("acks", f"{self.acks} is not possible"))
        if self.retries == 0:
            found.append(("retries", "0 is not possible"))
        if self.max_in_flight_requests_per_connection > 5:
            key = "max_in_flight_requests_per_connection"
            found.append((key, "more than 5 are not possible"))
        return found

    @property
    def is_idempotent(self) -> bool:
        """Whether batches are numbered, so that none is written twice (KIP-98)."""
        if self.enable_idempotence is None:
            return not self._against_idempotence()
        return self.enable_idempotence

    @property
    def required_acks(self) -> int:
        """`acks` as Produce has it: -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminConfig(CommonConfig):
    """Settings of an admin client."""


@functools.cache
def _system_tls_context() -> ssl.SSLContext:
    """A TLS context with the system's CA certificates. Slow to load, so cached."""
    return ssl.create_default_context()


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port of "host:port" or "[address]:port".

    Raises:
        ConfigError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    # As in Kafka, a listener's name may stand before the host.
    host = host.rpartition("://")[2]
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and (is_bracketed or ":" not in host)
    if not colon or not is_host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return host.strip("[]"), int(port)
