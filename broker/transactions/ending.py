"""The end of a transaction: EndTxn, timeouts, fencing, and the markers that follow.

1. `end`, `timed_out` or `fence` append PrepareCommit or PrepareAbort.
2. When the log has it (`prepared`), the producer is answered, and the timer for the
   markers is armed: for the next turn of the event loop, or for later
   (``transaction.markers.delay.ms``). Until then the id is busy, as in Kafka, which
   sends the markers to other brokers.
3. When the timer fires (`markers_due`), a marker is written to each partition.
4. `marker_written` counts them; a refused one is due again later. After the last one,
   CompleteCommit or CompleteAbort is appended.

The markers do not wait for the timer after a command, after a load, and if the delay is
0: then the producer is answered when they are written.
"""

from __future__ import annotations

from kohort.broker.runtime.events import TimerKey
from kohort.broker.transactions import notices
from kohort.broker.transactions.events import (
    EndTransaction,
    EndTransactionResult,
    MarkerWritten,
    Result,
)
from kohort.broker.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_EPOCH_FENCE,
    PREPARED,
    check,
)
from kohort.broker.transactions.transaction_metadata import (
    FIRST_RETRY,
    LAST_EPOCH,
    NEVER,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Metadata,
    TransactionMetadata,
    is_exhausted,
)
from kohort.broker.transactions.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import replace

_ENDED = {True: COMPLETE_COMMIT, False: COMPLETE_ABORT}

_DONE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Answers to a marker after which its partition needs none: it has been deleted, or the
transaction has ended there with a higher epoch. Kafka waits for a new coordinator in
the last two cases, and the transactional id is of no use until then."""


def end(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: EndTransaction
) -> None:
    """Commits or aborts a transaction."""
    transaction = transactions.get(event.transactional_id)
    if not event.transactional_id:
        error = ErrorCode.INVALID_REQUEST
        turn.reply(event.token, EndTransactionResult(error))
        return
    if transaction is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        turn.reply(event.token, EndTransactionResult(error))
        return
    if event.bumps_epoch:
        _end_with_next_epoch(turn, transaction, event)
    else:
        _end_with_same_epoch(turn, transaction, event)


def _refuse(
    turn: Turn,
    transaction: TransactionMetadata,
    event: EndTransaction,
    error: ErrorCode,
) -> None:
    turn.reply(event.token, EndTransactionResult(error))
    if turn.listening and error == ErrorCode.PRODUCER_FENCED:
        turn.notices.append(notices.transaction_fenced(transaction, event))


def _cause(event: EndTransaction) -> str:
    return "client_committed" if event.is_commit else "client_aborted"


# -- EndTxn up to v4


def _end_with_same_epoch(
    turn: Turn, transaction: TransactionMetadata, event: EndTransaction
) -> None:
    metadata = transaction.metadata
    if metadata.producer_id != event.producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif metadata.producer_epoch != event.producer_epoch:
        error = ErrorCode.PRODUCER_FENCED
    elif transaction.is_busy:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif metadata.state is ONGOING:
        after = metadata.ended(turn.now_ms, is_commit=event.is_commit)
        result = EndTransactionResult(ErrorCode.NONE)
        turn.change(transaction, after, _cause(event), event.token, result)
        return
    elif metadata.state is _ENDED[event.is_commit]:
        # The same once more: the producer missed the answer.
        error = ErrorCode.NONE
    else:
        error = ErrorCode.INVALID_TXN_STATE
    _refuse(turn, transaction, event, error)


# -- EndTxn v5 (KIP-890)


def _end_with_next_epoch(
    turn: Turn, transaction: TransactionMetadata, event: EndTransaction
) -> None:
    metadata = transaction.metadata
    is_retry = _is_retry(metadata, event)
    if transaction.is_busy:
        # First of all: the producer may know its next id already.
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif metadata.producer_id != event.producer_id and not is_retry:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif metadata.producer_epoch != event.producer_epoch and not is_retry:
        error = ErrorCode.PRODUCER_FENCED
    elif is_retry:
        error = ErrorCode.INVALID_TXN_STATE
        if metadata.state is _ENDED[event.is_commit]:
            result = EndTransactionResult(
                ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch
            )
            turn.reply(event.token, result)
            return
    elif metadata.state is ONGOING or not event.is_commit:
        # A producer that does not know whether it has a transaction aborts.
        _prepare_with_next_epoch(turn, transaction, event)
        return
    else:
        error = ErrorCode.INVALID_TXN_STATE
    _refuse(turn, transaction, event, error)


def _is_retry(metadata: Metadata, event: EndTransaction) -> bool:
    """Returns whether the epoch is the one before the end of the transaction."""
    if metadata.state is ONGOING or metadata.state is EMPTY:
        return False
    if metadata.producer_id == event.producer_id:
        return metadata.producer_epoch == event.producer_epoch + 1
    return (
        metadata.previous_producer_id == event.producer_id
        and event.producer_epoch == LAST_EPOCH - 1
        and metadata.producer_epoch == 0
    )


def _prepare_with_next_epoch(
    turn: Turn, transaction: TransactionMetadata, event: EndTransaction
) -> None:
    after = _ended_with_next_epoch(turn, transaction, is_commit=event.is_commit)
    if after is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        turn.reply(event.token, EndTransactionResult(error))
        return
    complete = after.completed(turn.now_ms)
    result = EndTransactionResult(
        ErrorCode.NONE, complete.producer_id, complete.producer_epoch
    )
    turn.change(transaction, after, _cause(event), event.token, result)


def _ended_with_next_epoch(
    turn: Turn, transaction: TransactionMetadata, *, is_commit: bool
) -> Metadata | None:
    """The next state; None if the epochs are used up, and there is no producer id."""
    next_producer_id = NO_PRODUCER_ID
    if is_exhausted(transaction.metadata.producer_epoch):
        new = turn.new_producer_id()
        if new is None:
            return None
        next_producer_id = new
    return transaction.metadata.ended_with_next_epoch(
        next_producer_id, turn.now_ms, is_commit=is_commit
    )


# -- without the producer


def fence(
    turn: Turn,
    transaction: TransactionMetadata,
    cause: str,
    token: object = None,
    result: Result | None = None,
    *,
    is_final: bool = False,
) -> bool:
    """Raises the epoch and aborts the open transaction.

    Args:
        turn: collects the effects.
        transaction: Ongoing, and not busy.
        cause: the cause in ``transaction_state``.
        token: the request that is answered when it is aborted; None without one.
        result: its result.
        is_final: the producer cannot go on. Otherwise it can with InitProducerId
            (KIP-360), if it has the epoch before.

    Returns:
        False if nothing was done: its epochs are used up, and there is no producer id.
    """
    metadata = transaction.metadata
    check(metadata.state, PREPARE_EPOCH_FENCE)
    after: Metadata | None
    if turn.transaction_version >= 2:
        after = _ended_with_next_epoch(turn, transaction, is_commit=False)
        if after is None:
            return False
        if is_final:
            # As the InitProducerId of another producer, which follows the abort.
            epoch = min(after.producer_epoch + 1, LAST_EPOCH)
            after = replace(after, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    else:
        epoch = min(metadata.producer_epoch + 1, LAST_EPOCH)
        fenced = replace(metadata, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
        after = fenced.ended(turn.now_ms, is_commit=False)
    check(PREPARE_EPOCH_FENCE, PREPARE_ABORT)
    turn.change(transaction, after, cause, token, result)
    return True


def timed_out(turn: Turn, transaction: TransactionMetadata, _: TimerKey) -> None:
    """Aborts a transaction whose timeout has passed, when its timer fires."""
    transaction.armed = NEVER
    metadata = transaction.metadata
    if metadata.state is not ONGOING:
        return
    is_late = metadata.start_ms + metadata.timeout_ms < turn.now_ms
    is_idle = transaction.pending is None
    if not (is_late and is_idle and fence(turn, transaction, "timeout")):
        turn.arm_timeout(transaction)


# -- markers


def prepared(turn: Turn, transaction: TransactionMetadata, *, at_once: bool) -> None:
    """Writes the markers of a transaction that is prepared, now or soon.

    Args:
        turn: collects the effects.
        transaction: has just entered PrepareCommit or PrepareAbort, or was loaded.
        at_once: the markers are written in this turn, unless it is held.
    """
    transaction.missing = set(transaction.metadata.partitions)
    transaction.due = set(transaction.missing)
    transaction.retry_pause = FIRST_RETRY
    if at_once or not turn.settings.has_windows:
        write_due(turn, transaction)
    else:
        turn.arm_markers(transaction, max(turn.settings.markers_delay_ms, 0) / 1000)


def markers_due(turn: Turn, transaction: TransactionMetadata, _: TimerKey) -> None:
    """Writes the markers that are due, when their timer fires."""
    write_due(turn, transaction)


def write_due(turn: Turn, transaction: TransactionMetadata) -> None:
    """Writes the markers that are due, unless the transaction is held."""
    if (
        transaction.state not in PREPARED
        or transaction.pending is not None
        or turn.holds.get(transaction.transactional_id) is transaction.state
    ):
        return
    due, transaction.due = transaction.due, set()
    if due:
        turn.write_markers(transaction, sorted(due))
    elif not transaction.missing:
        _complete(turn, transaction)


def marker_written(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: MarkerWritten
) -> None:
    """Counts a marker; after the last one the transaction is complete."""
    transaction = transactions.get(event.transactional_id)
    if transaction is None or transaction.state not in PREPARED:
        return
    metadata = transaction.metadata
    if (metadata.producer_id, metadata.producer_epoch) != (
        event.producer_id,
        event.producer_epoch,
    ) or event.partition not in transaction.missing:
        return
    if event.error_code not in _DONE:
        if not transaction.due:
            turn.arm_retry(transaction)
        transaction.due.add(event.partition)
        return
    transaction.missing.remove(event.partition)
    if not transaction.missing:
        _complete(turn, transaction)


def _complete(turn: Turn, transaction: TransactionMetadata) -> None:
    after = transaction.metadata.completed(turn.now_ms)
    turn.change(transaction, after, "markers_written")
