"""Log compaction as Kafka's cleaner does it: of each key, the newest record stays.

Offsets never change. A batch that loses records is rewritten with the same base offset,
last offset, sequences, producer and epochs, so that there are gaps. A batch that loses
all its records is dropped, unless it is the last of its producer or the last of the
compacted part: these stay, empty. A batch that loses nothing is copied as it is.

A tombstone (a key without a value) stays for ``delete.retention.ms`` from the first
cleaning that saw it: its batch carries the time until then, the delete horizon
(KIP-534). Records without a key are dropped: a topic that was not always compacted may
have some. `cleaned_transactions` decides about aborted records and markers.

A cleaning reads the log twice, as Kafka's does. The first pass reads the dirty part,
which starts where the last cleaning ended, for the newest offset of each key. The
second pass reads the whole log to drop older records. In both, batches with the keys of
an earlier one take less time (`repeated_keys`). Both run in slices; in between, the log
may grow, be read, lose its start, get another configuration and be closed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final

from kohort.broker.log.cleaned_transactions import CleanedTransactions
from kohort.broker.log.partition import Partition
from kohort.broker.log.repeated_keys import Repeated, RepeatedKeys
from kohort.broker.log.store import Replacement
from kohort.protocol import compression
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.rebuilding import (
    RecordSpan,
    empty_batch,
    rebuild_in_pieces,
    scan_records,
)
from kohort.protocol.records import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    TRANSACTIONAL,
    read_header,
)
from kohort.protocol.slotted import slotted

MAX_KEYS: Final = 500_000
"""Keys per cleaning: about 100 MB of memory, close to the 128 MB of Kafka's
``log.cleaner.dedupe.buffer.size``. A log with more is cleaned in several turns."""

LONG_KEY: Final = 128
"""Length in bytes above which a digest stands for the key, so that memory for keys is
bounded."""

SLICE: Final = 1000
"""Work between two yields, in records; a batch costs as much as one more."""

BYTES_PER_RECORD: Final = 1024
"""Bytes that cost as much as a record to decompress, copy and write."""

_UNPACK = HEADER.unpack_from
# Indexes of the header's fields in that tuple: making a `BatchHeader` for each batch
# would cost as much as reading its records.
_BASE, _ATTRIBUTES, _DELTA, _BASE_TIMESTAMP = 0, 5, 6, 7
_PRODUCER_ID, _EPOCH, _COUNT = 9, 10, 12
_OF_TRANSACTIONS = CONTROL | TRANSACTIONAL
_NOT_PLAIN = CODEC_MASK | _OF_TRANSACTIONS
_REPEATED_COST = 2
"""Work for a batch of known keys."""


class UncleanableError(Exception):
    """A batch cannot be read, so the log cannot be compacted.

    Nothing was changed. The next cleaning would fail the same way, so do not start
    another one for this partition, as Kafka does not.
    """


@slotted
class Dirt:
    """The dirty part of a partition, which compaction has not cleaned yet.

    Attributes:
        first_dirty_offset: where the last cleaning ended.
        end: the offset up to which the log may be cleaned.
        ratio: dirty bytes to all bytes before `end`, 0 to 1.
        is_due: whether the configuration requires a cleaning now.
    """

    first_dirty_offset: int
    end: int
    ratio: float
    is_due: bool


def dirt(partition: Partition, now_ms: int) -> Dirt:
    """Measures the dirty part of a partition; callers clean the dirtiest one first.

    In a compacted topic, a cleaning is due if the ratio is above
    ``min.cleanable.dirty.ratio``, or a record is older than ``max.compaction.lag.ms``
    (KIP-354).

    Args:
        partition: not closed.
        now_ms: ms since the epoch.
    """
    config, store = partition.config, partition.store
    start = partition.log_start_offset
    first = store.first_dirty_offset
    if not start <= first <= partition.log_end_offset:
        first = start
    end = store.cleanable_end(
        first,
        now_ms,
        config.min_compaction_lag_ms,
        last_stable_offset=partition.last_stable_offset,
    )
    # Without the newest batch, it may lie before the first dirty one.
    end = max(first, end)
    total = store.size_before(end)
    dirty = total - store.size_before(first)
    ratio = dirty / total if total else 0.0
    is_due = (
        "compact" in config.cleanup_policy
        and dirty > 0
        and (
            ratio > config.min_cleanable_dirty_ratio
            or _is_old(partition, first, end, now_ms - config.max_compaction_lag_ms)
        )
    )
    return Dirt(first, end, ratio, is_due)


def _is_old(partition: Partition, start: int, end: int, before_ms: int) -> bool:
    """Returns whether the first batch with a timestamp has one from before a time."""
    if before_ms > 0:
        for batch in partition.store.batches(start, end):
            latest = read_header(batch).max_timestamp
            if latest > 0:
                return latest < before_ms
    return False


def clean(
    partition: Partition,
    now_ms: int,
    *,
    max_keys: int = MAX_KEYS,
    records_per_step: int = SLICE,
) -> Generator[None, None, None]:
    """Compacts a partition, if it is dirty enough: a slice of work per step.

    Between two steps the partition may be used freely. New batches stay; if the start
    of the log moves, the partition is closed, or its ``cleanup.policy`` is not
    ``compact`` any more, the cleaning ends without a change. To end it early, close the
    iterator. Only one cleaning may run per partition.

    A step takes a few milliseconds even for long batches: they are decompressed, read
    and written in pieces, too.

    Args:
        partition: in memory or in files.
        now_ms: ms since the epoch.
        max_keys: at least 1; see `MAX_KEYS`.
        records_per_step: at least 1; see `SLICE`.

    Raises:
        UncleanableError: a batch is damaged.
        StorageError: the compacted log cannot be written; nothing was changed.
    """
    found = dirt(partition, now_ms)
    if not found.is_due:
        return
    try:
        limits = max_keys, records_per_step
        yield from _Cleaning(partition, found, now_ms, *limits).run()
    except WireError as error:
        reason = f"{partition.name} cannot be compacted: {error}"
        raise UncleanableError(reason) from None


class _Cleaning:
    """One cleaning: the state that both passes share."""

    def __init__(
        self,
        partition: Partition,
        found: Dirt,
        now_ms: int,
        max_keys: int,
        records_per_step: int,
    ) -> None:
        self._of = partition
        self._now = now_ms
        self._max_keys = max_keys
        self._slice = records_per_step
        self._start = partition.log_start_offset
        self._end = found.end
        # The newest offset of each key, and the offset up to which it is known.
        self._latest: dict[bytes, int] = {}
        self._indexed = found.first_dirty_offset
        self._repeated = RepeatedKeys(_name)

    def run(self) -> Generator[None, None, None]:
        """Runs both passes."""
        for _ in self._index():
            yield
            if self._is_stale():
                return
        replacement = self._of.store.replacement(self._end)
        is_committed = False
        try:
            for _ in self._fill(replacement):
                yield
                if self._is_stale():
                    return
            replacement.commit()
            is_committed = True
        finally:
            if not is_committed:
                replacement.abort()
        self._of.store.first_dirty_offset = self._indexed

    def _is_stale(self) -> bool:
        """Returns whether the log has changed so that the cleaning must end.

        It was closed, has lost its start, or, as in Kafka, is not to be compacted any
        more.
        """
        partition = self._of
        return (
            partition.is_closed
            or partition.log_start_offset != self._start
            or "compact" not in partition.config.cleanup_policy
        )

    def _index(self) -> Generator[None, None, None]:
        """Finds the newest offset of each key, until there are too many keys."""
        latest, size, work = self._latest, self._slice, 0
        transactions = self._transactions(self._indexed)
        for batch in self._of.store.batches(self._indexed, self._end):
            if work >= size:
                work = 0
                yield
            if len(latest) >= self._max_keys:
                return
            fields = _UNPACK(batch)
            count = fields[_COUNT]
            if fields[_ATTRIBUTES] & _OF_TRANSACTIONS and (
                _is_unread(batch, fields, transactions)
            ):
                count = 0
            self._indexed = fields[_BASE] + fields[_DELTA] + 1
            repeated = self._find_repeated(batch, fields)
            if repeated is not None:
                work += _REPEATED_COST
                base = fields[_BASE]
                offsets = range(base, base + count)
                latest.update(zip(repeated.keys, offsets, strict=True))
                continue
            spans, data = yield from _scan(batch, fields)
            work += count + 1 + len(data) // BYTES_PER_RECORD
            for left in range(count, 0, -size):
                for offset, key, _, _, _ in islice(spans, size):
                    if key is not None:
                        latest[_name(key)] = offset
                if left > size:
                    yield
        # A gap after the last batch needs no second look.
        self._indexed = self._end

    def _fill(self, replacement: Replacement) -> Generator[None, None, None]:
        """Adds each batch, with the records that remain, to the replacement."""
        size, work = self._slice, 0
        transactions = self._transactions(self._start)
        for batch in self._of.store.batches(self._start, self._end):
            if work >= size:
                work = 0
                yield
            fields = _UNPACK(batch)
            work += 1
            if fields[_ATTRIBUTES] & _OF_TRANSACTIONS:
                step = self._of_transaction(batch, fields, transactions, replacement)
                if (yield from step):
                    continue
            if fields[_BASE] >= self._indexed:
                replacement.add(batch)
                continue
            remains, cost = yield from self._remains(batch, fields)
            work += cost
            if remains is not None:
                replacement.add(remains)

    def _remains(
        self, batch: bytes, fields: tuple[int, ...]
    ) -> Generator[None, None, tuple[bytes | None, int]]:
        """The batch with the records that remain, None to drop it; and the work."""
        repeated = self._find_repeated(batch, fields)
        if repeated is not None and repeated.is_superseded(fields[_BASE], self._latest):
            return self._without_records(batch, fields), _REPEATED_COST
        count = fields[_COUNT]
        spans, data = yield from _scan(batch, fields)
        kept = _Kept(data, self._is_past_horizon(fields))
        for left in range(count, 0, -self._slice):
            self._keep(islice(spans, self._slice), kept)
            if left > self._slice:
                yield
        remains = yield from self._remainder(batch, fields, kept)
        return remains, count + len(data) // BYTES_PER_RECORD

    def _find_repeated(self, batch: bytes, fields: tuple[int, ...]) -> Repeated | None:
        """The keys of a batch, if it has the same ones as others."""
        if fields[_ATTRIBUTES] & _NOT_PLAIN or not fields[_COUNT]:
            return None
        return self._repeated.find(batch, fields[_COUNT])

    def _transactions(self, start: int) -> CleanedTransactions:
        return CleanedTransactions(self._of.store.aborted(start, self._end))

    def _of_transaction(
        self,
        batch: bytes,
        fields: tuple[int, ...],
        transactions: CleanedTransactions,
        replacement: Replacement,
    ) -> Generator[None, None, bool]:
        """Handles a marker, or records of an aborted transaction; False for others."""
        if fields[_ATTRIBUTES] & CONTROL:
            marker = yield from self._marker(batch, fields, transactions)
            if marker is not None:
                replacement.add(marker)
            if transactions.kept is not None:
                replacement.add_aborted(transactions.kept)
            return True
        last_offset = fields[_BASE] + fields[_DELTA]
        is_aborted = transactions.is_aborted(fields[_PRODUCER_ID], last_offset)
        if not is_aborted or fields[_BASE] >= self._indexed:
            return False
        remains = self._without_records(batch, fields)
        if remains is not None:
            replacement.add(remains)
        return True

    def _marker(
        self, batch: bytes, fields: tuple[int, ...], transactions: CleanedTransactions
    ) -> Generator[None, None, bytes | None]:
        """A marker as it stays; None to drop it."""
        is_over = transactions.is_over(batch)
        if not is_over or fields[_BASE] >= self._indexed:
            return batch
        if not fields[_COUNT] or self._is_past_horizon(fields):
            return self._without_records(batch, fields)
        if fields[_ATTRIBUTES] & DELETE_HORIZON:
            return batch
        horizon = self._now + self._of.config.delete_retention_ms
        spans, data = yield from _scan(batch, fields)
        kept = [(start, stop) for _, _, _, start, stop in spans]
        return (yield from rebuild_in_pieces(read_header(batch), data, kept, horizon))

    def _is_past_horizon(self, fields: tuple[int, ...]) -> bool:
        has_horizon = fields[_ATTRIBUTES] & DELETE_HORIZON
        return bool(has_horizon) and fields[_BASE_TIMESTAMP] <= self._now

    def _keep(self, spans: Iterator[RecordSpan], kept: _Kept) -> None:
        """Reads records, and notes those that stay."""
        find, add = self._latest.get, kept.spans.append
        for offset, key, has_value, start, stop in spans:
            if key is None:
                continue
            if find(_name(key), -1) > offset:
                continue
            if not has_value:
                if kept.is_past_horizon:
                    continue
                kept.has_tombstone = True
            add((start, stop))

    def _remainder(
        self, batch: bytes, fields: tuple[int, ...], kept: _Kept
    ) -> Generator[None, None, bytes | None]:
        """The batch with the records that remain; None to drop it."""
        if kept.spans:
            has_horizon = fields[_ATTRIBUTES] & DELETE_HORIZON
            horizon = None
            if kept.has_tombstone and not has_horizon:
                horizon = self._now + self._of.config.delete_retention_ms
            elif len(kept.spans) == fields[_COUNT]:
                return batch
            header = read_header(batch)
            return (
                yield from rebuild_in_pieces(header, kept.data, kept.spans, horizon)
            )
        return self._without_records(batch, fields)

    def _without_records(self, batch: bytes, fields: tuple[int, ...]) -> bytes | None:
        """The batch without its records, if it must stay."""
        is_last = fields[_BASE] + fields[_DELTA] + 1 == self._end
        if is_last or self._is_last_of_producer(fields):
            return empty_batch(read_header(batch))
        return None

    def _is_last_of_producer(self, fields: tuple[int, ...]) -> bool:
        """Returns whether the producer's sequence or epoch is in no later batch."""
        state = self._of.producers.get(fields[_PRODUCER_ID])
        if state is None:
            return False
        if state.batches:
            return state.batches[-1].last_offset == fields[_BASE] + fields[_DELTA]
        return bool(fields[_ATTRIBUTES] & CONTROL) and fields[_EPOCH] == state.epoch


class _Kept:
    """The records of one batch that stay.

    Attributes:
        data: all of its records, not compressed.
        is_past_horizon: its tombstones are dropped now.
        spans: positions in `data` of the records that stay.
        has_tombstone: whether one of them is a tombstone.
    """

    __slots__ = ("data", "has_tombstone", "is_past_horizon", "spans")

    def __init__(self, data: Buffer, is_past_horizon: bool) -> None:
        self.data = data
        self.is_past_horizon = is_past_horizon
        self.spans: list[tuple[int, int]] = []
        self.has_tombstone = False


def _is_unread(
    batch: bytes, fields: tuple[int, ...], transactions: CleanedTransactions
) -> bool:
    """Returns whether no consumer gets the records of a marker or transaction."""
    if fields[_ATTRIBUTES] & CONTROL:
        transactions.is_over(batch)
        return True
    last_offset = fields[_BASE] + fields[_DELTA]
    return transactions.is_aborted(fields[_PRODUCER_ID], last_offset)


def _scan(
    batch: bytes, fields: tuple[int, ...]
) -> Generator[None, None, tuple[Iterator[RecordSpan], Buffer]]:
    """The records of a batch, and the bytes they are in."""
    codec = fields[_ATTRIBUTES] & CODEC_MASK
    count, base_offset = fields[_COUNT], fields[_BASE]
    if codec == compression.NONE or not count:
        return scan_records(batch, HEADER_SIZE, count, base_offset), batch
    data = bytearray()
    packed = memoryview(batch)[HEADER_SIZE:]
    for piece in compression.decompress_in_pieces(codec, packed):
        if data:
            yield
        data += piece
    return scan_records(data, 0, count, base_offset), data


def _name(key: bytes) -> bytes:
    """A key, or for a long one a digest: longer than any key that is kept as it is."""
    if len(key) <= LONG_KEY:
        return key
    return blake2b(key).digest().ljust(LONG_KEY + 1)
