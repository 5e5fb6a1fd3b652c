"""A consumed partition: the application's position, and the prefetched records.

Two leader epochs matter (KIP-320). `epoch` is the epoch of the record before the
position: only the current leader knows whether that record is still in the log.
`leader_epoch` is the epoch of the leader that last confirmed the position; after a
change of leaders the position is in doubt until the new leader confirms it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kohort.client.consuming.chunks import AnyRecord, Chunk, ConsumerRecord, corrupt
from kohort.client.offsets import TopicPartition
from kohort.protocol.messages import WireError

AHEAD = 2
"""Prefetched chunks per partition: one being read, one ready."""


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """The state of an assigned partition."""

    place: TopicPartition
    is_held: bool = field(kw_only=True)
    """Until the listener has been called about the partition."""
    position: int | None = None
    """The offset of the next record for the application; None while it is looked up."""
    reset: int | None = None
    """The timestamp to start from, after `seek_to`."""
    is_paused: bool = False
    """By the application's `pause`."""
    is_asked: bool = False
    """True if `Consumer.position` waits for the position, even of a held partition."""
    is_in_doubt: bool = False
    """True if the log may have been truncated below the position (KIP-320)."""
    high_watermark: int | None = None
    """From the last fetch; None before."""
    last_stable_offset: int | None = None
    """Likewise: the first offset of an open transaction, or the high watermark."""
    epoch: int = -1
    """Leader epoch of the record before the position; -1 for none."""
    leader_epoch: int = -1
    """Epoch of the leader that confirmed the position; -1 for none."""
    rows: list[ConsumerRecord] = field(default_factory=list)
    """Decoded records; those before `at` were returned."""
    at: int = 0
    fetch_offset: int = 0
    """Offset of the next record to fetch."""
    retry_at: float = 0.0
    """When to retry after a failure."""
    failures: int = 0
    """Failures in a row."""
    replica: int | None = None
    """The node to fetch from in place of the leader (KIP-392), until `replica_until`;
    None for the leader."""
    replica_until: float = 0.0
    size: int = 0
    """Prefetched bytes."""
    _chunks: deque[Chunk] = field(default_factory=deque)

    # -- the position

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Continues at an offset, which is in doubt if it has an epoch."""
        self.position = self.fetch_offset = offset
        self.epoch = epoch
        self.leader_epoch = -1
        self.forget()

    def seek_to(self, timestamp: int) -> None:
        """Continues from a timestamp, once its offset is known."""
        self.position = None
        self.forget()
        self.reset = timestamp

    def begin_again(self) -> None:
        """Continues from the committed offset, or from ``auto_offset_reset``."""
        self.position = None
        self.forget()

    def forget(self) -> None:
        """Drops prefetched records and pending resets and retries."""
        self._drop()
        self.retry_at = 0.0
        self.failures = 0
        self.reset = None
        self.is_in_doubt = False

    def doubt(self) -> None:
        """Returns no more records until the leader has confirmed the position."""
        assert self.position is not None
        self._drop()
        self.fetch_offset = self.position
        self.is_in_doubt = True

    def confirm(self, leader_epoch: int) -> None:
        """Takes note that a leader has confirmed the position."""
        self.leader_epoch = leader_epoch
        self.is_in_doubt = False
        self.failures = 0

    def _drop(self) -> None:
        self._chunks.clear()
        self.rows = []
        self.at = self.size = 0

    # -- prefetched records

    @property
    def is_still(self) -> bool:
        """True if no record is returned now."""
        return self.is_paused or self.is_held

    @property
    def is_full(self) -> bool:
        """True if enough records are prefetched."""
        return len(self._chunks) >= AHEAD

    @property
    def chunks(self) -> int:
        """Number of prefetched chunks, with the one being read."""
        return len(self._chunks)

    def add(self, chunk: Chunk) -> None:
        """Adds fetched records."""
        self._chunks.append(chunk)
        self.size += chunk.size
        self.fetch_offset = chunk.end

    def ahead(self) -> bool:
        """Returns whether records are ready in `rows`, from `at` on.

        Raises:
            CorruptMessageError: the bytes are damaged.
        """
        while self.at >= len(self.rows):
            if not self._chunks:
                return False
            try:
                rows = self._chunks[0].next_records()
            except WireError as error:
                raise corrupt(self.place, error, retriable=False) from error
            self.rows, self.at = rows, 0
            if not rows:
                # The last batches may have no records: control batches, or compacted.
                chunk = self._chunks.popleft()
                self.position = chunk.end
                self.epoch = chunk.epoch
                self.size -= chunk.size
        return True

    def advance(self, record: AnyRecord) -> None:
        """Moves the position behind a record."""
        self.position = record.offset + 1
        self.epoch = record.leader_epoch
