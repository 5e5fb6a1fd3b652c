"""Settings of topics: the broker's configuration, and a topic's own above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.broker.config import Config
from kohort.broker.log.settings import LogConfig
from kohort.protocol.compression import CODECS, NONE

SMALLEST_SEGMENT: Final = 1024 * 1024
"""Bytes: the least that ``segment.bytes`` of a topic may be."""

_CODECS: Final = {"producer": None, "uncompressed": NONE} | {
    name: number for number, name in enumerate(CODECS) if number
}


def log_config(config: Config, overrides: Mapping[str, str]) -> LogConfig:
    """Settings of the logs of a topic with these overrides."""
    values = config.topic(overrides)
    codec = values["compression.type"]
    return LogConfig(
        message_timestamp_type=values["message.timestamp.type"],
        max_message_bytes=values["max.message.bytes"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        cleanup_policy=",".join(values["cleanup.policy"]),
        message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        segment_index_bytes=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        delete_retention_ms=values["delete.retention.ms"],
        compression_codec=_CODECS[codec],
        compression_level=values.get(f"compression.{codec}.level"),
    )


def offsets_topic_overrides(config: Config) -> dict[str, str]:
    """Configuration of ``__consumer_offsets`` that differs from the broker's."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        # Kafka lets a broker start with less, and has no topic then.
        "segment.bytes": str(
            max(config["offsets.topic.segment.bytes"], SMALLEST_SEGMENT)
        ),
    }


EVENTS_TOPIC_OVERRIDES = {
    "cleanup.policy": "delete",
    # In memory nothing else bounds it; some 250,000 events.
    "retention.bytes": str(128 * 1024 * 1024),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""Configuration of `EVENTS_TOPIC` that CreateTopics does not set."""
