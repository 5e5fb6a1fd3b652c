"""Transactions in a log that is being compacted.

A cleaning meets the batches in order. The records of an aborted transaction may go at
once. A marker stays until a cleaning finds none of its transaction's batches, and then
for another ``delete.retention.ms``: a reader that has begun before must still find it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.protocol.markers import read_marker
from kohort.protocol.records import read_header


class CleanedTransactions:
    """The transactions up to the batch that was read last.

    Args:
        aborted: the aborted transactions of the part that is read.

    Attributes:
        kept: the aborted transaction whose marker was read last, if both stay.
    """

    __slots__ = ("_aborted", "_coming", "_committed", "_seen", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.kept: AbortedTransaction | None = None
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        # Those that have begun, by producer id; and those of whom a batch was read.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Reads a batch of a transaction; returns whether that was aborted."""
        self._begin_up_to(last_offset)
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_over(self, batch: bytes) -> bool:
        """Reads a control batch; returns whether none of its transaction was left.

        Raises:
            WireError: its record is malformed.
        """
        header = read_header(batch)
        self.kept = None
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(batch)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.is_commit:
            is_left = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_left
        aborted = self._aborted.pop(producer_id, None)
        if aborted is not None and producer_id in self._seen:
            self.kept = aborted
        self._seen.discard(producer_id)
        return self.kept is None

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            aborted = self._coming.popleft()
            self._aborted.setdefault(aborted.producer_id, aborted)
