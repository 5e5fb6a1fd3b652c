"""The resources that have a configuration: topics, and the broker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from kohort.broker import telemetry
from kohort.broker.config import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    Config,
    ConfigError,
    Entry,
    parse_topic,
    to_text,
)
from kohort.broker.config_keys import BROKER_KEYS, TOPIC_KEYS, Key
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.log.store import StorageError
from kohort.broker.request import Request
from kohort.broker.topics.topic import why_no_topic_name
from kohort.protocol.errors import ErrorCode

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

NAMES = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "logger",
    CLIENT_METRICS: "client metrics",
    GROUP: "group",
}
"""The types of resources of which Kafka knows configurations (KIP-133, KIP-412,
KIP-714, KIP-848)."""

_THROTTLED = re.compile(r"\s*(\*|\d+:\d+(\s*,\s*\d+:\d+)*)?\s*").fullmatch
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}").fullmatch

log = telemetry.Logger("configs")


class Target(Protocol):
    """A configuration that can be altered.

    Attributes:
        values: the settings as texts, by key; None for passwords.
        keys: the existing keys.
    """

    values: Mapping[str, str | None]
    keys: Mapping[str, Key]

    def default(self, name: str) -> str:
        """The value of a key that is not set here; empty for null."""

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        """Takes these values in place of those that are set.

        Raises:
            RefusedError: a value is invalid; nothing has changed.
        """


def check_topic(config: Config, overrides: Mapping[str, str]) -> None:
    """Checks new settings of a topic.

    Raises:
        RefusedError: INVALID_CONFIG.
    """
    for name, text in overrides.items():
        try:
            parse_topic(name, text)
        except ConfigError as error:
            raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if name.endswith(".throttled.replicas") and not _THROTTLED(text):
            why = f"{name} must be * or partition:broker,..."
            raise RefusedError(ErrorCode.INVALID_CONFIG, why)
    settings = config.topic(overrides)
    if settings["min.compaction.lag.ms"] > settings["max.compaction.lag.ms"]:
        why = "min.compaction.lag.ms is above max.compaction.lag.ms"
        raise RefusedError(ErrorCode.INVALID_CONFIG, why)
    if settings["remote.storage.enable"]:
        why = "remote.storage.enable: the broker has no tiered storage"
        raise RefusedError(ErrorCode.INVALID_CONFIG, why)


def topic_entries(config: Config, overrides: Mapping[str, str]) -> list[Entry]:
    """All of a topic's configuration; internal keys where they are set."""
    return [
        config.topic_entry(name, overrides)
        for name, key in TOPIC_KEYS.items()
        if key.mode != "hidden" or name in overrides
    ]


def check_topic_name(name: str) -> None:
    """Checks that a topic could have the name.

    Raises:
        RefusedError: INVALID_TOPIC_EXCEPTION.
    """
    why = why_no_topic_name(name)
    if why is not None:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def check_broker(request: Request, name: str) -> None:
    """Checks that the broker that is meant is the one that was asked.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    if not _INTEGER(name) or int(name) != request.node.id:
        why = f"this is broker {request.node.id}, not {name[:260]!r}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, why)


def target(request: Request, resource_type: int, name: str) -> Target:
    """The topic or broker whose configuration a request alters.

    Raises:
        RefusedError: an invalid topic name, an unknown broker, or another resource
            type.
    """
    if resource_type == TOPIC:
        return _TopicTarget(request, name)
    if resource_type == BROKER:
        return _BrokerTarget(request, name)
    raise refused_type(resource_type)


def refused_type(resource_type: int) -> RefusedError:
    """INVALID_REQUEST for resources without a configuration."""
    kind = NAMES.get(resource_type, str(resource_type))
    why = f"resources of type {kind} have no configuration in kohort"
    return RefusedError(ErrorCode.INVALID_REQUEST, why)


def _not_kept(error: StorageError) -> RefusedError:
    why = f"it is in force, and will not survive a restart: {error}"
    return RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, why)


class _TopicTarget:
    """The settings of a topic."""

    keys: Mapping[str, Key] = TOPIC_KEYS

    def __init__(self, request: Request, name: str) -> None:
        if not name:
            why = "topics have no configuration in common that could be altered"
            raise RefusedError(ErrorCode.INVALID_REQUEST, why)
        check_topic_name(name)
        self._name = name
        self._cluster = request.node.cluster
        self._topic = self._cluster.topics.by_name.get(name)
        self.values: Mapping[str, str | None] = (
            self._topic.overrides if self._topic else {}
        )

    def default(self, name: str) -> str:
        return to_text(self._cluster.config.topic_default(name)) or ""

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        overrides = {name: text for name, text in values.items() if text is not None}
        # Kafka checks the values first, then whether the topic exists.
        check_topic(self._cluster.config, overrides)
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

    def __init__(self, request: Request, name: str) -> None:
        if name:
            check_broker(request, name)
        self._source = DYNAMIC_BROKER_CONFIG if name else DYNAMIC_DEFAULT_BROKER_CONFIG
        self._cluster = request.node.cluster
        self.values: Mapping[str, str | None] = self._cluster.config.dynamic(
            self._source
        )

    def default(self, name: str) -> str:
        return to_text(self._cluster.config[name]) or ""

    def put(self, values: Mapping[str, str | None], validate_only: bool) -> None:
        changes = dict.fromkeys(self.values.keys() - values.keys())
        changes |= {
            name: text
            for name, text in values.items()
            if name not in self.values or text != self.values[name]
        }
        for name in changes.keys() - BROKER_KEYS.keys():
            # Kafka takes keys that it does not know: they may be a plug-in's.
            log.warning("unknown_key_ignored", key=name)
            del changes[name]
        try:
            self._cluster.config.alter(
                changes, source=self._source, validate_only=validate_only
            )
        except ConfigError as error:
            raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from None
        if changes and not validate_only:
            try:
                self._cluster.topics.reconfigure()
            except StorageError as error:
                raise _not_kept(error) from None
