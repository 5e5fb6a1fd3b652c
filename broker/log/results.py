"""The results of a partition's methods, and the special offsets of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.records import BatchError
from kohort.protocol.slotted import slotted

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

HIGH_WATERMARK: Final = -1
"""Offset in DeleteRecords that deletes all records."""


# Errors that Kafka answers with log start offset -1 although they come from the log: it
# has no other information about these appends.
_WITHOUT_LOG_START = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


@slotted
class AppendResult:
    """Result of an append; the fields of a partition in Produce's response.

    Attributes:
        error_code: NONE for a repeated batch, too.
        base_offset: offset of the first record, for a repeated batch that of the first
            time; -1 with an error.
        last_offset: offset of the last record; -1 with an error.
        log_append_time_ms: -1 with CreateTime or an error. A repeated batch has the
            largest timestamp of its first time, with either timestamp type.
        log_start_offset: -1 with errors that Kafka detects before it has the log.
        error_message: as in the response; None for most errors, as in Kafka.
        record_errors: (position in the batch, message) of refused records.
        reason: the error in words, for logs.
    """

    error_code: int
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    reason: str = ""


def refused(
    error: BatchError, record_errors: Sequence[tuple[int, str]], log_start_offset: int
) -> AppendResult:
    """The result for a batch that is not appended.

    Args:
        error: the reason.
        record_errors: see `AppendResult`.
        log_start_offset: of the partition.
    """
    reason = error.reason
    if record_errors:
        reason = f"{reason}: {record_errors[0][1]}"
    knows_log = error.error_code not in _WITHOUT_LOG_START
    return AppendResult(
        error.error_code,
        -1,
        -1,
        -1,
        log_start_offset if knows_log else -1,
        error.reason if error.on_wire else None,
        record_errors,
        reason=reason,
    )


@slotted
class ReadResult:
    """Result of a read for Fetch: batches, in consecutive `buffers`.

    Attributes:
        aborted: the aborted transactions among them, for a reader of committed records;
            None if the first batch does not fit.
    """

    error_code: int
    buffers: Sequence[Buffer]
    size_in_bytes: int
    aborted: Sequence[AbortedTransaction] | None = ()


@slotted
class FoundOffset:
    """Result of a lookup for ListOffsets; -1: no offset, timestamp or epoch."""

    error_code: int
    timestamp_ms: int
    offset: int
    leader_epoch: int
