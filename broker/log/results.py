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
"""What DeleteRecords asks for to delete everything."""


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
