"""A coordinator's log that stores nothing, and can be made to fail."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.effects import Written
from kohort.broker.coordinator.events import Offsets
from kohort.broker.log.store import StorageError
from kohort.broker.shards.group_records import Encoder


class NoLog:
    """Accepts batches of at most `largest` bytes.

    Attributes:
        is_full: whether no batch can be written.
        largest: bytes.
        written: number of batches written.
    """

    def __init__(self, largest: int = 1 << 20) -> None:
        self.is_full = False
        self.largest = largest
        self.written = 0

    def encode(self, records: Sequence[Written], now: float) -> bytes:
        """A batch of these records."""
        return Encoder().encode(records, int(now * 1000))

    def write(self, _batch: bytes, _now: float) -> None:
        """Counts a batch."""
        if self.is_full:
            raise StorageError("the disk is full")
        self.written += 1

    def write_commit(self, group_id: str, offsets: Offsets, now_ms: int) -> bool:
        """The same for a commit."""
        batch = Encoder().framed_commit(group_id, offsets, now_ms)
        if len(batch) > self.largest:
            return False
        self.write(batch, now_ms / 1000)
        return True
