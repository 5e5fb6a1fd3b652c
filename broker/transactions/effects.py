"""Effects of the transaction coordinator alone, and the record that it appends."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.transaction_metadata import Metadata
from kohort.protocol.slotted import slotted


@slotted
class StateRecord:
    """A record of ``__transaction_state``; None: the id has expired."""

    transactional_id: str
    metadata: Metadata | None


@slotted
class WriteMarkers:
    """End a transaction in its partitions; `MarkerWritten` follows for each of them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: Sequence[TopicPartition]
