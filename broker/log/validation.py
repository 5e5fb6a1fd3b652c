"""Reads the records of a client's batch if its header is not enough to validate it.

That takes a second for the largest batches, so it is done a piece at a time, before
the batch is appended: see `UnreadBatch`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from kohort.broker.log.settings import LOG_APPEND_TIME, NO_LIMIT_MS, LogConfig
from kohort.protocol import records
from kohort.protocol.compression import TooLargeError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchError, BatchHeader
from kohort.protocol.slotted import slotted

MOST_RECORD_ERRORS: Final = 10_000
"""Refused records that are listed one by one (KIP-467); from then on the batch is not
read any further. It is librdkafka's largest batch by default; a million of them would
make a response of 100 MB."""


def must_read(config: LogConfig, header: BatchHeader, now_ms: int) -> bool:
    """Whether the records have to be read to validate the batch."""
    if "compact" in config.cleanup_policy:
        return True
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return bool(header.attributes & records.LOG_APPEND_TIME)
    return (
        header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != NO_LIMIT_MS
    )


@slotted
class Refusal:
    """Why a batch is refused for its records.

    Attributes:
        error: the code, and the reason.
        record_errors: (position in the batch, message) of refused records.
    """

    error: BatchError
    record_errors: list[tuple[int, str]]


class UnreadBatch:
    """A batch that a partition appends only after its records were read.

    Args:
        name: topic and partition, for messages.
        config: the topic's, by which the records are judged.
        data: the batch.
        now_ms: ms since the epoch.

    Attributes:
        config: see Args; where it has changed since, the batch is to be read anew.
        refusal: once it was read: why it is not appended, or None.
    """

    __slots__ = ("_data", "_name", "_now", "config", "refusal")

    def __init__(
        self, name: str, config: LogConfig, data: memoryview, now_ms: int
    ) -> None:
        self._name = name
        self._data = data
        self._now = now_ms
        self.config = config
        self.refusal: Refusal | None = None

    def read(self) -> Generator[None, None, None]:
        """Reads the records, and sets `refusal`; others may have turns in between."""
        try:
            yield from self._check_records()
        except TooLargeError as error:
            # A Java producer that gets this code splits the batch.
            found = BatchError(ErrorCode.MESSAGE_TOO_LARGE, str(error))
            self.refusal = Refusal(found, [])
        except WireError as error:
            reason = f"records cannot be read: {error}"
            found = BatchError(ErrorCode.INVALID_RECORD, reason)
            self.refusal = Refusal(found, [])

    def _check_records(self) -> Generator[None, None, None]:
        config, header = self.config, records.read_header(self._data)
        earliest = self._now - config.message_timestamp_before_max_ms
        latest = self._now + config.message_timestamp_after_max_ms
        is_compacted = "compact" in config.cleanup_policy
        is_create_time = config.message_timestamp_type != LOG_APPEND_TIME
        is_stamped = header.is_log_append_time and not is_create_time
        code = ErrorCode.INVALID_RECORD
        found: list[tuple[int, str]] = []
        count = 0
        for some in records.read_heads(self._data):
            for position, (_, time, has_key) in enumerate(some, count):
                is_timed = is_create_time and time != records.NO_TIMESTAMP
                if is_compacted and not has_key:
                    found.append((position, f"no key, and {self._name} is compacted"))
                elif is_timed and not earliest <= time <= latest:
                    code = ErrorCode.INVALID_TIMESTAMP
                    reason = f"timestamp {time} is not within [{earliest}, {latest}]"
                    found.append((position, reason))
                elif is_stamped:
                    # Kafka minds it only where the topic has this type.
                    code = ErrorCode.INVALID_TIMESTAMP
                    found.append((position, "only the broker sets LogAppendTime"))
            count += len(some)
            if len(found) >= MOST_RECORD_ERRORS:
                del found[MOST_RECORD_ERRORS:]
                break
            yield
        if found:
            reason = f"{len(found)} of {header.record_count} records are refused"
            self.refusal = Refusal(BatchError(code, reason, True), found)
