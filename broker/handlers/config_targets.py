"""The configurations that AlterConfigs and IncrementalAlterConfigs change."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Protocol

from kohort.broker import config_checks
from kohort.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS
from kohort.broker.cluster.resource_configs import TooManyError
from kohort.broker.config import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigError,
)
from kohort.broker.config_keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    Key,
)
from kohort.broker.config_values import parse
from kohort.broker.handlers import configs
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

_LONGEST_VALUE = 32767
_MOST_KEYS = 1000

_MIN_INSYNC_REPLICAS = "min.insync.replicas"
# A running broker keeps its address; setting the present value changes nothing.
_KEPT = ("listeners", "listener.security.protocol.map")

_CLIENT_FIELDS = {
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
}
_PUSH_INTERVALS_MS = range(100, 3_600_001)

# ISO 8601 as java.time.Duration reads it: days, hours, minutes, seconds.
_DURATION = re.compile(
    r"([-+]?)P(?=.)(?:([-+]?\d+)D)?"
    r"(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,]\d{0,9})?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_S = (86_400, 3_600, 60, 1)
_MOST_SECONDS = 2**63

_MOST_PATTERNS = 500
"""Characters of the patterns of a resource that are checked: 20 ms at most."""
# Java's regular expressions, where they differ from Python's.
_JAVA_CLASS = re.compile(r"\\(?:[pP](?:\{\w+\}|\w)|N\{[^}]*\})")
_JAVA_CHARACTER = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]{1,6})\})")
_JAVA_FLAGS = re.compile(r"(?<!\\)\(\?[idmsuxU-]+(?:(:)|\))")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_JAVA_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_JAVA_REFERENCE = re.compile(r"\\k<(\w+)>")
_JAVA_POSSESSIVE = re.compile(r"(?<=[*+?}])\+")
_JAVA_LONELY_BRACE = re.compile(r"(?<!\\)\{(?!\d+(,\d*)?\})")


class Target(Protocol):
    """A configuration that can be altered.

    Attributes:
        values: the settings as texts, by key; None for passwords.
        keys: the existing keys.
        has_lists: whether elements of lists can be added and removed.
        elsewhere: keys that can only be set on another resource.
    """

    values: Mapping[str, str | None]
    keys: Mapping[str, Key]
    has_lists: bool
    elsewhere: Collection[str]

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        """Replaces the settings with these values.

        Raises:
            RefusedError: a value is invalid; nothing has changed.
        """


def target(request: Request, resource_type: int, name: str) -> Target:
    """The resource whose configuration a request alters.

    Raises:
        RefusedError: an invalid name, an unknown broker, or a resource type without
            configuration.
    """
    if resource_type == configs.TOPIC:
        return _TopicTarget(request, name)
    if resource_type == configs.BROKER:
        return _BrokerTarget(request, name)
    if resource_type == configs.GROUP:
        return _GroupTarget(request, name)
    if resource_type == configs.CLIENT_METRICS:
        return _ClientMetricsTarget(request, name)
    raise configs.refused_type(resource_type)


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_CONFIG, why)


def _not_kept(error: StorageError) -> RefusedError:
    why = f"it is in force, and will not survive a restart: {error}"
    return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, why)


def _check_lengths(values: Mapping[str, str | None]) -> None:
    """Checks values that appending has made longer than a request could set them."""
    for name, text in values.items():
        if text is not None and len(text) > _LONGEST_VALUE:
            raise _invalid(f"{name}: the value is longer than {_LONGEST_VALUE}")


class _TopicTarget:
    """The settings of a topic."""

    keys: Mapping[str, Key] = TOPIC_KEYS
    has_lists = True
    elsewhere: Collection[str] = ()

    def __init__(self, request: Request, name: str) -> None:
        if not name:
            why = "topics have no configuration in common that could be altered"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        configs.check_topic_name(name)
        self._name = name
        self._cluster = request.node.cluster
        self._topic = self._cluster.topics.by_name.get(name)
        self.values: Mapping[str, str | None] = (
            self._topic.overrides if self._topic else {}
        )

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        overrides = {name: text for name, text in values.items() if text is not None}
        _check_lengths(overrides)
        # Kafka checks the values first, then whether the topic exists.
        configs.check_topic(self._cluster.config, overrides)
        if self._topic is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {self._name}"
            )
        if not validate_only:
            try:
                self._cluster.topics.configure(self._topic, overrides)
            except StorageError as error:
                raise _not_kept(error) from None


class _BrokerTarget:
    """The settings of a broker that are changed at run time; of all, if unnamed."""

    keys: Mapping[str, Key] = BROKER_KEYS
    has_lists = True

    def __init__(self, request: Request, name: str) -> None:
        if name:
            configs.check_broker(request, name)
        self._source = DYNAMIC_BROKER_CONFIG if name else DYNAMIC_DEFAULT_BROKER_CONFIG
        self._node = request.node
        self._cluster = request.node.cluster
        # Kafka checks the settings for "01", and stores them for no broker.
        self._is_known = name in {"", str(self._node.id)}
        levels = self._cluster.features.levels
        self._is_required = bool(levels.get(ELIGIBLE_LEADER_REPLICAS))
        self.elsewhere: Collection[str] = ()
        if name and self._is_required:
            self.elsewhere = (_MIN_INSYNC_REPLICAS,)
        self.values: Mapping[str, str | None] = self._cluster.config.dynamic(
            self._source
        )

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        if len(values) > _MOST_KEYS:
            why = f"more than {_MOST_KEYS} keys are set"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        changes = dict.fromkeys(self.values.keys() - values.keys())
        changes |= {
            name: text
            for name, text in values.items()
            if name not in self.values or text != self.values[name]
        }
        self._check_kept(changes)
        try:
            self._cluster.config.alter(changes, source=self._source, validate_only=True)
        except ConfigError as error:
            raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from None
        _check_lengths(changes)
        for name in changes.keys() & set(self.elsewhere):
            raise _invalid(f"{name} is set for all brokers only")
        if self._is_required and changes.get(_MIN_INSYNC_REPLICAS, "") is None:
            raise _invalid(f"{_MIN_INSYNC_REPLICAS} has to be set for all brokers")
        if changes and not validate_only and self._is_known:
            self._cluster.config.alter(changes, source=self._source)
            try:
                self._cluster.topics.reconfigure()
            except StorageError as error:
                raise _not_kept(error) from None

    def _check_kept(self, changes: Mapping[str, str | None]) -> None:
        for name in _KEPT:
            text = changes.get(name)
            entry = self._cluster.config.entry(name, self._node.started_with)
            if text is not None and text != entry.value:
                why = f"{name} stays as it was at the start; restart the broker"
                raise RefusedError(ErrorCode.INVALID_REQUEST, why)


class _StoredTarget(ABC):
    """The settings of a resource that are stored by its name.

    Its lists cannot be appended to: Kafka's controller has no schema for them.
    """

    keys: Mapping[str, Key]
    has_lists = False
    elsewhere: Collection[str] = ()

    def __init__(self, request: Request, resource_type: int, name: str) -> None:
        if not name:
            kind = configs.NAMES[resource_type]
            why = f"resources of type {kind} have no configuration in common"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        self._type = resource_type
        self._name = name
        self._cluster = request.node.cluster
        self.values: Mapping[str, str | None] = self._cluster.resource_configs.settings(
            resource_type, name
        )

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        settings = {name: text for name, text in values.items() if text is not None}
        _check_lengths(settings)
        self.check(settings)
        if validate_only:
            return
        try:
            self._cluster.resource_configs.put(self._type, self._name, settings)
        except TooManyError:
            why = "groups and client metrics have too much configuration already"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why) from None
        except StorageError as error:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None

    @abstractmethod
    def check(self, settings: Mapping[str, str]) -> None:
        """Checks new settings.

        Raises:
            RefusedError: one of them is invalid.
        """

    def _parsed(self, name: str, text: str) -> object:
        try:
            return parse(self.keys[name], text)
        except ValueError as error:
            raise _invalid(f"{name}={text[:100]!r}: {error}") from None


class _GroupTarget(_StoredTarget):
    """The settings of a group; kohort's classic groups do not use them."""

    keys: Mapping[str, Key] = GROUP_KEYS

    def __init__(self, request: Request, name: str) -> None:
        super().__init__(request, configs.GROUP, name)

    def check(self, settings: Mapping[str, str]) -> None:
        config = self._cluster.config
        values: dict[str, object] = {
            name: config.group_default(name) for name in self.keys
        }
        for name, text in settings.items():
            if name not in self.keys:
                raise _invalid(f"unknown group setting {name[:260]!r}")
            values[name] = self._parsed(name, text)
        _check_reset(str(values["share.auto.offset.reset"]))
        for name, why in config_checks.group_violations(values, config):
            raise _invalid(f"{name}={values[name]}: {why}")


def _check_reset(text: str) -> None:
    strategy, colon, duration = text.partition(":")
    if colon and strategy == "by_duration" and _is_duration(duration):
        return
    if text not in {"earliest", "latest"}:
        why = "must be earliest, latest or by_duration:PnDTnHnMn.nS"
        raise _invalid(f"share.auto.offset.reset={text[:100]!r}: {why}")


def _is_duration(text: str) -> bool:
    """Returns whether Java parses a text as a duration that is not negative."""
    match = _DURATION.fullmatch(text[:100])
    if match is None:
        return False
    sign, *parts = match.groups()
    seconds = sum(
        int(part or 0) * unit for part, unit in zip(parts, _UNITS_S, strict=True)
    )
    return 0 <= (-seconds if sign == "-" else seconds) < _MOST_SECONDS


class _ClientMetricsTarget(_StoredTarget):
    """A subscription to client metrics (KIP-714); kohort requests none."""

    keys: Mapping[str, Key] = CLIENT_METRICS_KEYS

    def __init__(self, request: Request, name: str) -> None:
        super().__init__(request, configs.CLIENT_METRICS, name)

    def check(self, settings: Mapping[str, str]) -> None:
        for name in settings:
            if name not in self.keys:
                why = f"unknown setting of client metrics {name[:260]!r}"
                raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        values = {name: self._parsed(name, text) for name, text in settings.items()}
        interval = values.get("interval.ms", _PUSH_INTERVALS_MS.start)
        if interval not in _PUSH_INTERVALS_MS:
            why = f"interval.ms={interval}: must be 100 to 3600000"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        matches = values.get("match", ())
        assert isinstance(matches, tuple)
        is_checked = sum(map(len, matches)) <= _MOST_PATTERNS
        for pattern in matches:
            if not _is_match(pattern, checks_pattern=is_checked):
                raise _invalid(
                    f"match: {pattern[:100]!r} is no field=pattern of a client"
                )


def _is_match(text: str, *, checks_pattern: bool) -> bool:
    """Returns whether a text selects clients: a field and a regular expression."""
    # Java's split drops empty strings at the end.
    field, *patterns = text.rstrip("=").split("=")
    if field.strip() not in _CLIENT_FIELDS or len(patterns) != 1:
        return False
    return not checks_pattern or _is_pattern(patterns[0].strip())


def _is_pattern(text: str) -> bool:
    """Returns whether a text is likely a Java regular expression; never used."""
    if _JAVA_LONELY_BRACE.search(text := _JAVA_CLASS.sub("a", text)):
        return False
    # Python takes 35 ms for a class of many letters in both cases, so there are only
    # ASCII letters, in their own case.
    text = _JAVA_CHARACTER.sub(_escaped, text)
    text = _NOT_ASCII.sub("\x7f", text)
    text = _JAVA_FLAGS.sub(lambda found: "(?:" if found[1] else "", text)
    text = _JAVA_REFERENCE.sub(r"(?P=\1)", _JAVA_GROUP.sub("(?P<", text))
    text = _JAVA_POSSESSIVE.sub("", text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(text.encode())
        except (re.error, OverflowError):
            return False
        except RecursionError:
            return True
    return True


def _escaped(found: re.Match[str]) -> str:
    """The character of a Java escape."""
    number = int(found[1] or found[2], 16)
    return re.escape(chr(min(number, 0x7F)))
