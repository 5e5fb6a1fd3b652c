"""The pure state of a transactional producer: its requests, step by step."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.transactions.error_table import CASES, RETRIED
from tests.client.transactions.play import GROUP, P0, P1, ROWS, Play, fails

from kohort.client.errors import KohortError, TransactionStateError
from kohort.client.transactions.requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducer,
)
from kohort.client.transactions.state import TRANSITIONS, TransactionState
from kohort.client.transactions.transaction_manager import Operation


def test_version_1_adds_first() -> None:
    """Partitions once, and the group before its offsets; the epoch stays."""
    play = Play(version=1)
    play.begin(P0)
    assert not play.core.may_send(P0)
    play.answer()
    assert play.core.may_send(P0)
    play.core.add_partition(P0)
    play.core.add_partition(P1)
    commit = play.core.add_offsets(ROWS, GROUP)
    play.answer()
    assert commit.is_done
    assert play.end().error is None
    assert play.asked == [
        AddPartitions((P0,)),
        AddPartitions((P1,)),
        AddOffsets("g"),
        CommitOffsets(GROUP, ROWS, 1),
        EndTransaction(is_commit=True, version=1),
    ]
    assert (play.core.epoch, play.state) == (0, "ready")
    assert not play.core.may_send(P0)


def test_version_2_adds_nothing() -> None:
    """Brokers do (KIP-890), and the end brings the next epoch."""
    play = Play()
    play.begin(P0)
    assert play.core.may_send(P0)
    play.core.add_offsets(ROWS, GROUP)
    play.end()
    assert play.asked == [
        CommitOffsets(GROUP, ROWS, 2),
        EndTransaction(is_commit=True, version=2),
    ]
    assert (play.core.epoch, play.state) == (1, "ready")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_empty_transaction_ends_without_a_request(
    version: int, *, is_commit: bool
) -> None:
    """The coordinator does not know it."""
    play = Play(version)
    play.begin()
    assert play.end(is_commit=is_commit).is_done
    assert (play.asked, play.state) == ([], "ready")


def test_the_end_waits_for_batches() -> None:
    """EndTxn is sent after the last response."""
    play = Play()
    play.begin(P0)
    play.has_batches = True
    operation = play.end()
    assert not operation.is_done
    play.has_batches = False
    play.answer()
    assert operation.is_done


def test_a_commit_that_timed_out_is_called_again() -> None:
    """It is the same one; an abort in its place is refused."""
    play = Play()
    play.begin(P0)
    first = play.core.end(is_commit=True)
    assert play.core.end(is_commit=True) is first
    for call in (lambda: play.core.end(is_commit=False), play.core.begin):
        error = fails(call, "the commit has not ended; call commit_transaction again")
        assert isinstance(error, TransactionStateError)
        assert not error.fatal
    play.answer()
    assert first.is_done


@pytest.mark.parametrize("call", ["end", "add_offsets", "add_partition"])
def test_calls_without_a_transaction_are_refused(call: str) -> None:
    """The state does not change."""
    play = Play()
    calls = {
        "end": lambda: play.core.end(is_commit=True),
        "add_offsets": lambda: play.core.add_offsets(ROWS, GROUP),
        "add_partition": lambda: play.core.add_partition(P0),
    }
    fails(calls[call], "no transaction has begun")
    assert play.state == "ready"
    play.begin()
    fails(play.core.begin, "begin_transaction: a transaction has begun")


def test_an_upgrade_begins_with_the_next_transaction() -> None:
    """The current one ends as it began, and a new epoch separates the two."""
    play = Play(version=1)
    play.begin(P0)
    play.core.learn(2, 2, can_bump=True)
    play.answer()
    play.end()
    assert play.asked == [
        AddPartitions((P0,)),
        EndTransaction(is_commit=True, version=1),
        InitProducer(9, 0),
    ]
    play.asked.clear()
    play.begin(P0)
    play.end()
    assert play.asked == [EndTransaction(is_commit=True, version=2)]


def test_older_features_are_ignored() -> None:
    """A coordinator that has moved may not know the newest ones yet."""
    play = Play()
    play.core.learn(1, 0, can_bump=True)
    play.begin(P0)
    play.end()
    assert play.core.version == 2


CODES = st.sampled_from([0, *sorted({int(code) for *_, code in CASES}), *RETRIED])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "add", "offsets", "commit", "abort", "fail", "ask"]),
        CODES,
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(version=st.sampled_from([1, 2]), steps=STEPS)
def test_every_call_ends_or_is_refused(
    version: int, steps: Iterable[tuple[str, int]]
) -> None:
    """In any order, with any errors, without a transition outside of the table."""
    play = Play(version)
    core = play.core
    operations: list[Operation | None] = []
    for kind, code in steps:
        before = core.state
        try:
            operations.append(play.step(kind, code))
        except KohortError:
            assert core.state is before
    if core.may_abort:
        operations.append(core.end(is_commit=False))
    play.answer()
    assert all(operation.is_done for operation in operations if operation)
    assert core.state in {"ready", "fatal_error"}
    assert core.state == "fatal_error" or not core.partitions


def test_the_table_has_all_states() -> None:
    """Each state can be reached; the fatal one has no end."""
    reached = set().union(*TRANSITIONS.values()) | {TransactionState.UNINITIALIZED}
    assert reached == set(TRANSITIONS) == set(TransactionState)
    assert not TRANSITIONS[TransactionState.FATAL_ERROR]
