"""The interface between a partition and the store of its batches: memory or files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.broker.log.settings import LogConfig
from kohort.protocol.fields import Buffer

if TYPE_CHECKING:
    from kohort.broker.log.state import LogState

Stored = bytes | tuple[bytes, memoryview]
"""A batch, or its first bytes and a view of the rest."""

NO_END: Final = 2**63 - 1
"""An offset behind all others."""

PIECE: Final = 1024 * 1024
"""Bytes read at a time for a Fetch: some 0.3 ms from a file."""


class DataDirError(Exception):
    """The data directory cannot be used; the message is one line that says why."""


class StorageError(Exception):
    """A read or write failed: a full disk, an I/O error, damage.

    The message has the operation, the path and the reason. Acknowledged records are
    untouched, and a later attempt may work.
    """


class Replacement(Protocol):
    """The output of compaction: replaces all batches before an offset."""

    def add(self, batch: bytes) -> None:
        """Adds the next batch, in the order of offsets.

        Raises:
            StorageError: it cannot be written; call `abort`.
        """

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Adds an aborted transaction that stays, after the batch of its marker."""

    def commit(self) -> None:
        """Replaces the old batches, all at once for readers.

        Raises:
            StorageError: the log is unchanged.
        """

    def abort(self) -> None:
        """Discards the batches; the log is unchanged."""


class Store(Protocol):
    """The batches of one partition, oldest first. Their offsets may have gaps.

    Attributes:
        config: the topic's settings; may be replaced.
        first_dirty_offset: the end of the last compaction, which sets it.
        replacements: number of times that compaction has replaced batches.
    """

    config: LogConfig
    first_dirty_offset: int
    replacements: int

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches."""

    def __len__(self) -> int:
        """The number of batches; may have to read files."""

    def start(self) -> LogState:
        """The state at the opening; called once, by the partition."""

    def keep_epochs(self) -> None:
        """Saves the leader epochs of `start`, which have changed.

        Raises:
            StorageError: the save failed.
        """

    def append(
        self,
        batch: Stored,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """Appends a batch.

        Raises:
            StorageError: it is not in the log.
        """

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[Sequence[Buffer], int]:
        """Reads batches, and their size, from the one with `offset` or after it.

        The last one is cut off at the limit, as in Kafka; the first one is whole.

        Args:
            offset: from the start of the log on, and before its end.
            max_bytes: limit of all batches together.
            minimum_one: return the first one even if it exceeds the limit.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def read_in_pieces(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> Generator[None, None, tuple[Sequence[Buffer], int]]:
        """Like `read`; other work may run between two pieces of `PIECE` bytes.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def readable(self, offset: int) -> int:
        """Bytes of the batches from the one with `offset` on, or after it.

        Reads no batch, but may read a few headers of a file.

        Args:
            offset: from the start of the log on, and before its end.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def batches(self, start: int, end: int) -> Iterator[bytes]:
        """Whole batches that have an offset from `start` on and begin before `end`.

        One by one: batches may be appended, deleted and replaced in between.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def since(self, timestamp: int, offset: int) -> Iterator[bytes]:
        """Batches with a record of that time or later, from `offset`'s batch on.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def ends_at(self, time_ms: int) -> tuple[int, int] | None:
        """The end of the log just before, and just after, a millisecond.

        By the broker's clock, in ms since the epoch. None: unknown.
        """

    def latest(self) -> tuple[int, Sequence[bytes]]:
        """The largest timestamp, and the first batch that has it, if any.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Adds a transaction whose abort marker is the last batch."""

    def aborted(self, offset: int, end: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions with records or markers in a range of offsets.

        Args:
            offset: start of the range.
            end: the offset behind it.
        """

    def end_of_read(self, offset: int, size: int) -> int:
        """An offset behind the batches of a read: the next one in a sparse index.

        So a list of aborted transactions goes a little further than the batches, as in
        Kafka.

        Args:
            offset: the first offset that was read.
            size: bytes that were read.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def first_offset_younger(self, than_ms: int, end: int) -> int:
        """Start of the log if its parts older than a time were dropped.

        Args:
            than_ms: ms since the epoch.
            end: the offset behind the last batch.
        """

    def first_offset_within(self, size: int, end: int) -> int:
        """Start of the log if its oldest parts above a size were dropped.

        The rest has at least `size` bytes.

        Args:
            size: bytes; less than the log has.
            end: the offset behind the last batch.
        """

    def drop_before(self, offset: int, end: int) -> None:
        """Drops the parts that are wholly before `offset`, the new start of the log.

        Args:
            offset: the new start of the log.
            end: the offset behind the last batch.

        Raises:
            StorageError: it failed; nothing has changed.
        """

    def size_before(self, offset: int) -> int:
        """Bytes of the batches, or segments, that lie wholly before `offset`."""

    def cleanable_end(
        self,
        first_dirty_offset: int,
        now_ms: int,
        min_compaction_lag_ms: int,
        *,
        last_stable_offset: int = NO_END,
    ) -> int:
        """The offset up to which compaction may go: never into the active segment.

        Args:
            first_dirty_offset: timestamps before it are ignored.
            now_ms: ms since the epoch.
            min_compaction_lag_ms: younger records are not compacted.
            last_stable_offset: nor are those from here on.
        """

    def replacement(self, end: int) -> Replacement:
        """Begins a replacement of all batches before `end`.

        Args:
            end: as from `cleanable_end`.
        """

    def flush(self) -> None:
        """Flushes all batches, so that they survive a power loss.

        Raises:
            StorageError: the flush failed.
        """

    def close(self) -> None:
        """Flushes and closes; the store must not be used afterwards.

        Raises:
            StorageError: it could not be flushed; it is closed anyway.
        """
