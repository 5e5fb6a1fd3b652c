"""InitProducerId: a producer gets its epoch, and fences earlier ones.

KIP-98, KIP-360, KIP-588.
"""

from __future__ import annotations

from kohort.broker.transactions import ending, notices
from kohort.broker.transactions.events import InitProducer, InitProducerResult, Result
from kohort.broker.transactions.state import EMPTY, ONGOING
from kohort.broker.transactions.transaction_metadata import (
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Metadata,
    TransactionMetadata,
    is_exhausted,
)
from kohort.broker.transactions.turn import Turn
from kohort.protocol.errors import ErrorCode


def initialize(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: InitProducer
) -> None:
    """Gives a producer the next epoch; aborts the transaction that is open."""
    if not turn.settings.allows_timeout(event.timeout_ms):
        error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        turn.reply(event.token, InitProducerResult(error))
        return
    transaction = transactions.get(event.transactional_id)
    if transaction is None:
        producer_id = turn.new_producer_id()
        if producer_id is None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            turn.reply(event.token, InitProducerResult(error))
            return
        transaction = _new(turn, producer_id, event)
        transactions[event.transactional_id] = transaction
    error = _error(transaction, event)
    if error:
        turn.reply(event.token, InitProducerResult(error))
        if turn.listening and error == ErrorCode.PRODUCER_FENCED:
            turn.notices.append(notices.transaction_fenced(transaction, event))
        return
    if transaction.state is ONGOING:
        # The next try gets an epoch.
        result = InitProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not ending.fence(turn, transaction, "fenced", event.token, result):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            turn.reply(event.token, InitProducerResult(error))
        return
    if event.client is not None:
        transaction.client_id = event.client.id
    _next_epoch(turn, transaction, event)


def _new(turn: Turn, producer_id: int, event: InitProducer) -> TransactionMetadata:
    metadata = Metadata(
        producer_id,
        NO_EPOCH,
        event.timeout_ms,
        EMPTY,
        NO_PARTITIONS,
        -1,
        turn.now_ms,
    )
    return TransactionMetadata(event.transactional_id, metadata, turn.now)


def _error(transaction: TransactionMetadata, event: InitProducer) -> ErrorCode:
    if transaction.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    metadata = transaction.metadata
    is_new = metadata.producer_epoch == NO_EPOCH
    if (
        event.producer_id not in (NO_PRODUCER_ID, metadata.producer_id)
        and not is_new
        # A producer may have missed that it got another id.
        and not (
            event.producer_id == metadata.previous_producer_id
            and is_exhausted(event.producer_epoch)
        )
    ):
        return ErrorCode.PRODUCER_FENCED
    if (
        metadata.state is not ONGOING
        and is_exhausted(metadata.producer_epoch)
        and event.producer_epoch not in (NO_EPOCH, metadata.producer_epoch)
    ):
        # A retry, or a fenced producer: Kafka only looks for the next epoch here.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if metadata.state is ONGOING or is_new or event.producer_epoch in _known(metadata):
        # As in Kafka, the epoch does not matter while a transaction is open.
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED


def _known(metadata: Metadata) -> tuple[int, ...]:
    """Epochs that a producer may have; -1 for a new producer."""
    return NO_EPOCH, metadata.producer_epoch, metadata.last_producer_epoch


def _next_epoch(
    turn: Turn, transaction: TransactionMetadata, event: InitProducer
) -> None:
    metadata = transaction.metadata
    has_epoch = event.producer_epoch != NO_EPOCH
    following: tuple[int, int] | None
    if has_epoch and event.producer_epoch != metadata.producer_epoch != NO_EPOCH:
        # The producer missed the answer: it gets the same again.
        following = metadata.producer_id, metadata.producer_epoch
        last_epoch = metadata.last_producer_epoch
    else:
        following = _following(turn, metadata)
        last_epoch = metadata.producer_epoch if has_epoch else NO_EPOCH
    if following is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        turn.reply(event.token, InitProducerResult(error))
        return
    after = metadata.initialized(*following, last_epoch, event.timeout_ms, turn.now_ms)
    result = InitProducerResult(ErrorCode.NONE, *following)
    turn.change(
        transaction, after, "initialized", event.token, result, opens_window=True
    )


def _following(turn: Turn, metadata: Metadata) -> tuple[int, int] | None:
    """The next epoch, with its producer id; None if there is no producer id for it."""
    if not is_exhausted(metadata.producer_epoch):
        return metadata.producer_id, metadata.producer_epoch + 1
    producer_id = turn.new_producer_id()
    return None if producer_id is None else (producer_id, 0)


def raise_epoch(
    turn: Turn,
    transaction: TransactionMetadata,
    cause: str,
    token: object,
    result: Result,
) -> bool:
    """Gives a transactional id the next epoch, though no producer asks for it.

    Args:
        turn: collects the effects.
        transaction: neither Ongoing nor busy.
        cause: the cause in ``transaction_state``.
        token: the request that is answered then.
        result: its result.

    Returns:
        False if nothing was done: its epochs are used up, and there is no producer id.
    """
    metadata = transaction.metadata
    following = _following(turn, metadata)
    if following is None:
        return False
    after = metadata.initialized(*following, NO_EPOCH, metadata.timeout_ms, turn.now_ms)
    turn.change(transaction, after, cause, token, result)
    return True
