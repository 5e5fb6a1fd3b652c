"""Batches kept in memory, found by offset without a scan.

The index is four arrays of int64 and one list, with one entry per batch: 40
bytes for a batch beside its own. Batches are whole, and their offsets dense.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kohort.broker.log.results import DEFAULTS, LogConfig
from kohort.broker.log.store import LogState, Stored
from kohort.protocol.messages import Buffer

LONG_BATCH = 16 * 1024
"""Bytes from which on a batch stays in the buffer that it arrived in. A shorter
one is copied, so that it does not keep a whole read of the socket alive."""

JOIN_BELOW = 2 * 1024
"""Mean size in bytes below which batches are joined when read: from there on,
handing a socket one more buffer costs more than the copy."""


def packed(head: bytes, batch: memoryview) -> Stored:
    """A batch as it is kept: `head` in place of its own first bytes.

    The view is kept where it is long and nobody can change what it shows, and
    where it does not keep more than twice its size alive.
    """
    size = len(batch)
    if size >= LONG_BATCH:
        whole = batch.obj
        if isinstance(whole, bytes) and len(whole) <= 2 * size:
            return head, batch[len(head) :]
    return b"".join((head, batch[len(head) :]))


class BatchStore:
    """The batches of one partition, oldest first."""

    __slots__ = (
        "_batches",
        "_ends",
        "_first_offsets",
        "_long",
        "_start",
        "_timestamps",
        "_written",
        "config",
        "first_dirty_offset",
    )

    def __init__(self) -> None:
        self.config: LogConfig = DEFAULTS
        self.first_dirty_offset = 0
        self._batches: list[Stored] = []
        self._first_offsets = array("q")
        # Where each batch ends, in bytes since the partition was made.
        self._ends = array("q")
        self._start = 0
        self._timestamps = array("q")
        # Retention goes by the time of writing where records carry no time.
        self._written = array("q")
        # How many batches are kept as two buffers.
        self._long = 0

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._batches)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches."""
        return self._ends[-1] - self._start if self._ends else 0

    def start(self) -> LogState:
        """Nothing: memory starts empty."""
        return LogState()

    def keep_epochs(self) -> None:
        """They are in memory already."""

    def flush(self) -> None:
        """Nothing survives a loss of power."""

    def close(self) -> None:
        """Nothing is open."""

    def append(
        self,
        batch: Stored,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """Adds a batch behind the others."""
        if isinstance(batch, bytes):
            size = len(batch)
        else:
            size = len(batch[0]) + len(batch[1])
            self._long += 1
        ends = self._ends
        ends.append(size + (ends[-1] if ends else self._start))
        self._batches.append(batch)
        self._first_offsets.append(first_offset)
        self._timestamps.append(max_timestamp)
        self._written.append(now_ms)

    def size_from(self, offset: int) -> int:
        """Bytes from the batch that holds `offset` on; it has to be in the log."""
        first = bisect_right(self._first_offsets, offset) - 1
        return self._ends[-1] - self._start_of(first)

    def _start_of(self, index: int) -> int:
        return self._ends[index - 1] if index else self._start

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[Sequence[Buffer], int]:
        """Whole batches from the one that holds `offset` on, and their size.

        Args:
            offset: has to be in the log.
            max_bytes: what the batches may have together.
            minimum_one: give the first one even if it has more.
        """
        first = bisect_right(self._first_offsets, offset) - 1
        start = self._start_of(first)
        stop = bisect_right(self._ends, start + max_bytes, first)
        if stop == first:
            if not minimum_one:
                return (), 0
            stop += 1
        size = self._ends[stop - 1] - start
        return self._buffers(first, stop, size), size

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

    def batch(self, index: int) -> bytes:
        """A batch in one piece; for those who read its records."""
        found = self._batches[index]
        return found if isinstance(found, bytes) else b"".join(found)

    def since(self, timestamp: int, offset: int) -> Iterator[bytes]:
        """Batches with a record of that time or later, from `offset`'s batch on."""
        first = max(bisect_right(self._first_offsets, offset) - 1, 0)
        timestamps = self._timestamps
        for index in range(first, len(timestamps)):
            if timestamps[index] >= timestamp:
                yield self.batch(index)

    def latest(self) -> tuple[int, Sequence[bytes]]:
        """The largest timestamp, and the first batch that has it, if there is one."""
        if not self._batches:
            return -1, ()
        timestamp = max(self._timestamps)
        return timestamp, (self.batch(self._timestamps.index(timestamp)),)

    def first_offset_younger(self, than_ms: int, end: int) -> int:
        """Where the log would start without its oldest batches before a time.

        The first batch that is young enough keeps all behind it.

        Args:
            than_ms: ms since the epoch.
            end: the offset behind the last batch.
        """
        for index, timestamp in enumerate(self._timestamps):
            if (timestamp if timestamp >= 0 else self._written[index]) >= than_ms:
                return self._first_offsets[index]
        return end

    def first_offset_within(self, size: int, end: int) -> int:
        """Where the log would start without the oldest batches above a size.

        What remains is not below `size`: a batch goes only if all of it is
        above.

        Args:
            size: bytes; below those of the log.
            end: the offset behind the last batch.
        """
        kept = bisect_right(self._ends, self._ends[-1] - size)
        return self._first_offsets[kept] if kept < len(self._batches) else end

    def drop_before(self, offset: int, end: int) -> int:
        """Drops the batches that lie wholly before `offset`; says how many.

        Args:
            offset: the new start of the log.
            end: the offset behind the last batch.
        """
        if offset >= end:
            count = len(self._batches)
        else:
            count = bisect_right(self._first_offsets, offset) - 1
        if count <= 0:
            return 0
        self._long -= sum(type(batch) is not bytes for batch in self._batches[:count])
        self._start = self._ends[count - 1]
        for column in (
            self._batches,
            self._first_offsets,
            self._ends,
            self._timestamps,
            self._written,
        ):
            del column[:count]
        return count
