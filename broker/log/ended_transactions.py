"""Ended transactions of a partition."""

from __future__ import annotations

from typing import NamedTuple

from kohort.protocol.slotted import slotted


@slotted
class EndMarker:
    """The marker that ends a transaction in a partition.

    Attributes:
        producer_id: the transaction's producer.
        producer_epoch: its epoch: that of the records or, from transaction version 2
            on, a higher one (KIP-890).
        is_commit: commit or abort.
        coordinator_epoch: the leader epoch of the coordinator's partition.
        transaction_version: decides which epochs are valid (KIP-1228).
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a partition.

    Attributes:
        producer_id: its producer.
        first_offset: its first record.
        last_offset: its marker.
        last_stable_offset: the partition's, once the marker was in the log.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
