"""The states of a transactional id and their transitions; the table is complete."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TransactionState(StrEnum):
    """States of a transactional id, under the names that Kafka shows."""

    EMPTY = "Empty"
    """The producer has its epoch; no transaction has begun.

    Ends when: partitions are added; EndTxn v5 aborts (KIP-890); the id expires.
    """

    ONGOING = "Ongoing"
    """A transaction is open.

    Ends when: the producer commits or aborts; the timeout has passed; another producer
    is initialized, which fences this one.
    """

    PREPARE_COMMIT = "PrepareCommit"
    """The transaction is committed, and its partitions get their markers.

    Requests are answered CONCURRENT_TRANSACTIONS.
    Ends when: all partitions have their markers.
    """

    PREPARE_ABORT = "PrepareAbort"
    """The transaction is aborted; else as PrepareCommit."""

    COMPLETE_COMMIT = "CompleteCommit"
    """The latest transaction was committed. Ends as Empty."""

    COMPLETE_ABORT = "CompleteAbort"
    """The latest transaction was aborted. Ends as Empty."""

    DEAD = "Dead"
    """The id has expired and is forgotten."""

    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """The epoch is raised to fence a producer, just before PrepareAbort.

    No transaction stays in this state, and no record has it.
    """


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

BY_NUMBER: Final = tuple(TransactionState)
"""States by their number in records of ``__transaction_state``."""
NUMBERS: Final = {state: number for number, state in enumerate(BY_NUMBER)}

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""States in which markers are written."""
AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""States without a transaction: the id may expire."""

_FROM_REST: Final = frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD})

TRANSITIONS: Mapping[TransactionState, frozenset[TransactionState]] = {
    EMPTY: _FROM_REST,
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT, PREPARE_EPOCH_FENCE}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: _FROM_REST,
    COMPLETE_ABORT: _FROM_REST,
    DEAD: frozenset(),
    PREPARE_EPOCH_FENCE: frozenset({PREPARE_ABORT}),
}


def check(before: TransactionState, after: TransactionState) -> None:
    """Raises if the table does not have a transition.

    Raises:
        AssertionError: it does not; a defect of ours.
    """
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"no transition from {before} to {after}")
