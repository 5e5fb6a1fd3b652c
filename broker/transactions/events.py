"""Events that the transaction coordinator handles: requests, markers and timers.

As in `kohort.broker.coordinator.events`, API versions stop at the handlers, and a token
is opaque here: it comes back in `Reply`. Durations are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.broker.notice import Client
from kohort.broker.runtime.effects import CommandResult
from kohort.broker.runtime.events import Appended, AppendFailed, Expired
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import TransactionState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted


class TopicPartition(NamedTuple):
    """A partition in a transaction."""

    topic: str
    partition: int


@slotted
class InitProducer:
    """A producer wants an epoch (InitProducerId with a transactional id)."""

    token: object
    transactional_id: str
    timeout_ms: int
    """The timeout of its transactions."""
    producer_id: int = -1
    producer_epoch: int = -1
    """Those that the producer has (KIP-360); -1 for a new producer."""
    client: Client | None = None


@slotted
class AddPartitions:
    """Partitions become part of a transaction, which begins if none is open.

    AddPartitionsToTxn, AddOffsetsToTxn; Produce and TxnOffsetCommit (KIP-890).
    """

    token: object
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[tuple[str, int]]
    """(topic, partition); that of ``__consumer_offsets`` stands for `group_id`."""
    verify_only: bool = False
    """Add nothing: return whether each partition is part of the transaction."""
    transaction_version: int = 2
    """0: the request of a client that adds partitions itself. 2: a broker adds them."""
    group_id: str | None = None
    """The group whose offsets become part of the transaction."""
    client: Client | None = None


@slotted
class EndTransaction:
    """A producer commits or aborts its transaction (EndTxn)."""

    token: object
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    bumps_epoch: bool
    """The producer continues with the next epoch (KIP-890): EndTxn v5."""
    client: Client | None = None


@slotted
class DescribeTransaction:
    """A request for the state of one transactional id (DescribeTransactions)."""

    token: object
    transactional_id: str


@slotted
class MarkerWritten:
    """A partition has the marker of a transaction, or has refused it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """Those of the marker."""
    partition: TopicPartition
    error_code: int


# -- commands: power over a transaction


@slotted
class FenceProducer:
    """Raises the epoch, so that the producer is fenced; aborts its transaction."""

    token: object
    transactional_id: str


@slotted
class ExpireTransaction:
    """Aborts an open transaction as if its timeout had passed."""

    token: object
    transactional_id: str


@slotted
class HoldTransaction:
    """Holds a transaction in PrepareCommit or PrepareAbort: no markers are written."""

    token: object
    transactional_id: str
    state: TransactionState


@slotted
class ReleaseTransaction:
    """Lets a held transaction go on."""

    token: object
    transactional_id: str


Command = FenceProducer | ExpireTransaction | HoldTransaction | ReleaseTransaction
"""Commands of tests and operators; they are not part of Kafka's protocol."""

TransactionEvent = InitProducer | AddPartitions | EndTransaction | DescribeTransaction
"""Requests about one transactional id."""

Event = TransactionEvent | Command | MarkerWritten | Expired | Appended | AppendFailed


# -- results


@slotted
class InitProducerResult:
    """The answer to `InitProducer`."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


@slotted
class AddPartitionsResult:
    """The answer to `AddPartitions`: one code for all, or one per partition in order.

    NONE means that they are part of the open transaction.
    """

    error_code: int
    codes: Sequence[int] | None = None


@slotted
class EndTransactionResult:
    """The answer to `EndTransaction`; id and epoch to go on with if it bumps."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


@slotted
class DescribeTransactionResult:
    """The answer to `DescribeTransaction`."""

    error_code: int
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    """Milliseconds since the epoch; -1 if no transaction has begun."""
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: Sequence[TopicPartition] = ()


Result = (
    InitProducerResult
    | AddPartitionsResult
    | EndTransactionResult
    | DescribeTransactionResult
    | CommandResult
)


def refused(
    event: TransactionEvent, error: int, settings: TransactionSettings
) -> Result:
    """Returns the result of a request that no coordinator handles."""
    if not event.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    match event:
        case InitProducer():
            if event.transactional_id and not settings.allows_timeout(event.timeout_ms):
                error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
            return InitProducerResult(error)
        case AddPartitions():
            return AddPartitionsResult(error)
        case EndTransaction():
            return EndTransactionResult(error)
    return DescribeTransactionResult(error, event.transactional_id)
