"""The table of states."""

from __future__ import annotations

import pytest

from kohort.broker.transactions.state import (
    BY_NUMBER,
    DEAD,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TRANSITIONS,
    TransactionState,
    check,
)

KAFKAS_PREVIOUS = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {
        "Ongoing",
        "PrepareEpochFence",
        "Empty",
        "CompleteCommit",
        "CompleteAbort",
    },
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareEpochFence": {"Ongoing"},
}
"""Kafka has its table the other way round, by the state that is entered."""


@pytest.mark.parametrize("after", TransactionState)
def test_transitions_are_those_of_kafka(after: TransactionState) -> None:
    """A state is entered from the states that Kafka allows, and no others."""
    before = {state.value for state, next_ in TRANSITIONS.items() if after in next_}
    assert before == KAFKAS_PREVIOUS[after.value]


def test_numbers_are_those_of_kafka() -> None:
    """The numbers in records of __transaction_state."""
    assert BY_NUMBER.index(PREPARE_COMMIT) == 2
    assert BY_NUMBER.index(PREPARE_EPOCH_FENCE) == 7
    assert len(BY_NUMBER) == 8


def test_other_transitions_are_errors() -> None:
    """A transition that the table does not list raises."""
    check(ONGOING, PREPARE_COMMIT)
    with pytest.raises(AssertionError, match="from Dead to Ongoing"):
        check(DEAD, ONGOING)
    with pytest.raises(AssertionError):
        check(PREPARE_COMMIT, PREPARE_ABORT)
