"""The states of a transactional producer, and the table of all transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class TransactionState(StrEnum):
    """States of a transactional producer, under the Java client's names."""

    UNINITIALIZED = "uninitialized"
    """Without a producer id. Ends when: it is started."""

    INITIALIZING = "initializing"
    """Waits for InitProducerId: for its first epoch, or for a new one after an abort.

    Ends when: it is answered.
    """

    READY = "ready"
    """Has a producer id and no transaction. Ends when: a transaction begins."""

    IN_TRANSACTION = "in_transaction"
    """Takes records and offsets.

    Ends when: the application commits or aborts; a batch or a request fails.
    """

    COMMITTING_TRANSACTION = "committing_transaction"
    """Sends the remaining batches and offsets, and then EndTxn.

    Ends when: EndTxn is answered; a batch or a request fails.
    """

    ABORTING_TRANSACTION = "aborting_transaction"
    """Drops unsent batches, waits for sent ones, and then sends EndTxn.

    Ends when: EndTxn is answered.
    """

    ABORTABLE_ERROR = "abortable_error"
    """The transaction cannot be committed. Ends when: the application aborts it."""

    FATAL_ERROR = "fatal_error"
    """Fenced, or in an unknown state. The producer can only be closed."""


UNINITIALIZED = TransactionState.UNINITIALIZED
INITIALIZING = TransactionState.INITIALIZING
READY = TransactionState.READY
IN_TRANSACTION = TransactionState.IN_TRANSACTION
COMMITTING_TRANSACTION = TransactionState.COMMITTING_TRANSACTION
ABORTING_TRANSACTION = TransactionState.ABORTING_TRANSACTION
ABORTABLE_ERROR = TransactionState.ABORTABLE_ERROR
FATAL_ERROR = TransactionState.FATAL_ERROR

TRANSITIONS: Mapping[TransactionState, frozenset[TransactionState]] = {
    UNINITIALIZED: frozenset({INITIALIZING, FATAL_ERROR}),
    INITIALIZING: frozenset({READY, ABORTABLE_ERROR, FATAL_ERROR}),
    READY: frozenset({IN_TRANSACTION, FATAL_ERROR}),
    IN_TRANSACTION: frozenset(
        {COMMITTING_TRANSACTION, ABORTING_TRANSACTION, ABORTABLE_ERROR, FATAL_ERROR}
    ),
    COMMITTING_TRANSACTION: frozenset(
        {READY, INITIALIZING, ABORTABLE_ERROR, FATAL_ERROR}
    ),
    ABORTING_TRANSACTION: frozenset({READY, INITIALIZING, FATAL_ERROR}),
    ABORTABLE_ERROR: frozenset({ABORTING_TRANSACTION, FATAL_ERROR}),
    FATAL_ERROR: frozenset(),
}


def check(before: TransactionState, after: TransactionState) -> None:
    """Checks that a transition is in the table.

    Raises:
        AssertionError: the table does not have it: a mistake of ours.
    """
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"no transition from {before} to {after}")
