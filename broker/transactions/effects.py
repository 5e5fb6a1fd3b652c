"""Effects of the transaction coordinator, performed in order.

`Arm` is that of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.broker.coordinator.effects import Arm
from kohort.broker.notice import Notice
from kohort.broker.transactions.events import Result, TopicPartition
from kohort.broker.transactions.transaction_metadata import Metadata
from kohort.protocol.slotted import slotted


@slotted
class StateRecord:
    """A record of ``__transaction_state``; None: the id has expired."""

    transactional_id: str
    metadata: Metadata | None


@slotted
class Append:
    """Write these records, before anything that follows.

    `Appended` or `AppendFailed` follows.
    """

    records: Sequence[StateRecord]
    append_id: int
    """Ids ascend."""
    value_version: int
    """The version of their values."""
    opens_window: bool = False
    """`Appended` follows in the next turn of the event loop: requests that arrive
    together with this one's are answered CONCURRENT_TRANSACTIONS."""


@slotted
class WriteMarkers:
    """End a transaction in its partitions; `MarkerWritten` follows for each of them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: Sequence[TopicPartition]


class Reply(NamedTuple):
    """Answer the request that brought this token; at most once per token."""

    token: object
    result: Result


Effect = Append | WriteMarkers | Arm | Notice | Reply
