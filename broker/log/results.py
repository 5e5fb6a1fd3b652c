"""The results of a partition's methods, and the offsets that requests give names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.protocol.fields import Buffer
from kohort.protocol.slotted import slotted

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

HIGH_WATERMARK: Final = -1
"""Offset in DeleteRecords that deletes all records."""


@slotted
class AppendResult:
    """Result of an append; the fields of a partition in Produce's response.

    Attributes:
        error_code: NONE for a repeated batch, too.
        base_offset: of the first record, that of the first time for a repeated
            batch; -1 with an error.
        last_offset: of the last record; -1 with an error.
        log_append_time_ms: -1 with CreateTime or an error. A repeated batch has
            the largest timestamp of its first time, with either timestamp type.
        log_start_offset: -1 with errors that Kafka finds before it has the log.
        error_message: as in the response; None for most errors, as in Kafka.
        record_errors: (position in the batch, message) of refused records.
        reason: the fault in words, for logs.
    """

    error_code: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    reason: str = ""


@slotted
class ReadResult:
    """Result of a read for Fetch: batches, in consecutive `buffers`."""

    error_code: int
    buffers: Sequence[Buffer]
    size_in_bytes: int


@slotted
class FoundOffset:
    """Result of a lookup for ListOffsets; -1: no offset, timestamp or epoch."""

    error_code: int
    timestamp_ms: int
    offset: int
    leader_epoch: int
