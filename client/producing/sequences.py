"""The numbers of an idempotent producer's batches, and when they begin anew.

Pure. Batches of a partition are numbered when they are sent first, and keep their
numbers when they are sent again: so the broker knows them if it has them (KIP-98).
After a gap that cannot be filled the partition goes on under a new producer id,
from 0 (KIP-360), once nothing is left that has a number of the old one.
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
"""Errors by which the broker refused a batch for its sequence number."""


@dataclass(slots=True)
class ProducerIds:
    """The id under which partitions begin; the same for all that do."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    def assign(self, producer_id: int, epoch: int) -> None:
        """Takes the producer id of a broker's response."""
        self.producer_id = producer_id
        self.epoch = epoch


@dataclass(slots=True)
class Sequences:
    """The numbers of one partition."""

    ids: ProducerIds
    producer_id: int = NO_PRODUCER_ID
    """Under which it goes on; -1 before its first batch."""
    epoch: int = NO_PRODUCER_EPOCH
    next: int = 0
    """The number of the next record."""
    has_gap: bool = False
    """Whether a number was given away that the broker may never see."""
    is_known: bool = False
    """Whether the partition has a batch under this id. While it has none a broker
    takes any number for the first (KIP-360), so there must not be two of them under
    way."""
    is_refused: bool = False
    """Whether the numbered batches without an answer were surely not written: the
    broker has refused a batch before them."""

    @property
    def must_begin(self) -> bool:
        """Whether the next batch without a number begins under another id."""
        return self.has_gap or self.producer_id == NO_PRODUCER_ID

    @property
    def lacks_an_id(self) -> bool:
        """Whether it needs a new producer id, and has none yet."""
        return self.must_begin and self.ids.producer_id == self.producer_id

    def number(self, batch: Batch) -> None:
        """Numbers a batch that has no number.

        Where it begins anew nothing may be under way, and an id be there.
        """
        if self.must_begin:
            self.producer_id, self.epoch = self.ids.producer_id, self.ids.epoch
            self.next = 0
            self.has_gap = self.is_known = self.is_refused = False
        batch.number(self.producer_id, self.epoch, self.next)
        self.next = advance_sequence(self.next, batch.count)

    def void(self, batch: Batch) -> None:
        """Takes the number of a batch that the broker surely has not written."""
        batch.number(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
