"""Sequence numbers of an idempotent producer, and their resets.

Pure. A batch is numbered when it is first sent, and keeps its number in retries, so
that the broker recognizes duplicates (KIP-98). After a gap that cannot be filled, the
partition continues under a new producer id, from 0 (KIP-360), once no batch has a
number of the old id.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.client.producing.batches import Batch
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    advance_sequence,
)

REFUSED = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""Errors about the sequence number of a batch."""


@dataclass(slots=True)
class ProducerIds:
    """The producer id for partitions without one."""

    is_transactional: bool = False
    """True if all partitions have the newest id and epoch: each new one comes with a
    new transaction."""
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    def assign(self, producer_id: int, epoch: int) -> None:
        """Takes the producer id of a broker's response."""
        self.producer_id = producer_id
        self.epoch = epoch


@dataclass(slots=True)
class Sequences:
    """The sequence numbers of one partition."""

    ids: ProducerIds
    producer_id: int = NO_PRODUCER_ID
    """The current id; -1 before the first batch."""
    epoch: int = NO_PRODUCER_EPOCH
    next: int = 0
    """The sequence number of the next record."""
    has_gap: bool = False
    """True if the broker may never see a number that was used."""
    is_known: bool = False
    """True if a batch was written under this id. Before that, a broker accepts any
    first number (KIP-360), so only one batch may be in flight."""
    is_refused: bool = False
    """True if the unanswered batches were surely not written, because the broker has
    refused an earlier one."""

    @property
    def must_begin(self) -> bool:
        """True if the next new batch starts under another id or epoch."""
        if self.has_gap or self.producer_id == NO_PRODUCER_ID:
            return True
        return self.ids.is_transactional and self._is_outdated

    @property
    def _is_outdated(self) -> bool:
        ids = self.ids
        return (ids.producer_id, ids.epoch) != (self.producer_id, self.epoch)

    @property
    def lacks_an_id(self) -> bool:
        """True if it needs a new producer id or epoch, and has none yet."""
        return self.must_begin and not self._is_outdated

    def number(self, batch: Batch) -> None:
        """Numbers a batch without a number.

        If it starts under a new id, no batch may be in flight, and the id is needed.
        """
        if self.must_begin:
            self.producer_id, self.epoch = self.ids.producer_id, self.ids.epoch
            self.next = 0
            self.has_gap = self.is_known = self.is_refused = False
        batch.number(self.producer_id, self.epoch, self.next)
        self.next = advance_sequence(self.next, batch.count)

    def void(self, batch: Batch) -> None:
        """Takes back the number of a batch that the broker surely has not written."""
        batch.number(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
