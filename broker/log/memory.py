"""Batches kept in memory, found by offset without a scan.

The index is four arrays of int64 and one list, with one entry per batch: 40 bytes in
addition to each batch. Offsets may have gaps where compaction has removed batches. A
batch is found by its last offset, so any offset in a gap finds the batch after it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate
from typing import Any

from kohort.broker.log.aborted import AbortedIndex
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.settings import DEFAULTS, LogConfig
from kohort.broker.log.state import LogState
from kohort.broker.log.store import NO_END, PIECE, Stored
from kohort.protocol.fields import Buffer
from kohort.protocol.records import NO_TIMESTAMP, PLACE, read_header

LONG_BATCH = 16 * 1024
"""Bytes from which a batch stays in the buffer that it arrived in. A shorter one is
copied, so that it does not keep a whole read of the socket alive."""

JOIN_BELOW = 2 * 1024
"""Mean size in bytes below which batches are joined when read: for these, passing one
more buffer to a socket costs more than the copy."""


def packed(head: bytes, batch: memoryview) -> Stored:
    """A batch in memory, with `head` in place of its first bytes.

    The view is kept, not copied, if it is long, read-only, and keeps no more than twice
    its size alive.
    """
    size = len(batch)
    if size >= LONG_BATCH:
        whole: Any = batch.obj
        if batch.readonly and len(whole) <= 2 * size:
            return head, batch[len(head) :]
    return b"".join((head, batch[len(head) :]))


class BatchStore:
    """The batches of one partition, oldest first."""

    __slots__ = (
        "_aborted",
        "_base",
        "_batches",
        "_ends",
        "_last_offsets",
        "_long",
        "_start",
        "_timestamps",
        "_written",
        "config",
        "first_dirty_offset",
        "replacements",
    )

    def __init__(self) -> None:
        self.config: LogConfig = DEFAULTS
        self.first_dirty_offset = 0
        self.replacements = 0
        self._batches: list[Stored] = []
        self._last_offsets = array("q")
        # The offset behind the last dropped batch.
        self._base = 0
        # The end of each batch, in bytes since the partition was created.
        self._ends = array("q")
        self._start = 0
        self._timestamps = array("q")
        # Retention uses the time of writing if records have no timestamp.
        self._written = array("q")
        # Number of batches kept as two buffers.
        self._long = 0
        self._aborted = AbortedIndex()

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._batches)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches."""
        return self._ends[-1] - self._start if self._ends else 0

    def start(self) -> LogState:
        """See `Store.start`: memory starts empty."""
        return LogState()

    def keep_epochs(self) -> None:
        """See `Store.keep_epochs`: they are in memory already."""

    def flush(self) -> None:
        """See `Store.flush`: nothing survives a loss of power."""

    def close(self) -> None:
        """See `Store.close`: nothing is open."""

    def append(
        self,
        batch: Stored,
        first_offset: int,  # noqa: ARG002 - other stores need it
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """See `Store.append`."""
        if isinstance(batch, bytes):
            size = len(batch)
        else:
            size = len(batch[0]) + len(batch[1])
            self._long += 1
        ends = self._ends
        ends.append(size + (ends[-1] if ends else self._start))
        self._batches.append(batch)
        self._last_offsets.append(last_offset)
        self._timestamps.append(max_timestamp)
        self._written.append(now_ms)

    def _start_of(self, index: int) -> int:
        return self._ends[index - 1] if index else self._start

    def _offset_behind(self, index: int) -> int:
        """Start of the log without the first `index` batches."""
        return self._last_offsets[index - 1] + 1 if index else self._base

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[Sequence[Buffer], int]:
        """See `Store.read`."""
        first = bisect_left(self._last_offsets, offset)
        start = self._start_of(first)
        stop = bisect_right(self._ends, start + max_bytes, first)
        if stop == first:
            if not minimum_one:
                return (), 0
            stop += 1
        size = self._ends[stop - 1] - start
        buffers = self._buffers(first, stop, size)
        if size >= max_bytes or stop == len(self._ends):
            return buffers, size
        return [*buffers, *self._begin(stop, max_bytes - size)], max_bytes

    def read_in_pieces(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> Generator[None, None, tuple[Sequence[Buffer], int]]:
        """See `Store.read_in_pieces`: there may be a million batches to join."""
        buffers: list[Buffer] = []
        size = 0
        while True:
            first = bisect_left(self._last_offsets, offset)
            start, left = self._start_of(first), max_bytes - size
            stop = bisect_right(self._ends, start + min(left, PIECE), first)
            if stop == first:
                # The next batch alone may be longer than a piece.
                if stop == len(self._ends):
                    return buffers, size
                if self._ends[stop] - start > left and (buffers or not minimum_one):
                    # Longer than `left` only if it is the first, or has changed.
                    return buffers, size
                stop += 1
            length = self._ends[stop - 1] - start
            buffers += self._buffers(first, stop, length)
            size += length
            if stop == len(self._ends) or size >= max_bytes:
                return buffers, size
            if self._ends[stop] - self._ends[stop - 1] > max_bytes - size:
                buffers += self._begin(stop, max_bytes - size)
                return buffers, max_bytes
            offset = self._last_offsets[stop - 1] + 1
            yield

    def readable(self, offset: int) -> int:
        """See `Store.readable`."""
        first = bisect_left(self._last_offsets, offset)
        return self._ends[-1] - self._start_of(first) if self._ends else 0

    def _buffers(self, first: int, stop: int, size: int) -> Sequence[Buffer]:
        batches = self._batches[first:stop]
        if not self._long:
            if len(batches) > 1 and size < JOIN_BELOW * len(batches):
                return (b"".join(batches),)  # type: ignore[arg-type]  # none is long
            return batches  # type: ignore[return-value]  # none is long
        buffers: list[Buffer] = []
        for batch in batches:
            if isinstance(batch, bytes):
                buffers.append(batch)
            else:
                buffers += batch
        return buffers

    def _begin(self, index: int, size: int) -> list[Buffer]:
        """The first bytes of a batch, which is longer than these."""
        batch = self._batches[index]
        if isinstance(batch, bytes):
            return [memoryview(batch)[:size]]
        head, rest = batch
        if size <= len(head):
            return [head[:size]]
        return [head, rest[: size - len(head)]]

    def batch(self, index: int) -> bytes:
        """A batch as one object, for reading its records."""
        found = self._batches[index]
        return found if isinstance(found, bytes) else b"".join(found)

    def since(self, timestamp: int, offset: int) -> Iterator[bytes]:
        """See `Store.since`."""
        timestamps, offsets = self._timestamps, self._last_offsets
        index = bisect_left(offsets, offset)
        while index < len(timestamps):
            if timestamps[index] < timestamp:
                index += 1
            else:
                last_offset = offsets[index]
                yield self.batch(index)
                index = self._index_behind(index, last_offset)

    def ends_at(self, time_ms: int) -> tuple[int, int] | None:
        """See `Store.ends_at`."""
        before = bisect_left(self._written, time_ms)
        after = bisect_right(self._written, time_ms, before)
        return self._offset_behind(before), self._offset_behind(after)

    def latest(self) -> tuple[int, Sequence[bytes]]:
        """See `Store.latest`."""
        if not self._batches:
            return -1, ()
        timestamp = max(self._timestamps)
        return timestamp, (self.batch(self._timestamps.index(timestamp)),)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `Store.add_aborted`."""
        self._aborted.add(aborted)

    def aborted(self, offset: int, end: int) -> Sequence[AbortedTransaction]:
        """See `Store.aborted`."""
        return self._aborted.find(offset, end)[0] if self._aborted else ()

    def end_of_read(self, offset: int, size: int) -> int:
        """See `Store.end_of_read`: as if batches had an index."""
        position = self._start_of(bisect_left(self._last_offsets, offset)) + size
        position += self.config.index_interval_bytes
        behind = bisect_left(self._ends, position) + 1
        return self._offset_behind(min(behind, len(self._ends)))

    def first_offset_younger(self, than_ms: int, end: int) -> int:
        """See `Store`: the first batch that is young enough keeps all after it."""
        for index, timestamp in enumerate(self._timestamps):
            if (timestamp if timestamp >= 0 else self._written[index]) >= than_ms:
                return self._offset_behind(index)
        return end

    def first_offset_within(self, size: int, end: int) -> int:
        """See `Store`: a batch is dropped only if all of it is above the size."""
        kept = bisect_right(self._ends, self._ends[-1] - size)
        return self._offset_behind(kept) if kept < len(self._batches) else end

    def drop_before(self, offset: int, end: int) -> None:  # noqa: ARG002 - see `append`
        """See `Store.drop_before`."""
        count = bisect_left(self._last_offsets, offset)
        if count:
            self._base = self._last_offsets[count - 1] + 1
            self._start = self._ends[count - 1]
            self._count_long_out(count)
            self._aborted.drop_before(self._base)
            del self._batches[:count]
            for column in self._columns():
                del column[:count]

    def _columns(self) -> tuple[array[int], ...]:
        return self._last_offsets, self._ends, self._timestamps, self._written

    def _count_long_out(self, count: int) -> None:
        if self._long:
            gone = self._batches[:count]
            self._long -= sum(type(batch) is not bytes for batch in gone)

    # -- compaction

    def batches(self, start: int, end: int) -> Iterator[bytes]:
        """See `Store.batches`."""
        offsets = self._last_offsets
        index = bisect_left(offsets, start)
        while index < len(offsets):
            batch, last_offset = self.batch(index), offsets[index]
            if last_offset >= end and PLACE.unpack_from(batch)[0] >= end:
                return
            yield batch
            index = self._index_behind(index, last_offset)

    def _index_behind(self, index: int, last_offset: int) -> int:
        """The index of the next batch; others may have been dropped meanwhile."""
        offsets = self._last_offsets
        if index < len(offsets) and offsets[index] == last_offset:
            return index + 1
        return bisect_left(offsets, last_offset + 1)

    def size_before(self, offset: int) -> int:
        """See `Store.size_before`."""
        return self._start_of(bisect_left(self._last_offsets, offset)) - self._start

    def cleanable_end(
        self,
        first_dirty_offset: int,
        now_ms: int,
        min_compaction_lag_ms: int,
        *,
        last_stable_offset: int = NO_END,
    ) -> int:
        """See `Store.cleanable_end`: the newest batch always stays.

        A batch in memory corresponds to a segment in Kafka, which never compacts the
        newest one, the active segment.
        """
        newest = max(len(self._batches) - 1, 0)
        newest = min(newest, bisect_left(self._last_offsets, last_stable_offset))
        if min_compaction_lag_ms > 0:
            eldest = now_ms - min_compaction_lag_ms
            first = bisect_left(self._last_offsets, first_dirty_offset)
            for index in range(first, newest):
                if self._timestamps[index] > eldest:
                    return self._offset_behind(index)
        return self._offset_behind(newest)

    def replacement(self, end: int) -> BatchReplacement:
        """See `Store.replacement`."""
        return BatchReplacement(self, end)

    def written_at(self, offset: int) -> int:
        """When the batch that holds `offset` was appended, in ms since the epoch."""
        return self._written[bisect_left(self._last_offsets, offset)]

    def swap(self, end: int, made: BatchReplacement) -> None:
        """Replaces all batches before `end`."""
        self.replacements += 1
        count = bisect_left(self._last_offsets, end)
        # Later batches keep their positions: the new batches end where the old ones
        # ended.
        self._start = self._start_of(count) - sum(made.sizes)
        ends = array("q", accumulate(made.sizes, initial=self._start))[1:]
        self._count_long_out(count)
        self._batches[:count] = made.batches
        self._last_offsets[:count] = made.last_offsets
        self._ends[:count] = ends
        self._timestamps[:count] = made.timestamps
        self._written[:count] = made.written
        for each in self._aborted:
            if each.last_offset >= end:
                made.aborted.add(each)
        self._aborted = made.aborted


class BatchReplacement:
    """Batches that will replace all before an offset; see `store.Replacement`."""

    def __init__(self, store: BatchStore, end: int) -> None:
        self._store = store
        self._end = end
        self.batches: list[Stored] = []
        self.last_offsets = array("q")
        self.sizes = array("q")
        self.timestamps = array("q")
        self.written = array("q")
        self.aborted = AbortedIndex()

    def add(self, batch: bytes) -> None:
        """Adds the next batch, in the order of offsets."""
        header = read_header(batch)
        last_offset = header.last_offset
        self.batches.append(batch)
        self.last_offsets.append(last_offset)
        self.sizes.append(len(batch))
        # The timestamp of an empty batch is that of removed records.
        is_empty = not header.record_count
        self.timestamps.append(NO_TIMESTAMP if is_empty else header.max_timestamp)
        self.written.append(self._store.written_at(last_offset))

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `Replacement.add_aborted`."""
        self.aborted.add(aborted)

    def commit(self) -> None:
        """Replaces the old batches."""
        self._store.swap(self._end, self)

    def abort(self) -> None:
        """Changes nothing."""
