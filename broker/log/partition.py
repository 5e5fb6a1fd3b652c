"""One partition: its offsets, its batches, its producers, and its waiting fetches.

Nothing here uses a socket or a clock: time is an argument, mistakes of clients are
error codes. There is one replica, so the high watermark is the end of the log. The last
stable offset lies before it while a transaction is open: there the oldest one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from kohort.broker.log.ended_transactions import AbortedTransaction, EndMarker
from kohort.broker.log.memory import BatchStore, packed
from kohort.broker.log.producers import Verification
from kohort.broker.log.results import (
    HIGH_WATERMARK,
    AppendResult,
    ReadResult,
    refused,
)
from kohort.broker.log.settings import DEFAULTS, LOG_APPEND_TIME, LogConfig
from kohort.broker.log.store import StorageError, Store, Stored
from kohort.broker.log.validation import UnreadBatch
from kohort.broker.long_work import finish
from kohort.broker.telemetry import Logger
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.markers import Marker, marker_batch
from kohort.protocol.records import BatchError, BatchHeader
from kohort.protocol.slotted import replace

log = Logger("kohort.log")

_NOTHING = ReadResult(ErrorCode.NONE, (), 0)
_OUT_OF_RANGE = ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE, (), 0)
_UNREADABLE = ReadResult(ErrorCode.KAFKA_STORAGE_ERROR, (), 0)
_NEGATIVE = ReadResult(ErrorCode.UNKNOWN_SERVER_ERROR, (), 0)


class Partition:
    """A partition's log.

    Attributes:
        log_start_offset: the first offset that may be read.
        log_end_offset: the offset that the next record gets.
        epochs: leader epochs and their start offsets.
        producers: idempotent producers.
        name: topic and partition, for messages.
        store: the store of the batches.
        is_closed: the partition must not be used any more.
        appended_bytes: bytes of all batches since the partition was opened.
        watchers: the callbacks that wait for the partition to change, in the order in
            which they were added, so that runs are repeatable.
        woken: the number of callbacks that `wake` is calling, or has called last.
    """

    __slots__ = (
        "_config",
        "_first_kept",
        "_has_gaps",
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
        self._first_kept = self._first_batch()
        self._has_gaps = found.log_end_offset > 0
        self.is_closed = False
        self.appended_bytes = 0
        self.woken = 0
        # So that a full disk makes one log line, not one per request.
        self._is_failing = False
        self.begin_epoch(leader_epoch)
        self.watchers: dict[Callable[[], None], None] = {}

    @property
    def config(self) -> LogConfig:
        """May be replaced at any time; applies from the next call on."""
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
        """The offset behind the last record whose transaction has ended."""
        if not self.producers.open:
            return self.log_end_offset
        # Deleted batches do not count, whether their transaction has ended or not.
        first = self.producers.first_open(self.log_end_offset)
        return max(first, self._first_kept)

    @property
    def has_gaps(self) -> bool:
        """True if some offsets may have no record: markers, or compacted records."""
        return self._has_gaps or self.store.replacements > 0

    @property
    def leader_epoch(self) -> int:
        """The epoch in which batches are written."""
        return self.epochs.latest

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches in the log."""
        return self.store.size_in_bytes

    # -- appending

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        zstd: bool = True,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Like `append_or_read`, for any bytes; reads all records at once.

        Args:
            batch: the records of this partition in a Produce request.
            now_ms: ms since the epoch.
            zstd: whether the version of Produce allows zstd (v7 and later).
            verification: see `append_or_read`.
        """
        error = records.check_first(batch) or records.check_framing(batch, zstd=zstd)
        if error is not None:
            return replace(self._refused(error, []), log_start_offset=-1)
        unread: UnreadBatch | None = None
        while True:
            result = self.append_or_read(
                batch, now_ms=now_ms, read=unread, verification=verification
            )
            if isinstance(result, AppendResult):
                return result
            unread = result
            finish(unread.read())

    def verify(self, batch: Buffer, *, now_ms: int, adds: bool) -> Verification | int:
        """Begins to verify a batch that may open a transaction: see `Producers.verify`.

        Args:
            batch: a transactional batch with a whole header.
            now_ms: ms since the epoch.
            adds: the coordinator will add the partition (Produce v12 and later).
        """
        header = records.read_header(batch)
        return self.producers.verify(header, now_ms, adds=adds)

    def append_or_read(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        read: UnreadBatch | None = None,
        verification: Verification | None = None,
    ) -> AppendResult | UnreadBatch:
        """Appends a client's batch, if it is valid and next in sequence.

        Args:
            batch: the records of this partition in a Produce request, after
                `records.check_framing`. A long read-only view is not copied: its bytes
                must not change later.
            now_ms: ms since the epoch.
            read: the result of the last call with this batch, after its records were
                read.
            verification: of `verify`, once the coordinator has confirmed it.

        Returns:
            An `UnreadBatch` if nothing was appended because there are more records to
            read: let it read them, then call this again.
        """
        if read is None or read.config != self._config:
            header = records.read_header(batch)
            data = memoryview(batch)[: header.size]
            error = records.check_batch(header, data, self._config.max_message_bytes)
            if error is not None:
                return self._refused(error, [])
            read = UnreadBatch(self.name, self._config, header, data, now_ms)
        if not read.is_read:
            return read
        if read.refusal is not None:
            return self._refused(read.refusal.error, read.refusal.record_errors)
        if read.header.size > self._config.segment_bytes:
            return self._refused(self._above_segment(read.header), [])
        if read.header.producer_id > records.NO_PRODUCER_ID:
            answer = self._check_producer(read.header, verification)
            if answer is not None:
                return answer
        try:
            return self._write(read.header, read.data, read.max_timestamp, now_ms)
        except StorageError as error:
            reason = BatchError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return self._refused(reason, [])

    def append_own(self, batch: bytes, *, now_ms: int) -> int:
        """Appends a batch that the broker made, without a check of its records.

        Args:
            batch: as made by `records.build_batch`. In a transaction it has a producer
                id and epoch, and no sequence; the broker has verified it.
            now_ms: ms since the epoch.

        Returns:
            The error code: NONE; in a transaction perhaps INVALID_PRODUCER_EPOCH.

        Raises:
            StorageError: it is not in the log.
        """
        header = records.read_header(batch)
        error = self.producers.check_own(header)
        if not error:
            self._write(header, memoryview(batch), header.max_timestamp, now_ms)
        return error

    def append_framed(self, body: bytes, count: int, now_ms: int) -> bool:
        """Appends a batch of records that the broker made now, without a producer.

        The same as `append_own`, but the batch is made with its place in the log.

        Args:
            body: the framed records.
            count: their number.
            now_ms: their time, ms since the epoch.

        Returns:
            False if nothing was appended: the batch is too large, or the log sets the
            time of records.

        Raises:
            StorageError: it is not in the log.
        """
        config = self._config
        size = records.HEADER_SIZE + len(body)
        if (
            size > config.max_message_bytes
            or config.message_timestamp_type == LOG_APPEND_TIME
        ):
            return False
        base_offset, last = self.log_end_offset, count - 1
        fields = 0, last, now_ms, now_ms, -1, -1, -1, count
        batch = records.sealed(base_offset, self.epochs.latest, fields, body)
        length = size - records.LOG_OVERHEAD
        self._store(batch, length, base_offset + last, now_ms, now_ms)
        return True

    def append_marker(self, end: EndMarker, *, now_ms: int) -> AppendResult:
        """Appends the marker that ends a producer's transaction, open or not.

        Args:
            end: the marker.
            now_ms: ms since the epoch, the time of its record.

        Returns:
            The marker's offset; or INVALID_PRODUCER_EPOCH, or
            TRANSACTION_COORDINATOR_FENCED.

        Raises:
            StorageError: it is not in the log.
        """
        error = self.producers.check_marker(end)
        if error:
            reason = (
                f"marker of producer {end.producer_id}, epoch {end.producer_epoch}, "
                f"coordinator epoch {end.coordinator_epoch}"
            )
            return self._refused(BatchError(error, reason), [])
        marker = Marker(end.is_commit, end.coordinator_epoch)
        batch = marker_batch(marker, end.producer_id, end.producer_epoch, now_ms)
        header = records.read_header(batch)
        data = memoryview(batch)
        return self._write(header, data, header.max_timestamp, now_ms, end)

    def _write(
        self,
        header: BatchHeader,
        data: memoryview,
        timestamp: int,
        now_ms: int,
        end: EndMarker | None = None,
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
        produced = header if header.producer_id > records.NO_PRODUCER_ID else None
        length = header.length
        self._store(batch, length, last_offset, timestamp, now_ms, produced, end)
        return AppendResult(
            ErrorCode.NONE,
            base_offset,
            last_offset,
            append_time,
            self.log_start_offset,
        )

    def _store(
        self,
        batch: Stored,
        length: int,
        last_offset: int,
        timestamp: int,
        now_ms: int,
        produced: BatchHeader | None = None,
        end: EndMarker | None = None,
    ) -> None:
        """Appends a batch to the store, and moves the end of the log behind it.

        Args:
            batch: the batch with its base offset and leader epoch.
            length: as in its header.
            last_offset: the offset of its last record.
            timestamp: its largest timestamp.
            now_ms: ms since the epoch.
            produced: its header if it has a producer.
            end: set if it is a marker.

        Raises:
            StorageError: it is not in the log.
        """
        base_offset = self.log_end_offset
        try:
            self.store.append(batch, base_offset, last_offset, timestamp, now_ms)
        except StorageError as error:
            self._failed(error)
            raise
        if self._is_failing:
            self._is_failing = False
            log.warning("log_writable_again", partition=self.name)
        self.log_end_offset = last_offset + 1
        self.appended_bytes += length + records.LOG_OVERHEAD
        if end is not None:
            self._ended(end, base_offset, timestamp)
        elif produced is not None:
            self.producers.appended(produced, base_offset, timestamp, now_ms)
        if self.watchers:
            self.wake()

    def _ended(self, end: EndMarker, offset: int, timestamp: int) -> None:
        """Notes the marker at an offset."""
        self._has_gaps = True
        producer_id = end.producer_id
        first = self.producers.ended(
            producer_id, end.producer_epoch, end.coordinator_epoch, timestamp
        )
        if first >= 0 and not end.is_commit:
            stable = self.producers.first_open(offset + 1)
            aborted = AbortedTransaction(producer_id, first, offset, stable)
            self.store.add_aborted(aborted)

    def _failed(self, error: StorageError) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.error("log_write_failed", partition=self.name, reason=str(error))

    def unreadable(self, error: StorageError) -> None:
        """Logs that batches cannot be read."""
        log.error("log_read_failed", partition=self.name, reason=str(error))

    def _above_segment(self, header: BatchHeader) -> BatchError:
        limit = self._config.segment_bytes
        reason = f"{header.size} bytes are above segment.bytes ({limit})"
        return BatchError(ErrorCode.RECORD_LIST_TOO_LARGE, reason)

    def _refused(
        self, error: BatchError, record_errors: list[tuple[int, str]]
    ) -> AppendResult:
        return refused(error, record_errors, self.log_start_offset)

    def _check_producer(
        self, header: BatchHeader, verification: Verification | None
    ) -> AppendResult | None:
        verdict = self.producers.check(header, verification)
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
        return self._of_another_producer(header, verdict)

    def _of_another_producer(self, header: BatchHeader, error: int) -> AppendResult:
        reason = (
            f"producer {header.producer_id}, epoch {header.producer_epoch}, "
            f"sequence {header.base_sequence}"
        )
        return self._refused(BatchError(error, reason), [])

    # -- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        minimum_one: bool,
        committed: bool = False,
    ) -> ReadResult:
        """Reads batches, from the one that contains `offset` on.

        So the first records may lie before `offset`, and the last batch may be cut off;
        consumers skip both. At the end of the log the result is empty, without an
        error.

        Args:
            offset: the first requested offset.
            max_bytes: limit of all batches together.
            minimum_one: return the first batch even if it alone exceeds the limit
                (KIP-74).
            committed: end at the last stable offset, and list aborted transactions
                (isolation level ``read_committed``).
        """
        nothing = self._why_nothing(offset, max_bytes, committed=committed)
        if nothing is not None:
            return nothing
        store, limit = self.store, max_bytes
        try:
            if committed:
                limit = min(max_bytes, self._stable_bytes(offset))
            buffers, size = store.read(offset, limit, minimum_one=minimum_one)
            aborted = self._aborted(offset, limit, size) if committed else ()
        except StorageError as error:
            self.unreadable(error)
            return _UNREADABLE
        return ReadResult(ErrorCode.NONE, buffers, size, aborted)

    def read_in_pieces(
        self,
        offset: int,
        max_bytes: int,
        *,
        minimum_one: bool,
        committed: bool = False,
    ) -> Generator[None, None, ReadResult]:
        """Like `read`; other work may run between two pieces.

        As in Kafka, records that are deleted meanwhile are OFFSET_OUT_OF_RANGE: without
        them the batches would have a gap that no consumer notices.
        """
        store, limit = self.store, max_bytes
        while True:
            nothing = self._why_nothing(offset, max_bytes, committed=committed)
            if nothing is not None:
                return nothing
            replacements = store.replacements
            try:
                if committed:
                    limit = min(max_bytes, self._stable_bytes(offset))
                buffers, size = yield from store.read_in_pieces(
                    offset, limit, minimum_one=minimum_one
                )
                if offset < self.log_start_offset:
                    return _OUT_OF_RANGE
                if committed and store.replacements != replacements:
                    # Batches are smaller now: some behind the last stable offset may
                    # have got in.
                    continue
                aborted = self._aborted(offset, limit, size) if committed else ()
            except StorageError as error:
                if not self.is_closed:
                    self.unreadable(error)
                return _UNREADABLE
            return ReadResult(ErrorCode.NONE, buffers, size, aborted)

    def _why_nothing(
        self, offset: int, max_bytes: int, *, committed: bool
    ) -> ReadResult | None:
        if offset == self.log_end_offset:
            return _NOTHING
        if not self.log_start_offset <= offset < self.log_end_offset:
            return _OUT_OF_RANGE
        if committed and offset >= self.last_stable_offset:
            return _NOTHING
        # Kafka fails no earlier than here.
        return _NEGATIVE if max_bytes < 0 else None

    def _stable_bytes(self, offset: int) -> int:
        """Bytes from the batch with an offset up to the last stable offset."""
        size = self.store.readable(offset)
        stable = self.last_stable_offset
        return (
            size
            if stable == self.log_end_offset
            else (size - self.store.readable(stable))
        )

    def _aborted(
        self, offset: int, limit: int, size: int
    ) -> Sequence[AbortedTransaction] | None:
        """The aborted transactions in the batches of a read.

        None, as in Kafka, if the limit lets something through, but no whole batch.
        """
        if limit and not size:
            return None
        end = self.store.end_of_read(offset, size)
        return self.store.aborted(offset, end)

    def readable(self, offset: int, *, committed: bool = False) -> int:
        """Bytes from the batch with an offset on; -1 if it cannot be read from.

        Reads no batch: for fetches that wait for more bytes.
        """
        if offset == self.log_end_offset:
            return 0
        if not self.log_start_offset <= offset < self.log_end_offset:
            return -1
        try:
            if not committed:
                return self.store.readable(offset)
            if offset >= self.last_stable_offset:
                return 0
            return self._stable_bytes(offset)
        except StorageError:
            # A read finds the error, too, and logs it.
            return -1

    def batches(self, start: int) -> Iterator[bytes]:
        """Whole batches from `start` on, including those appended meanwhile.

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

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers (KIP-101, KIP-320).

        The largest known epoch up to the requested one, and its end; (-1, -1) for an
        epoch that is not known yet.
        """
        return self.epochs.end_of(leader_epoch, self.log_end_offset)

    # -- deleting

    def delete_records(self, before: int) -> tuple[int, int]:
        """Moves the start of the log to `before`: (error code, low watermark).

        The batch that contains `before` is kept whole. An offset before the start
        changes nothing (KIP-107).

        Args:
            before: an offset, or HIGH_WATERMARK for all records.
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
        """Applies retention by time and by size; returns the number of deleted bytes.

        Deletes whole segments; in memory each batch is one.
        """
        config, size = self._config, self.size_in_bytes
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

    def expire_producers(self, now_ms: int) -> None:
        """Forgets producers that have been silent for ``producer.id.expiration.ms``."""
        self.producers.expire(now_ms - self._config.producer_id_expiration_ms)

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.store.drop_before(offset, self.log_end_offset)
            self.log_start_offset = offset
            self._first_kept = self._first_batch()
            self.epochs.start_at(offset)
            if self.watchers:
                self.wake()

    def _first_batch(self) -> int:
        """The first offset of the batch with the start of the log.

        Looked up only for open transactions: what they hold back begins with a batch.
        """
        start, end = self.log_start_offset, self.log_end_offset
        if self.producers.open:
            for batch in self.store.batches(start, end):
                return records.read_header(batch).base_offset
        return start

    # -- leader epochs, flushing

    def begin_epoch(self, epoch: int) -> None:
        """Begins a leader epoch after an election; ignores an epoch that is not newer.

        Raises:
            StorageError: it could not be saved.
        """
        if epoch > self.epochs.latest:
            self.epochs.begin(epoch, self.log_end_offset)
            self.store.keep_epochs()

    def flush(self) -> None:
        """Makes all batches survive a power loss.

        Raises:
            StorageError: the flush failed.
        """
        self.store.flush()

    def close(self) -> None:
        """Ends the use of the log: wakes waiting fetches, and flushes.

        Raises:
            StorageError: it could not be flushed; it is closed anyway.
        """
        if not self.is_closed:
            self.is_closed = True
            self.wake()
            self.store.close()
