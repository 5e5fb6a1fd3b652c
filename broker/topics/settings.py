"""Settings of topics: a topic's own configuration overrides the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.broker.config import Config
from kohort.broker.log.settings import LogConfig
from kohort.protocol.compression import CODECS, NONE

SMALLEST_SEGMENT: Final = 1024 * 1024
"""Bytes: the minimum ``segment.bytes`` of a topic."""

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
        # Kafka starts with a lower value, and then cannot create the topic.
        "segment.bytes": str(
            max(config["offsets.topic.segment.bytes"], SMALLEST_SEGMENT)
        ),
    }


def transactions_topic_overrides(config: Config, replicas: int) -> dict[str, str]:
    """Configuration of ``__transaction_state`` that differs from the broker's.

    Args:
        config: the broker's.
        replicas: its replicas, at least as many as have to be in sync.
    """
    min_isr = min(config["transaction.state.log.min.isr"], replicas)
    segment_bytes = config["transaction.state.log.segment.bytes"]
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": str(max(segment_bytes, SMALLEST_SEGMENT)),
        "unclean.leader.election.enable": "false",
    }


EVENTS_TOPIC_OVERRIDES = {
    "cleanup.policy": "delete",
    # Nothing else bounds it in memory; some 250,000 events.
    "retention.bytes": str(128 * 1024 * 1024),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""Configuration of `EVENTS_TOPIC` that CreateTopics does not set."""
