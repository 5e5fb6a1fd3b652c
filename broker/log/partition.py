"""One partition: its offsets, its batches, its producers, and its waiting fetches.

Nothing here knows a socket or a clock: time is an argument, mistakes of clients
come back as error codes. There is one replica, so that the high watermark and
the last stable offset are the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

from kohort.broker.log.memory import BatchStore, packed
from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    HIGH_WATERMARK,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    AppendResult,
    FoundOffset,
    ReadResult,
)
from kohort.broker.log.settings import DEFAULTS, LOG_APPEND_TIME, LogConfig
from kohort.broker.log.store import StorageError, Store
from kohort.broker.log.validation import UnreadBatch
from kohort.broker.long_work import finish
from kohort.broker.telemetry import Logger
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import BatchError, BatchHeader
from kohort.protocol.slotted import replace

log = Logger("kohort.log")

_NOTHING = ReadResult(ErrorCode.NONE, (), 0)
_OUT_OF_RANGE = ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE, (), 0)
_UNREADABLE = ReadResult(ErrorCode.KAFKA_STORAGE_ERROR, (), 0)
_NEGATIVE = ReadResult(ErrorCode.UNKNOWN_SERVER_ERROR, (), 0)
_NOT_FOUND = FoundOffset(ErrorCode.NONE, -1, -1, -1)
_CLOSED = FoundOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)

# Errors that Kafka answers with log start offset -1 although they come from
# the log: it has no other information about these appends.
_WITHOUT_LOG_START = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)

NO_TRANSACTIONS = BatchError(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "kohort has no transactions"
)


class Partition:
    """A partition's log.

    Attributes:
        log_start_offset: the first offset that may be read.
        log_end_offset: the offset that the next record gets.
        epochs: leader epochs, and where each began.
        producers: idempotent producers.
        name: topic and partition, for messages.
        store: where the batches are.
        is_closed: nothing may be done with it any more.
        appended_bytes: bytes of all batches since the partition was opened.
        watchers: the callbacks that wait for the partition to change, in the order in
            which they came, so that runs are repeatable.
        woken: the number of callbacks that `wake` calls, or has called last.
    """

    __slots__ = (
        "_config",
        "_is_failing",
        "appended_bytes",
        "epochs",
        "is_closed",
        "log_end_offset",
        "log_start_offset",
        "name",
        "producers",
        "store",
        "watchers",
        "woken",
    )

    def __init__(
        self,
        name: str,
        config: LogConfig = DEFAULTS,
        *,
        leader_epoch: int = 0,
        store: Store | None = None,
    ) -> None:
        self.name = name
        self.store: Store = BatchStore() if store is None else store
        self.config = config
        found = self.store.start()
        self.log_start_offset = found.log_start_offset
        self.log_end_offset = found.log_end_offset
        self.epochs = found.epochs
        self.producers = found.producers
        self.is_closed = False
        self.appended_bytes = 0
        self.woken = 0
        # So that a full disk is one line in the log, not one per request.
        self._is_failing = False
        self.begin_epoch(leader_epoch)
        self.watchers: dict[Callable[[], None], None] = {}

    @property
    def config(self) -> LogConfig:
        """May be replaced at any time, and counts from the next call on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = self.store.config = config

    @property
    def high_watermark(self) -> int:
        """The offset behind the last record that consumers may read."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, as there are no open transactions."""
        return self.log_end_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches are written in."""
        return self.epochs.latest

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches that are kept."""
        return self.store.size_in_bytes

    # -- appending

    def append(self, batch: Buffer, *, now_ms: int, zstd: bool = True) -> AppendResult:
        """Like `append_or_read`, of any bytes; reads all records at once.

        Args:
            batch: the records of this partition in a Produce request.
            now_ms: ms since the epoch.
            zstd: whether the version of Produce allows zstd (v7 and later).
        """
        error = records.check_first(batch) or records.check_framing(batch, zstd=zstd)
        if error is not None:
            return replace(self._refused(error, []), log_start_offset=-1)
        unread: UnreadBatch | None = None
        while True:
            result = self.append_or_read(batch, now_ms=now_ms, read=unread)
            if isinstance(result, AppendResult):
                return result
            unread = result
            finish(unread.read())

    def append_or_read(
        self, batch: Buffer, *, now_ms: int, read: UnreadBatch | None = None
    ) -> AppendResult | UnreadBatch:
        """Appends a client's batch, if it is valid and next in sequence.

        Args:
            batch: the records of this partition in a Produce request, after
                `records.check_framing`. A long one is not copied: its bytes must not
                change later.
            now_ms: ms since the epoch.
            read: the result of the last call with this batch, after its records were
                read.

        Returns:
            An `UnreadBatch` where nothing was appended as there are more records to
            read: have it read them, then call this again.
        """
        if read is None or read.config != self._config:
            header = records.read_header(batch)
            data = memoryview(batch)[: header.size]
            error = records.check_batch(header, data, self._config.max_message_bytes)
            if error is not None:
                return self._refused(error, [])
            if header.is_transactional:
                return self._refused(NO_TRANSACTIONS, [])
            read = UnreadBatch(self.name, self._config, header, data, now_ms)
        if not read.is_read:
            return read
        if read.refusal is not None:
            return self._refused(read.refusal.error, read.refusal.record_errors)
        if read.header.size > self._config.segment_bytes:
            return self._refused(self._above_segment(read.header), [])
        if read.header.producer_id > records.NO_PRODUCER_ID:
            answer = self._check_producer(read.header)
            if answer is not None:
                return answer
        try:
            return self._write(read.header, read.data, read.max_timestamp, now_ms)
        except StorageError as error:
            reason = BatchError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return self._refused(reason, [])

    def append_own(self, batch: bytes, *, now_ms: int) -> AppendResult:
        """Appends a batch that the broker made: no checks, no producer, no CRC.

        Args:
            batch: as `records.build_batch` makes it.
            now_ms: ms since the epoch.

        Raises:
            StorageError: it is not in the log.
        """
        header = records.read_header(batch)
        return self._write(header, memoryview(batch), header.max_timestamp, now_ms)

    def _write(
        self, header: BatchHeader, data: memoryview, timestamp: int, now_ms: int
    ) -> AppendResult:
        base_offset = self.log_end_offset
        append_time = -1
        head = records.PLACE.pack(base_offset, header.length, self.epochs.latest)
        is_append_time = self._config.message_timestamp_type == LOG_APPEND_TIME
        if is_append_time:
            timestamp = append_time = now_ms
        if (
            timestamp != header.max_timestamp
            or is_append_time != header.is_log_append_time
        ):
            head += records.with_timestamps(
                data, is_append_time=is_append_time, max_timestamp=timestamp
            )[len(head) :]
        last_offset = base_offset + header.last_offset_delta
        batch = packed(head, data)
        try:
            self.store.append(batch, base_offset, last_offset, timestamp, now_ms)
        except StorageError as error:
            self._failed(error)
            raise
        if self._is_failing:
            self._is_failing = False
            log.warning("log_writable_again", partition=self.name)
        self.log_end_offset = last_offset + 1
        self.appended_bytes += header.size
        if header.producer_id > records.NO_PRODUCER_ID:
            self.producers.appended(header, base_offset, timestamp)
        if self.watchers:
            self.wake()
        return AppendResult(
            ErrorCode.NONE,
            base_offset,
            last_offset,
            append_time,
            self.log_start_offset,
        )

    def _failed(self, error: StorageError) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.error("log_write_failed", partition=self.name, reason=str(error))

    def _unreadable(self, error: StorageError) -> None:
        log.error("log_read_failed", partition=self.name, reason=str(error))

    def _above_segment(self, header: BatchHeader) -> BatchError:
        limit = self._config.segment_bytes
        reason = f"{header.size} bytes are above segment.bytes ({limit})"
        return BatchError(ErrorCode.RECORD_LIST_TOO_LARGE, reason)

    def _refused(
        self, error: BatchError, record_errors: list[tuple[int, str]]
    ) -> AppendResult:
        reason = error.reason
        if record_errors:
            reason = f"{reason}: {record_errors[0][1]}"
        knows_log = error.error_code not in _WITHOUT_LOG_START
        return AppendResult(
            error.error_code,
            -1,
            -1,
            -1,
            self.log_start_offset if knows_log else -1,
            error.reason if error.on_wire else None,
            record_errors,
            reason=reason,
        )

    def _check_producer(self, header: BatchHeader) -> AppendResult | None:
        verdict = self.producers.check(header)
        start = self.log_start_offset
        if not isinstance(verdict, int):
            return AppendResult(
                ErrorCode.NONE,
                verdict.first_offset,
                verdict.last_offset,
                verdict.timestamp_ms,
                start,
            )
        if verdict == ErrorCode.NONE:
            return None
        reason = (
            f"producer {header.producer_id}, epoch {header.producer_epoch}, "
            f"sequence {header.base_sequence}"
        )
        return self._refused(BatchError(verdict, reason), [])

    # -- reading

    def read(self, offset: int, max_bytes: int, *, minimum_one: bool) -> ReadResult:
        """Batches, from the one that contains `offset` on.

        So the first records may lie before `offset`, and the last batch may be cut off;
        consumers skip both. At the end of the log there is nothing, and that is no
        error.

        Args:
            offset: of the first record that is wanted.
            max_bytes: limit of all batches together.
            minimum_one: give the first batch even if it alone has more
                (KIP-74).
        """
        nothing = self._why_nothing(offset, max_bytes)
        if nothing is not None:
            return nothing
        try:
            buffers, size = self.store.read(offset, max_bytes, minimum_one=minimum_one)
        except StorageError as error:
            self._unreadable(error)
            return _UNREADABLE
        return ReadResult(ErrorCode.NONE, buffers, size)

    def read_in_pieces(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> Generator[None, None, ReadResult]:
        """Like `read`; others may have turns between two pieces."""
        nothing = self._why_nothing(offset, max_bytes)
        if nothing is not None:
            return nothing
        try:
            buffers, size = yield from self.store.read_in_pieces(
                offset, max_bytes, minimum_one=minimum_one
            )
        except StorageError as error:
            if not self.is_closed:
                self._unreadable(error)
            return _UNREADABLE
        return ReadResult(ErrorCode.NONE, buffers, size)

    def _why_nothing(self, offset: int, max_bytes: int) -> ReadResult | None:
        if offset == self.log_end_offset:
            return _NOTHING
        if not self.log_start_offset <= offset < self.log_end_offset:
            return _OUT_OF_RANGE
        # Kafka fails as late as this.
        return _NEGATIVE if max_bytes < 0 else None

    def readable(self, offset: int) -> int:
        """Bytes from the batch with an offset on; -1 if it cannot be read from.

        Reads no batch: fetches that wait for more bytes ask this.
        """
        if offset == self.log_end_offset:
            return 0
        if not self.log_start_offset <= offset < self.log_end_offset:
            return -1
        try:
            return self.store.readable(offset)
        except StorageError:
            # A read finds it, too, and logs it.
            return -1

    def batches(self, start: int) -> Iterator[bytes]:
        """Whole batches from `start` on; those that come meanwhile, too.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """
        return self.store.batches(start, 2**63 - 1)

    # -- waiting

    def watch(self, callback: Callable[[], None]) -> None:
        """Calls `callback` whenever the partition changes, until `unwatch`."""
        self.watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Ends `watch`; no effect without one."""
        self.watchers.pop(callback, None)

    def wake(self) -> None:
        """Calls all watchers; also called when the partition is deleted or moved."""
        watchers = tuple(self.watchers)
        self.woken = len(watchers)
        for callback in watchers:
            callback()

    # -- finding offsets

    def find_offset(self, timestamp: int) -> Generator[None, None, FoundOffset]:
        """The offset of a point in time, or of one of Kafka's named ones.

        Reads the records of one batch, rarely of more: others may have turns in
        between.

        Args:
            timestamp: ms since the epoch, for the first record that is not
                older; or EARLIEST, LATEST, MAX_TIMESTAMP (KIP-734: the first
                record with the largest timestamp), EARLIEST_LOCAL (KIP-405).
                LATEST_TIERED and EARLIEST_PENDING_UPLOAD find nothing.
        """
        start, end = self.log_start_offset, self.log_end_offset
        if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
            try:
                return (yield from self._by_records(timestamp))
            except StorageError as error:
                self._unreadable(error)
                return FoundOffset(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        if timestamp == LATEST:
            return FoundOffset(ErrorCode.NONE, -1, end, self.epochs.latest)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(ErrorCode.NONE, -1, start, self.epochs.at(start))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return _NOT_FOUND
        return FoundOffset(ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)

    def _by_records(self, timestamp: int) -> Generator[None, None, FoundOffset]:
        if timestamp == MAX_TIMESTAMP:
            # Kafka does not look at the start of the log here.
            found = self._first_not_older(*self.store.latest(), 0)
        else:
            start = self.log_start_offset
            batches = self.store.since(timestamp, start)
            found = self._first_not_older(timestamp, batches, start)
        return (yield from found)

    def _first_not_older(
        self, timestamp: int, batches: Iterable[bytes], start: int
    ) -> Generator[None, None, FoundOffset]:
        for batch in batches:
            epoch = records.read_header(batch).partition_leader_epoch
            try:
                for heads in records.read_heads(batch):
                    for offset, time, _ in heads:
                        if time < timestamp or offset < start:
                            continue
                        if offset >= self.log_end_offset:
                            # Its offset is beyond the last offset of its batch.
                            return _NOT_FOUND
                        return FoundOffset(ErrorCode.NONE, time, offset, epoch)
                    yield
            except WireError:
                return FoundOffset(ErrorCode.CORRUPT_MESSAGE, -1, -1, -1)
            if self.is_closed:
                return _CLOSED
        return _NOT_FOUND

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers (KIP-101, KIP-320).

        The largest known epoch up to the one asked for, and where it ended;
        (-1, -1) for an epoch that is not known yet.
        """
        return self.epochs.end_of(leader_epoch, self.log_end_offset)

    # -- deleting

    def delete_records(self, before: int) -> tuple[int, int]:
        """Moves the start of the log to `before`: (error code, low watermark).

        The batch that contains `before` is kept whole. An offset below the
        start changes nothing (KIP-107).

        Args:
            before: an offset, or HIGH_WATERMARK for all.
        """
        policy = self.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            return ErrorCode.POLICY_VIOLATION, -1
        if before == HIGH_WATERMARK:
            before = self.high_watermark
        if not 0 <= before <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        try:
            self._start_at(before)
        except StorageError as error:
            self._failed(error)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        return ErrorCode.NONE, self.log_start_offset

    def expire(self, now_ms: int) -> int:
        """Applies retention by time and by size; says how many bytes went.

        Whole segments go, and in memory each batch is one. Producers that have
        been silent for long are forgotten, too.
        """
        config, size = self._config, self.size_in_bytes
        self.producers.expire(now_ms - config.producer_id_expiration_ms)
        if "delete" not in config.cleanup_policy or not size:
            return 0
        end = self.log_end_offset
        try:
            if config.retention_ms >= 0:
                youngest = now_ms - config.retention_ms
                self._start_at(self.store.first_offset_younger(youngest, end))
            if 0 <= config.retention_bytes < self.size_in_bytes:
                kept = config.retention_bytes
                self._start_at(self.store.first_offset_within(kept, end))
        except StorageError as error:
            self._failed(error)
        return size - self.size_in_bytes

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.store.drop_before(offset, self.log_end_offset)
            self.log_start_offset = offset
            self.epochs.start_at(offset)
            if self.watchers:
                self.wake()

    # -- leading, keeping

    def begin_epoch(self, epoch: int) -> None:
        """A leader was elected; nothing happens if the epoch is not a newer one.

        Raises:
            StorageError: that cannot be written down.
        """
        if epoch > self.epochs.latest:
            self.epochs.begin(epoch, self.log_end_offset)
            self.store.keep_epochs()

    def flush(self) -> None:
        """Makes all batches survive a loss of power.

        Raises:
            StorageError: that did not work.
        """
        self.store.flush()

    def close(self) -> None:
        """Ends the use of the log: wakes waiting fetches, and flushes.

        Raises:
            StorageError: it could not be flushed; it is closed all the same.
        """
        if not self.is_closed:
            self.is_closed = True
            self.wake()
            self.store.close()
