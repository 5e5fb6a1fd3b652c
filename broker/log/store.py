"""The interface between a partition and the store of its batches: memory or files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, Protocol

from kohort.broker.log.epochs import LeaderEpochs
from kohort.broker.log.producers import Producers
from kohort.broker.log.settings import LogConfig
from kohort.protocol.fields import Buffer

Stored = bytes | tuple[bytes, memoryview]
"""A batch, or its first bytes and the view of the rest."""

PIECE: Final = 1024 * 1024
"""Bytes that are read at a time for a Fetch: some 0.3 ms from a file."""


class StorageError(Exception):
    """Something could not be written or read: a full disk, an I/O error, damage.

    The message has the operation, the path and the reason. Acknowledged records are
    untouched, and a later attempt may work.
    """


class LogState:
    """State of a log when it is opened: offsets, epochs and producers.

    The partition and its store share `epochs` and `producers`: a store that
    survives a restart writes them down.
    """

    __slots__ = ("epochs", "log_end_offset", "log_start_offset", "producers")

    def __init__(
        self,
        log_start_offset: int = 0,
        log_end_offset: int = 0,
        epochs: LeaderEpochs | None = None,
        producers: Producers | None = None,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.epochs = LeaderEpochs() if epochs is None else epochs
        self.producers = Producers() if producers is None else producers


class Replacement(Protocol):
    """The output of compaction: replaces all batches before an offset."""

    def add(self, batch: bytes) -> None:
        """The next batch, in the order of offsets.

        Raises:
            StorageError: it cannot be written; call `abort`.
        """

    def commit(self) -> None:
        """Puts the batches in place of the old ones, all at once for readers.

        Raises:
            StorageError: the log is as it was.
        """

    def abort(self) -> None:
        """Throws the batches away; the log is as it was."""


class Store(Protocol):
    """The batches of one partition, oldest first. Their offsets may have gaps.

    Attributes:
        config: the topic's, for its settings of files; may be replaced.
        first_dirty_offset: up to where compaction has got; it sets this.
    """

    config: LogConfig
    first_dirty_offset: int

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches."""

    def __len__(self) -> int:
        """The number of batches; files may have to be read for it."""

    def start(self) -> LogState:
        """The state at the opening; called once, by the partition."""

    def keep_epochs(self) -> None:
        """The leader epochs that `start` gave have changed.

        Raises:
            StorageError: they cannot be written down.
        """

    def append(
        self,
        batch: Stored,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        """Adds a batch behind the others.

        Raises:
            StorageError: it is not in the log.
        """

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> tuple[Sequence[Buffer], int]:
        """Batches, and their size, from the one with `offset` or after it.

        The last one is cut off at the limit, as in Kafka; the first one is whole.

        Args:
            offset: from the start of the log on, and before its end.
            max_bytes: limit of all batches together.
            minimum_one: give the first one even if it has more.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def read_in_pieces(
        self, offset: int, max_bytes: int, *, minimum_one: bool
    ) -> Generator[None, None, tuple[Sequence[Buffer], int]]:
        """Like `read`; others may have turns between two pieces of `PIECE` bytes.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def readable(self, offset: int) -> int:
        """Bytes of the batches from the one with `offset` on, or after it.

        No batch is read for it, but a few headers of a file may be.

        Args:
            offset: from the start of the log on, and before its end.

        Raises:
            StorageError: the log is damaged there, or cannot be read.
        """

    def batches(self, start: int, end: int) -> Iterator[bytes]:
        """Whole batches that have an offset from `start` on and begin before `end`.

        One by one: appending, deleting and replacing between two of them is fine.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def since(self, timestamp: int, offset: int) -> Iterator[bytes]:
        """Batches with a record of that time or later, from `offset`'s batch on.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def latest(self) -> tuple[int, Sequence[bytes]]:
        """The largest timestamp, and the first batch that has it, if there is one.

        Raises:
            StorageError: the log is damaged, or cannot be read.
        """

    def first_offset_younger(self, than_ms: int, end: int) -> int:
        """Start of the log if the oldest parts, before a time, were dropped.

        Args:
            than_ms: ms since the epoch.
            end: the offset behind the last batch.
        """

    def first_offset_within(self, size: int, end: int) -> int:
        """Start of the log if the oldest parts, above a size, were dropped.

        The rest has at least `size` bytes.

        Args:
            size: bytes; below those of the log.
            end: the offset behind the last batch.
        """

    def drop_before(self, offset: int, end: int) -> None:
        """Drops the parts that lie wholly before `offset`, the new start of the log.

        Args:
            offset: the new start of the log.
            end: the offset behind the last batch.

        Raises:
            StorageError: that did not work; nothing has changed.
        """

    def size_before(self, offset: int) -> int:
        """Bytes of the batches, or segments, that lie wholly before `offset`."""

    def cleanable_end(
        self, first_dirty_offset: int, now_ms: int, min_compaction_lag_ms: int
    ) -> int:
        """Up to which offset compaction may go: never into the active segment.

        Args:
            first_dirty_offset: from where on timestamps are looked at.
            now_ms: ms since the epoch.
            min_compaction_lag_ms: younger records are not compacted.
        """

    def replacement(self, end: int) -> Replacement:
        """Begins a replacement of all batches before `end`.

        Args:
            end: as from `cleanable_end`.
        """

    def flush(self) -> None:
        """Flushes all batches, so that they survive a loss of power.

        Raises:
            StorageError: that did not work.
        """

    def close(self) -> None:
        """`flush`, and an end: nothing else may be called after it.

        Raises:
            StorageError: it could not be flushed; it is closed all the same.
        """
