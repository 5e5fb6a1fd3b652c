"""A coordinator's log that keeps nothing, and can be made to fail."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.effects import Record
from kohort.broker.log.store import StorageError
from kohort.broker.shards.group_records import Encoder


class NoLog:
    """Takes batches of at most `largest` bytes.

    Attributes:
        is_full: whether no batch can be written.
        largest: bytes.
        written: how many batches were written.
    """

    def __init__(self, largest: int = 1 << 20) -> None:
        self.is_full = False
        self.largest = largest
        self.written = 0

    def encode(self, records: Sequence[Record]) -> bytes:
        """A batch of these records."""
        return Encoder().encode(records, 0)

    def write(self, _: bytes) -> None:
        """Counts a batch."""
        if self.is_full:
            raise StorageError("the disk is full")
        self.written += 1
