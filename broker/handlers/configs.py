"""The resources that have a configuration, and the checks that their APIs share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kohort.broker.cluster import resource_configs
from kohort.broker.config import (
    Config,
    ConfigError,
    parse_topic,
)
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.request import Request
from kohort.broker.topics.topic import why_no_topic_name
from kohort.protocol.errors import ErrorCode

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = resource_configs.CLIENT_METRICS
GROUP = resource_configs.GROUP

NAMES = {
    TOPIC: "topic",
    BROKER: "broker",
    BROKER_LOGGER: "logger",
    CLIENT_METRICS: "client metrics",
    GROUP: "group",
}
"""The resource types that have configurations in Kafka (KIP-133, KIP-412, KIP-714,
KIP-848)."""

_THROTTLED = re.compile(r"\s*(\*|\d+:\d+(\s*,\s*\d+:\d+)*)?\s*").fullmatch
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}").fullmatch


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


def check_topic_name(name: str) -> None:
    """Checks that a name is a legal topic name.

    Raises:
        RefusedError: INVALID_TOPIC_EXCEPTION.
    """
    why = why_no_topic_name(name)
    if why is not None:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def check_broker(request: Request, name: str) -> None:
    """Checks that the named broker is the one that received the request.

    Raises:
        RefusedError: INVALID_REQUEST.
    """
    if not _INTEGER(name) or int(name) != request.node.id:
        why = f"this is broker {request.node.id}, not {name[:260]!r}"
        raise RefusedError(ErrorCode.INVALID_REQUEST, why)


def refused_type(resource_type: int) -> RefusedError:
    """INVALID_REQUEST for a resource type that the API does not support."""
    kind = NAMES.get(resource_type, str(resource_type))
    why = f"this request cannot be about a resource of type {kind}"
    return RefusedError(ErrorCode.INVALID_REQUEST, why)
