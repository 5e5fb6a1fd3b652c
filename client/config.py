"""Settings of the clients: Kafka's names with underscores, the Java client's defaults.

Durations are in milliseconds, sizes in bytes. Values may be text, as they come
from a command line; `parse` takes Kafka's own names with dots, too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

from kohort.client.assignors import ASSIGNORS
from kohort.client.errors import ConfigError, KohortError
from kohort.client.offsets import RecordMetadata
from kohort.client.security import (
    MECHANISMS,
    NEEDED,
    Authenticate,
    SaslMechanism,
    TokenProvider,
)
from kohort.client.setting_names import explain

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
OffsetReset = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
GroupProtocol = Literal["classic", "consumer"]
Acks = Literal["all", "-1", "0", "1", -1, 0, 1]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


_Check = Callable[[str, Any], Any]

_TLS = frozenset({"SSL", "SASL_SSL"})

_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_JAVA_ASSIGNORS = {
    f"{_JAVA_PACKAGE}{type(assignor).__name__}": name
    for name, assignor in ASSIGNORS.items()
}
"""Names of assignors, by the Java client's class names."""

_numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
"""Numbers of generated client ids, by the kind of client."""

_ONLY_WITH = {
    "session_timeout_ms": "classic",
    "heartbeat_interval_ms": "classic",
    "partition_assignment_strategy": "classic",
    "group_remote_assignor": "consumer",
}
"""Settings of one group protocol alone: with the other the broker decides."""

_INSTANCE_ID = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")


def _refuse(key: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{key}: {value!r} is not {wanted}")


def _number(default: int | None, least: int, most: int = INT64_MAX) -> Any:
    """A setting that is a whole number in a range."""

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


def _choice(default: str | None, words: Any) -> Any:
    """A setting that is one of the words of a `Literal`."""
    allowed = dict.fromkeys(map(str, get_args(words)))  # acks may be a number

    def check(key: str, value: Any) -> str:
        if str(value) not in allowed:
            raise _refuse(key, value, f"one of {', '.join(allowed)}")
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
            raise _refuse(key, value, "text" if may_be_empty else "non-empty text")
        return value

    return _setting(default, check)


def _credential(*, is_secret: bool = False) -> Any:
    """A setting that is text to authenticate with. The value is in no error."""

    def check(key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{key}: must be non-empty text")
        # NUL separates the fields of PLAIN; lone surrogates have no UTF-8.
        if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise ConfigError(f"{key}: has a character that cannot be sent")
        return value

    return _setting(None, check, is_shown=not is_secret)


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


def _assignors(*default: str) -> Any:
    """A setting that is a list of assignors, by Kafka's names or Java's classes."""
    listed = _words(default).metadata["check"]

    def check(key: str, value: Any) -> tuple[str, ...]:
        names = tuple(_JAVA_ASSIGNORS.get(name, name) for name in listed(key, value))
        for name in names:
            if name not in ASSIGNORS:
                raise _refuse(key, name, f"one of {', '.join(ASSIGNORS)}")
        return names

    return _setting(default, check)


def _hook(check_type: type | None = None) -> Any:
    """A setting that is a Python object, or None."""

    def check(key: str, value: Any) -> Any:
        if check_type is None:
            if not callable(value):
                raise _refuse(key, value, "callable")
        elif not isinstance(value, check_type):
            raise _refuse(key, value, f"an {check_type.__name__}")
        return value

    return _setting(None, check)


def _token_provider() -> Any:
    """A setting that gets tokens. The value, maybe a token, is in no error."""

    def check(key: str, value: Any) -> Any:
        if not callable(value):
            hint = "; give its method, token" if hasattr(value, "token") else ""
            raise ConfigError(
                f"{key}: must be an async function that returns a token{hint}"
            )
        return value

    return _setting(None, check)


def _setting(default: Any, check: _Check, *, is_shown: bool = True) -> Any:
    return dataclasses.field(default=default, metadata={"check": check}, repr=is_shown)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommonConfig:
    """Settings of all clients.

    Attributes:
        client_id: "" for a generated id, as in the Java client.
        ssl_context: makes connections with TLS; see `security_protocol`.
        sasl_mechanism: for `security_protocol` SASL_PLAINTEXT and SASL_SSL.
        sasl_username: for PLAIN and SCRAM, with sasl_password.
        sasl_oauth_token_provider: gets the tokens for OAUTHBEARER.
        authenticate: in place of sasl_mechanism, authenticates each connection.

    Raises:
        ConfigError: an invalid value; the message names the setting.
    """

    bootstrap_servers: Sequence[str] = _words(("localhost:9092",))
    client_id: str = _text("")
    security_protocol: SecurityProtocol = _choice("PLAINTEXT", SecurityProtocol)
    ssl_context: ssl.SSLContext | None = _hook(ssl.SSLContext)
    sasl_mechanism: SaslMechanism | None = _choice(None, SaslMechanism)
    sasl_username: str | None = _credential()
    sasl_password: str | None = _credential(is_secret=True)
    sasl_oauth_token_provider: TokenProvider | None = _token_provider()
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

    owner: ClassVar[str] = "client"
    """The kind of client, as errors name it."""

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
                "security_protocol must be SSL or SASL_SSL"
            )
        self._check_sasl()
        self.check()

    def _check_sasl(self) -> None:
        """Refuses credentials that would not be used, and missing ones."""
        mechanism = self.sasl_mechanism
        credentials = {
            "sasl_username": self.sasl_username,
            "sasl_password": self.sasl_password,
            "sasl_oauth_token_provider": self.sasl_oauth_token_provider,
        }
        if not self.security_protocol.startswith("SASL"):
            for key in ("sasl_mechanism", *credentials):
                if getattr(self, key) is not None:
                    raise ConfigError(
                        f"{key}: {self.security_protocol} makes no use of it, "
                        "security_protocol must be SASL_SSL or SASL_PLAINTEXT"
                    )
            return
        if mechanism is None and self.authenticate is None:
            raise ConfigError(
                f"security_protocol: {self.security_protocol} needs sasl_mechanism, "
                f"one of {', '.join(MECHANISMS)}"
            )
        if mechanism is not None and self.authenticate is not None:
            raise ConfigError("authenticate: replaces sasl_mechanism; give only one")
        needed = NEEDED[mechanism] if mechanism else ()
        name = mechanism or "authenticate"
        for key, value in credentials.items():
            if key in needed and value is None:
                raise ConfigError(f"{key}: is missing, {name} needs it")
            if key not in needed and value is not None:
                raise ConfigError(f"{key}: {name} makes no use of it")

    def check(self) -> None:
        """Checks settings that depend on each other.

        Raises:
            ConfigError: some settings contradict each other.
        """

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Makes a configuration of these settings, and defaults for the others.

        Args:
            values: by Kafka's names, with underscores or dots.

        Raises:
            ConfigError: an unknown setting, an invalid value, or a setting in two
                spellings.
        """
        known = _names(cls)
        settings: dict[str, Any] = {}
        for key, value in values.items():
            name = key.replace(".", "_")
            if name not in known:
                configs = (cls, ConsumerConfig, ProducerConfig)
                names = {each.owner: _names(each) for each in configs}
                raise ConfigError(explain(key, cls.owner, names))
            if name in settings:
                raise ConfigError(f"{key}: is set twice")
            settings[name] = value
        return cls(**settings)

    @classmethod
    def choose(cls, config: Self | None, settings: Mapping[str, Any]) -> Self:
        """The configuration of a new client, with a client id.

        Args:
            config: the configuration that was given, or None.
            settings: the settings that were given, as for `parse`.

        Raises:
            ConfigError: both are given, or as from `parse`.
        """
        if config is None:
            config = cls.parse(settings)
        elif not isinstance(config, cls):
            raise ConfigError(f"config: {config!r} is not a {cls.__name__}")
        elif settings:
            raise ConfigError(f"{next(iter(settings))}: given together with a config")
        if config.client_id:
            return config
        return dataclasses.replace(config, client_id=config.new_client_id())

    def new_client_id(self) -> str:
        """A generated client id, as in the Java client."""
        return f"{self.owner.replace(' ', '')}-{next(_numbers[self.owner])}"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of connections; None for plain ones.

        Without an `ssl_context`, that with the system's CA certificates.
        """
        if self.security_protocol not in _TLS:
            return None
        return self.ssl_context or _system_tls_context()


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerConfig(CommonConfig):
    """Settings of a consumer."""

    group_id: str | None = _text(None)
    group_instance_id: str | None = _text(None, may_be_empty=False)
    group_protocol: GroupProtocol = _choice("classic", GroupProtocol)
    group_remote_assignor: str | None = _text(None, may_be_empty=False)
    session_timeout_ms: int = _number(45_000, 1, INT32_MAX)
    heartbeat_interval_ms: int = _number(3_000, 1, INT32_MAX)
    max_poll_interval_ms: int = _number(300_000, 1, INT32_MAX)
    max_poll_records: int = _number(500, 1, INT32_MAX)
    partition_assignment_strategy: Sequence[str] = _assignors(
        "range", "cooperative-sticky"
    )
    enable_auto_commit: bool = _flag(default=True)
    auto_commit_interval_ms: int = _number(5_000, 0, INT32_MAX)
    auto_offset_reset: OffsetReset = _choice("latest", OffsetReset)
    isolation_level: IsolationLevel = _choice("read_uncommitted", IsolationLevel)
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
    on_received: Callable[[Any], object] | None = _hook()

    owner: ClassVar[str] = "consumer"

    def new_client_id(self) -> str:
        """A client id with the group's id, and a static member's instance id."""
        if self.group_id is None:
            return CommonConfig.new_client_id(self)
        last = self.group_instance_id or next(_numbers[self.owner])
        return f"{self.owner}-{self.group_id}-{last}"

    def check(self) -> None:
        """As above."""
        self._check_protocol()
        if self.group_id is None:
            if self.group_instance_id is not None:
                raise ConfigError("group_instance_id: needs a group_id")
            return
        if not self.group_id:
            raise ConfigError("group_id: '' is not a group's id; None means no group")
        instance_id = self.group_instance_id
        if instance_id is not None and not _INSTANCE_ID.fullmatch(instance_id):
            wanted = "1 to 249 letters, digits, dots, underscores and hyphens"
            raise _refuse("group_instance_id", instance_id, wanted)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms: {self.heartbeat_interval_ms} is not below "
                f"session_timeout_ms, {self.session_timeout_ms}"
            )

    def _check_protocol(self) -> None:
        """Refuses settings of the other group protocol, as in the Java client."""
        defaults = {each.name: each.default for each in dataclasses.fields(self)}
        for key, protocol in _ONLY_WITH.items():
            is_given = getattr(self, key) != defaults[key]
            if is_given and protocol != self.group_protocol:
                raise ConfigError(
                    f"{key}: group_protocol={self.group_protocol} makes no use of it, "
                    f"only group_protocol={protocol}"
                )


LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
"""The levels of a codec, as in Kafka's ``compression.*.level`` (KIP-390)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerConfig(CommonConfig):
    """Settings of a producer."""

    acks: Acks = _choice("all", Acks)
    enable_idempotence: bool | None = _flag(None)
    """None: on if the other settings allow it (KIP-679)."""
    transactional_id: str | None = _text(None, may_be_empty=False)
    transaction_timeout_ms: int = _number(60_000, 1, INT32_MAX)
    linger_ms: int = _number(5, 0)
    batch_size: int = _number(16_384, 0, INT32_MAX)
    buffer_memory: int = _number(32 * 1024 * 1024, 0)
    compression_type: CompressionType = _choice("none", CompressionType)
    compression_level: int | None = _number(None, -131_072)
    max_request_size: int = _number(1024 * 1024, 0, INT32_MAX)
    max_in_flight_requests_per_connection: int = _number(5, 1, INT32_MAX)
    retries: int = _number(INT32_MAX, 0, INT32_MAX)
    delivery_timeout_ms: int = _number(120_000, 0, INT32_MAX)
    max_block_ms: int = _number(60_000, 0)
    partitioner_ignore_keys: bool = _flag(default=False)
    partitioner: Callable[..., int] | None = _hook()
    key_serializer: Callable[[Any], bytes] | None = _hook()
    value_serializer: Callable[[Any], bytes] | None = _hook()
    on_sent: Callable[[RecordMetadata | None, KohortError | None], object] | None = (
        _hook()
    )

    owner: ClassVar[str] = "producer"

    def check(self) -> None:
        """As above."""
        self._check_level()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery_timeout_ms: {self.delivery_timeout_ms} is below linger_ms "
                f"+ request_timeout_ms, {self.linger_ms + self.request_timeout_ms}"
            )
        wanted = "enable_idempotence" if self.enable_idempotence else None
        if self.transactional_id is not None:
            wanted = "transactional_id"
            if self.enable_idempotence is False:
                raise ConfigError(f"enable_idempotence: must be true with {wanted}")
        if wanted is not None:
            for key, why in self._against_idempotence():
                raise ConfigError(f"{key}: {why} with {wanted}")

    def _check_level(self) -> None:
        level, codec = self.compression_level, self.compression_type
        if level is not None:
            if codec not in LEVELS:
                raise ConfigError(f"compression_level: {codec} has no levels")
            least, most = LEVELS[codec]
            if not least <= level <= most:
                wanted = f"must be {least} to {most} for {codec}"
                raise ConfigError(f"compression_level: {level} {wanted}")

    def _against_idempotence(self) -> list[tuple[str, str]]:
        found = []
        if self.acks not in {"all", "-1"}:
            found.append(("acks", f"{self.acks} is not possible"))
        if self.retries == 0:
            found.append(("retries", "0 is not possible"))
        if self.max_in_flight_requests_per_connection > 5:
            key = "max_in_flight_requests_per_connection"
            found.append((key, "more than 5 is not possible"))
        return found

    @property
    def is_idempotent(self) -> bool:
        """True if batches have sequence numbers, against duplicates (KIP-98)."""
        if self.enable_idempotence is None:
            return not self._against_idempotence()
        return self.enable_idempotence

    @property
    def required_acks(self) -> int:
        """`acks` for Produce: -1 for all."""
        return -1 if self.acks == "all" else int(self.acks)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminConfig(CommonConfig):
    """Settings of an admin client."""

    owner: ClassVar[str] = "admin client"


def _names(cls: type[CommonConfig]) -> list[str]:
    return [each.name for each in dataclasses.fields(cls)]


@functools.cache
def _system_tls_context() -> ssl.SSLContext:
    """A TLS context with the system's CA certificates. Slow to load, so cached."""
    return ssl.create_default_context()


def parse_address(text: str) -> tuple[str, int]:
    """The host and the port of "host:port" or "[address]:port".

    Raises:
        ConfigError: the text is neither.
    """
    host, colon, port = text.rpartition(":")
    # As in Kafka, a listener's name may stand before the host.
    host = host.rpartition("://")[2]
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_host = bool(host) and (is_bracketed or ":" not in host)
    if not colon or not is_host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return host.strip("[]"), int(port)
