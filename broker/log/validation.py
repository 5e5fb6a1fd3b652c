"""Validates the records of a client's batch, as Apache Kafka's LogValidator does.

A partition appends a batch in three steps:

1. `UnreadBatch` gets a batch with a valid header, and reads its first records. Most
   batches have no more.
2. The caller lets it `read` the others a piece at a time, and gives turns to other
   requests in between: the largest batches take a second.
3. It has either a `refusal`, or the batch to append.

Uncompressed records get a quick look (`Survey`). If that finds anything unusual, and in
compressed batches, each record is read and validated.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.broker.long_work import DONE
from kohort.protocol import compression, records
from kohort.protocol.compression import DamagedError, TooLargeError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError
from kohort.protocol.recompression import UnfitError, recompress_in_pieces
from kohort.protocol.record_heads import SizeError
from kohort.protocol.record_rows import FAR
from kohort.protocol.record_survey import Survey
from kohort.protocol.records import BatchError, BatchHeader
from kohort.protocol.slotted import slotted
from kohort.protocol.varints import wrapped

MOST_RECORD_ERRORS: Final = 10_000
"""Refused records that are listed one by one (KIP-467); after these, the rest of the
batch is not read. It is librdkafka's largest batch by default; a million of them would
make a response of 100 MB."""


@slotted
class Refusal:
    """The reason for refusing a batch for its records.

    Attributes:
        error: the code, and the reason.
        record_errors: (position in the batch, message) of refused records.
    """

    error: BatchError
    record_errors: list[tuple[int, str]]


class UnreadBatch:
    """A batch whose records a partition reads before it appends it.

    Args:
        name: topic and partition, for messages.
        config: the topic's settings, which decide whether records are valid.
        header: the batch's header.
        data: the batch.
        now_ms: ms since the epoch.

    Attributes:
        config: see Args; if it has changed since, read the batch anew.
        header: the header of `data`.
        data: the batch to append: the given one, or one with its records in the topic's
            codec.
        max_timestamp: the largest of its records; Kafka does not trust the header.
        refusal: after reading, the reason why it is not appended, or None.
        is_read: whether all records were read.
    """

    __slots__ = (
        "_name",
        "_now",
        "_steps",
        "_survey",
        "config",
        "data",
        "header",
        "is_read",
        "max_timestamp",
        "refusal",
    )

    def __init__(
        self,
        name: str,
        config: LogConfig,
        header: BatchHeader,
        data: memoryview,
        now_ms: int,
    ) -> None:
        self._name = name
        self._now = now_ms
        self.config = config
        self.header = header
        self.data = data
        self.max_timestamp = header.max_timestamp
        self.refusal: Refusal | None = None
        self._survey: Survey | None = None
        # A generator refers to this object. Without one, the batch's bytes are freed at
        # once, and not by the garbage collector.
        self._steps: Generator[None, None, None] | None = None
        self.is_read = self._is_surveyed()
        if not self.is_read:
            steps = self._read()
            self.is_read = next(steps, DONE) is DONE
            self._steps = None if self.is_read else steps

    def read(self) -> Generator[None, None, None]:
        """Reads the remaining records; other work may run in between."""
        yield
        if self._steps is not None:
            yield from self._steps
        self._steps = None
        self.is_read = True

    def _read(self) -> Generator[None, None, None]:
        try:
            yield from self._check_records()
        except TooLargeError as error:
            # A Java producer splits the batch after this code.
            self._refuse(ErrorCode.MESSAGE_TOO_LARGE, str(error))
        except (DamagedError, UnfitError) as error:
            # Kafka has no error code for these exceptions.
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        except SizeError as error:
            is_plain = self.header.codec == compression.NONE
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refuse(code if is_plain else ErrorCode.INVALID_RECORD, str(error))
        except WireError as error:
            reason = f"records cannot be read: {error}"
            self._refuse(ErrorCode.INVALID_RECORD, reason)

    def _refuse(self, code: ErrorCode, reason: str) -> None:
        self.refusal = Refusal(BatchError(code, reason), [])

    def _is_surveyed(self) -> bool:
        """Surveys the first records; True if there are no more, and all are valid."""
        if self.header.codec != compression.NONE or self._target is not None:
            return False
        survey = Survey(self.data[records.HEADER_SIZE :], self.header.record_count)
        if not survey.read_some():
            return False
        if survey.is_done:
            return self._accepts(survey)
        self._survey = survey
        return False

    def _check_records(self) -> Generator[None, None, None]:
        if self._survey is None or not (yield from self._go_on(self._survey)):
            yield from self._check_each_record()
        if self._target is not None and self.refusal is None:
            yield from self._recompress(self._target)

    @property
    def _target(self) -> int | None:
        """The codec that the records should have; None if they have it."""
        codec = self.config.compression_codec
        return None if codec == self.header.codec else codec

    def _go_on(self, survey: Survey) -> Generator[None, None, bool]:
        """Finishes a survey; returns whether all records are certainly valid."""
        yield
        while survey.read_some():
            if survey.is_done:
                return self._accepts(survey)
            yield
        return False

    def _accepts(self, survey: Survey) -> bool:
        """Returns whether all surveyed records are certainly valid."""
        header, config = self.header, self.config
        if header.is_log_append_time or not -FAR < header.base_timestamp < FAR:
            return False
        if "compact" in config.cleanup_policy and not survey.has_keys:
            return False
        earliest = header.base_timestamp + survey.earliest
        latest = header.base_timestamp + survey.latest
        if config.message_timestamp_type != LOG_APPEND_TIME and (
            self._now - earliest > config.message_timestamp_before_max_ms
            or latest - self._now > config.message_timestamp_after_max_ms
        ):
            return False
        self.max_timestamp = max(latest, records.NO_TIMESTAMP)
        return True

    def _check_each_record(self) -> Generator[None, None, None]:
        header = self.header
        is_compacted = "compact" in self.config.cleanup_policy
        code = ErrorCode.INVALID_RECORD
        found: list[tuple[int, str]] = []
        max_timestamp = records.NO_TIMESTAMP
        are_consecutive = True
        count = 0
        for some in records.read_heads(self.data):
            for position, (offset, time, has_key) in enumerate(some, count):
                max_timestamp = max(max_timestamp, time)
                are_consecutive = are_consecutive and offset == position
                if is_compacted and not has_key:
                    found.append((position, f"no key, and {self._name} is compacted"))
                elif reason := self._time_error(time):
                    code = ErrorCode.INVALID_TIMESTAMP
                    found.append((position, reason))
            count += len(some)
            if len(found) >= MOST_RECORD_ERRORS:
                del found[MOST_RECORD_ERRORS:]
                break
            if count < header.record_count or not some:
                yield
        self.max_timestamp = max_timestamp
        if found:
            reason = f"{len(found)} of {header.record_count} records are refused"
            self.refusal = Refusal(BatchError(code, reason, True), found)
        elif header.codec and not are_consecutive and self._target is None:
            # Kafka tries to rewrite them, and fails, as it has not kept them.
            reason = "offsets of compressed records are not consecutive"
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, reason)

    def _time_error(self, time: int) -> str:
        """The reason why a record may not have this timestamp; "" if it may."""
        config = self.config
        is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        if is_append_time or time == records.NO_TIMESTAMP:
            # Kafka rejects the producer's LogAppendTime in no other case.
            if self.header.is_log_append_time:
                return "only the broker sets LogAppendTime"
            return ""
        earliest = self._now - config.message_timestamp_before_max_ms
        latest = self._now + config.message_timestamp_after_max_ms
        age = wrapped(self._now - time)
        if age <= self._now - earliest and wrapped(-age) <= latest - self._now:
            return ""
        return f"timestamp {time} is not within [{earliest}, {latest}]"

    def _recompress(self, codec: int) -> Generator[None, None, None]:
        made = yield from recompress_in_pieces(
            self.header,
            self.data,
            codec,
            self.config.compression_level,
            self.config.max_message_bytes,
        )
        self.data = memoryview(made)
        self.header = records.read_header(made)
