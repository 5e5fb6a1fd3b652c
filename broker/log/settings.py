"""Settings of a partition's log, with Apache Kafka's defaults."""

from __future__ import annotations

from typing import Final

from kohort.protocol.slotted import slotted

NO_LIMIT_MS: Final = 2**63 - 1
"""Default of both ``message.timestamp.*.max.ms``."""

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


@slotted
class LogConfig:
    """Settings of the log of a topic's partitions.

    Kafka's own keys and defaults; `producer_id_expiration_ms` is the broker's
    ``producer.id.expiration.ms``. -1 means no limit for both retentions. Segment, index
    and flush settings apply to logs in files. `compression_codec` is the number of
    ``compression.type``, None for ``producer``; the level is that of the codec.
    """

    message_timestamp_type: str = CREATE_TIME
    max_message_bytes: int = 1048588
    retention_ms: int = 604800000
    retention_bytes: int = -1
    cleanup_policy: str = "delete"
    message_timestamp_before_max_ms: int = NO_LIMIT_MS
    message_timestamp_after_max_ms: int = 3600000
    producer_id_expiration_ms: int = 86400000
    segment_bytes: int = 1073741824
    segment_ms: int = 604800000
    segment_index_bytes: int = 10485760
    index_interval_bytes: int = 4096
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 86400000
    compression_codec: int | None = None
    compression_level: int | None = None


DEFAULTS: Final = LogConfig()
