"""A consumed partition: the application's position, and the prefetched records.

Two leader epochs matter (KIP-320). `epoch` is that of the record before the
position: only the current leader knows whether that record is still in the log.
`leader_epoch` is that of the leader under which the position was last known to be
right; when there is a newer one, the position is in doubt until it was asked.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kohort.client.consuming.chunks import Chunk, ConsumerRecord, corrupt
from kohort.client.offsets import TopicPartition
from kohort.protocol.messages import WireError

AHEAD = 2
"""Chunks of a partition that are kept: one is read, one is ready."""


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """A partition that a consumer consumes."""

    place: TopicPartition
    is_held: bool = field(kw_only=True)
    """As long as the listener has not taken note of it."""
    position: int | None = None
    """The offset of the next record for the application; None while it is looked up."""
    reset: int | None = None
    """The timestamp to start from, where that was asked for."""
    is_paused: bool = False
    """By the application."""
    is_asked: bool = False
    """Whether its position is wanted although it is held."""
    is_in_doubt: bool = False
    """The log may have been cut off before the position (KIP-320)."""
    high_watermark: int | None = None
    """As of the last fetch; None before."""
    epoch: int = -1
    """Leader epoch of the record before the position; -1 for none."""
    leader_epoch: int = -1
    """Epoch of the leader that the position is right for; -1 for none."""
    rows: list[ConsumerRecord] = field(default_factory=list)
    """The records that are read; those before `at` were given out."""
    at: int = 0
    fetch_offset: int = 0
    """Offset of the next record to fetch."""
    retry_at: float = 0.0
    """After a failure, when to ask again."""
    failures: int = 0
    """Failures in a row."""
    replica: int | None = None
    """The node to fetch from in place of the leader (KIP-392), until `replica_until`;
    None for the leader."""
    replica_until: float = 0.0
    size: int = 0
    """Bytes that were fetched ahead."""
    _chunks: deque[Chunk] = field(default_factory=deque)

    # -- where it is

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Goes on from an offset, which is in doubt if it has an epoch."""
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
        """Gives out nothing more until the leader has confirmed the position."""
        assert self.position is not None
        self._drop()
        self.fetch_offset = self.position
        self.is_in_doubt = True

    def confirm(self, leader_epoch: int) -> None:
        """The position is right for this leader."""
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
        """Whether no record of it is given out now."""
        return self.is_paused or self.is_held

    @property
    def is_full(self) -> bool:
        """Whether enough was fetched ahead."""
        return len(self._chunks) >= AHEAD

    @property
    def chunks(self) -> int:
        """Fetches ahead, with the one that is being read."""
        return len(self._chunks)

    def add(self, chunk: Chunk) -> None:
        """Takes fetched records."""
        self._chunks.append(chunk)
        self.size += chunk.size
        self.fetch_offset = chunk.end

    def ahead(self) -> bool:
        """Whether there are records, at `rows` from `at` on.

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
                # The last batches may have no records: markers, or compacted.
                chunk = self._chunks.popleft()
                self.position = chunk.end
                self.epoch = chunk.epoch
                self.size -= chunk.size
        return True

    def advance(self, record: ConsumerRecord) -> None:
        """Moves the position behind a record."""
        self.position = record.offset + 1
        self.epoch = record.leader_epoch
