"""Load: the transactional ids that a coordinator finds in its log when it starts.

The last record of an id counts. Markers have no records: those of a prepared
transaction are written again, which changes nothing where they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.transactions import ending
from kohort.broker.transactions.effects import StateRecord
from kohort.broker.transactions.state import ONGOING, PREPARED
from kohort.broker.transactions.transaction_metadata import (
    Metadata,
    TransactionMetadata,
)
from kohort.broker.transactions.turn import Turn


class Loading:
    """A log that is being read, in slices.

    `feed` it all records in order, then `finish` it.

    Attributes:
        found: the state of each id so far.
    """

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: dict[str, Metadata] = {}

    def feed(self, records: Iterable[StateRecord]) -> None:
        """Reads some records."""
        for record in records:
            if record.metadata is None:
                self.found.pop(record.transactional_id, None)
            else:
                self.found[record.transactional_id] = record.metadata

    def finish(self, turn: Turn, transactions: dict[str, TransactionMetadata]) -> None:
        """Adds the ids that were found, and ends those that are prepared.

        The timeout of an open transaction goes on: it counts from the begin.
        """
        for transactional_id, metadata in self.found.items():
            found = TransactionMetadata(transactional_id, metadata, turn.now)
            transactions[transactional_id] = found
            turn.tell(found, None, "loaded")
            if metadata.state is ONGOING:
                turn.arm_timeout(found)
            elif metadata.state in PREPARED:
                ending.prepared(turn, found, at_once=True)
