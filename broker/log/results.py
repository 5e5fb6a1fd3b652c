"""What goes into a partition's log as configuration, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.protocol.messages import Buffer
from kohort.protocol.slotted import slotted

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

HIGH_WATERMARK: Final = -1
"""What DeleteRecords asks for to delete everything."""

NO_LIMIT_MS: Final = 2**63 - 1
"""Of both ``message.timestamp.*.max.ms``."""

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


@slotted
class LogConfig:
    """What the log itself needs to know of a topic's configuration.

    Kafka's own keys and defaults; `producer_id_expiration_ms` is the broker's
    ``producer.id.expiration.ms``. -1 is no limit for both retentions. Segments,
    index and flush are for logs in files.
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


DEFAULTS: Final = LogConfig()


@slotted
class AppendResult:
    """What became of a batch; the fields of a partition in Produce's response.

    Attributes:
        error_code: NONE for a repeated batch, too.
        base_offset: of the first record, that of the first time for a repeated
            batch; -1 with an error.
        last_offset: of the last record; -1 with an error.
        log_append_time_ms: -1 with CreateTime or an error. A repeated batch has
            the largest timestamp of its first time, whatever the type.
        log_start_offset: -1 with errors that Kafka finds before it has the log.
        error_message: what goes on the wire; None for most errors, as in Kafka.
        record_errors: (position in the batch, message) of refused records.
        is_duplicate: the batch was there already; nothing was appended.
        reason: what is wrong, for logs.
    """

    error_code: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    is_duplicate: bool = False
    reason: str = ""


@slotted
class ReadResult:
    """What Fetch gets: whole batches, in `buffers` that follow one another."""

    error_code: int
    buffers: Sequence[Buffer]
    size_in_bytes: int


@slotted
class FoundOffset:
    """What ListOffsets gets; offset, timestamp and epoch are -1 for none."""

    error_code: int
    timestamp_ms: int
    offset: int
    leader_epoch: int
