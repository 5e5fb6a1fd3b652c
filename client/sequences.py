"""The numbers of an idempotent producer's batches, and when they begin anew.

Pure. Batches of a partition are numbered when they are sent first, and keep their
numbers when they are sent again: so the broker knows them if it has them (KIP-98).
After a gap that cannot be filled the partition goes on under a new producer id,
from 0 (KIP-360), once nothing is left that has a number of the old one.
"""

from __future__ import annotations

from kohort.client.batches import Batch
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
"""What says that the broker has not written a batch because of its number."""


class ProducerIds:
    """The id under which partitions begin; the same for all that do.

    Attributes:
        producer_id: -1 while there is none.
        epoch: -1 while there is none.
    """

    __slots__ = ("epoch", "producer_id")

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH

    def take(self, producer_id: int, epoch: int) -> None:
        """Takes an id that a broker has given."""
        self.producer_id = producer_id
        self.epoch = epoch


class Sequences:
    """The numbers of one partition.

    Attributes:
        producer_id: under which it goes on; -1 before its first batch.
        next: of the next record.
        has_gap: whether a number was given away that the broker may never see.
        is_known: whether the partition has a batch under this id. While it has none
            a broker takes any number for the first (KIP-360), so there must not be
            two of them under way.
        is_refused: whether what was numbered and is not answered was surely not
            written: the broker has refused what comes before it.
    """

    __slots__ = (
        "_ids",
        "epoch",
        "has_gap",
        "is_known",
        "is_refused",
        "next",
        "producer_id",
    )

    def __init__(self, ids: ProducerIds) -> None:
        self._ids = ids
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.next = 0
        self.has_gap = False
        self.is_known = False
        self.is_refused = False

    @property
    def must_begin(self) -> bool:
        """Whether the next batch without a number begins under another id."""
        return self.has_gap or self.producer_id == NO_PRODUCER_ID

    @property
    def lacks_an_id(self) -> bool:
        """Whether it must, and there is none yet."""
        return self.must_begin and self._ids.producer_id == self.producer_id

    def number(self, batch: Batch) -> None:
        """Numbers a batch that has no number.

        Where it begins anew nothing may be under way, and an id be there.
        """
        if self.must_begin:
            self.producer_id, self.epoch = self._ids.producer_id, self._ids.epoch
            self.next = 0
            self.has_gap = self.is_known = self.is_refused = False
        batch.number(self.producer_id, self.epoch, self.next)
        self.next = advance_sequence(self.next, batch.count)

    def void(self, batch: Batch) -> None:
        """Takes the number of a batch that the broker surely has not written."""
        batch.number(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
