"""Errors of a transaction: retried, answered by an abort, or fatal."""

from __future__ import annotations

import pytest
from tests.client.transactions.error_table import CASES, RETRIED, TABLE
from tests.client.transactions.play import (
    GROUP,
    P0,
    P1,
    ROWS,
    Play,
    at,
    batch_error,
    fails,
)

from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    ProducerFencedError,
    TransactionStateError,
)
from kohort.client.transactions.requests import (
    CommitOffsets,
    EndTransaction,
    InitProducer,
)
from kohort.protocol.errors import ErrorCode


@pytest.mark.parametrize(("api", "state", "code"), CASES)
def test_errors_are_told_apart(api: str, state: str, code: ErrorCode) -> None:
    """Fatal ones, and those after which the transaction is aborted, as in Java."""
    play, operation = at(api)
    assert not play.refuse(code, topic="t" if api == "AddPartitionsToTxn" else None)
    assert (play.kinds(), play.state) == ([api], state)
    error = play.core.error
    assert error is not None
    assert (error.fatal, error.requires_abort) == (
        state == "fatal_error",
        state == "abortable_error",
    )
    assert not error.retriable
    assert "transactional id 'x'" in str(error)
    if operation is not None:
        assert operation.is_done
        assert operation.error is error
    assert play.next() is None
    assert str(fails(lambda: play.core.end(is_commit=True))) == str(error)
    if state == "fatal_error":
        assert str(fails(lambda: play.core.end(is_commit=False))) == str(error)


@pytest.mark.parametrize("api", TABLE)
@pytest.mark.parametrize("code", RETRIED)
def test_requests_are_retried(api: str, code: ErrorCode) -> None:
    """The same request comes again, and the call succeeds."""
    play, operation = at(api)
    assert play.refuse(code)
    play.answer()
    assert play.asked[0] == play.asked[1]
    assert play.core.error is None
    if operation is not None:
        assert operation.is_done
        assert operation.error is None


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
    ],
)
def test_errors_have_the_class_that_applications_catch(
    code: ErrorCode, cls: type[KohortError]
) -> None:
    """Old coordinators fence with another code; a lost group is a failed commit."""
    play, operation = at("TxnOffsetCommit")
    play.refuse(code, group="g")
    assert operation is not None
    assert isinstance(operation.error, cls)


def test_an_abort_that_is_refused_is_fatal() -> None:
    """Another abort would be refused in the same way (KIP-1050)."""
    play = Play()
    play.begin(P0)
    play.core.end(is_commit=False)
    assert not play.refuse(ErrorCode.TRANSACTION_ABORTABLE)
    assert play.state == "fatal_error"


def test_offsets_are_retried_one_by_one() -> None:
    """Committed ones are not sent again."""
    play, operation = at("TxnOffsetCommit")
    play.core.offsets_committed([P0])
    play.answer()
    assert play.asked == [CommitOffsets(GROUP, {P1: ROWS[P1]}, 1)]
    assert operation is not None
    assert operation.is_done


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (ErrorCode.PRODUCER_FENCED, "fatal_error"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "fatal_error"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "fatal_error"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, "abortable_error"),
        (ErrorCode.INVALID_TXN_STATE, "abortable_error"),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "abortable_error"),
        (ErrorCode.REQUEST_TIMED_OUT, "abortable_error"),
        (ErrorCode.MESSAGE_TOO_LARGE, "abortable_error"),
    ],
)
@pytest.mark.parametrize("is_committing", [True, False])
def test_a_failed_batch_fails_the_transaction(
    code: ErrorCode, state: str, *, is_committing: bool
) -> None:
    """A commit under way fails with it; nothing is retried."""
    play = Play()
    play.begin(P0)
    play.has_batches = True
    operation = play.core.end(is_commit=True) if is_committing else None
    play.core.batch_failed(batch_error(code))
    assert play.state == state
    error = fails(lambda: play.core.add_partition(P1))
    assert (error.code, error.retriable) == (code, False)
    if operation is not None:
        assert operation.error is play.core.error


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_after_a_failed_batch_brings_a_new_epoch(version: int) -> None:
    """With version 1 by InitProducerId (KIP-360), with version 2 by EndTxn."""
    play = Play(version)
    play.begin(P0)
    play.answer()
    play.asked.clear()
    play.core.batch_failed(batch_error(ErrorCode.REQUEST_TIMED_OUT))
    assert play.core.may_abort
    assert play.end(is_commit=False).error is None
    assert play.asked[0] == EndTransaction(is_commit=False, version=version)
    assert play.asked[1:] == ([InitProducer(9, 0)] if version == 1 else [])
    assert (play.core.epoch, play.state) == (1, "ready")
    play.begin(P0)
    play.asked.clear()
    play.end()
    assert "InitProducerId" not in play.kinds()


def test_without_new_epochs_a_failed_batch_is_fatal() -> None:
    """Brokers before 2.5 cannot tell late batches from the next transaction's."""
    play = Play(version=1, can_bump=False)
    play.begin(P0)
    play.core.batch_failed(batch_error(ErrorCode.REQUEST_TIMED_OUT))
    assert play.state == "fatal_error"


def test_a_record_that_was_never_sent_needs_no_new_epoch() -> None:
    """One that is too large, for example."""
    play = Play(version=1)
    play.begin()
    play.core.send_failed(KohortError("too large"))
    assert play.state == "abortable_error"
    assert play.end(is_commit=False).error is None
    assert play.asked == []


def test_a_batch_that_fails_during_the_abort_does_not_stop_it() -> None:
    """The abort ends; version 1 then needs a new epoch."""
    play = Play(version=1)
    play.begin(P0)
    play.answer()
    play.has_batches = True
    operation = play.end(is_commit=False)
    play.core.batch_failed(batch_error(ErrorCode.REQUEST_TIMED_OUT))
    play.has_batches = False
    play.answer()
    assert operation.error is None
    assert play.kinds()[-2:] == ["EndTxn", "InitProducerId"]


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_abort_finds_out_about_pending_additions(*, is_lost: bool) -> None:
    """A partition whose response is lost may be in the transaction: it is asked again.

    Otherwise the coordinator would have a transaction that the producer takes for none.
    """
    play = Play(version=1)
    play.begin(P0)
    if is_lost:
        assert play.refuse(ErrorCode.REQUEST_TIMED_OUT)
    play.end(is_commit=False)
    added = ["AddPartitionsToTxn", "AddPartitionsToTxn", "EndTxn"]
    assert play.kinds() == (added if is_lost else [])


def test_an_abort_finds_out_about_a_pending_group() -> None:
    """Likewise; the offsets themselves are dropped."""
    play, operation = at("AddOffsetsToTxn")
    assert play.refuse(ErrorCode.REQUEST_TIMED_OUT)
    play.end(is_commit=False)
    assert play.kinds() == ["AddOffsetsToTxn", "AddOffsetsToTxn", "EndTxn"]
    assert operation is not None
    assert isinstance(operation.error, TransactionStateError)


def test_a_group_that_was_not_asked_for_is_forgotten() -> None:
    """The next transaction does not commit the offsets of the last one."""
    play, _ = at("AddOffsetsToTxn")
    play.end(is_commit=False)
    play.begin(P0)
    play.end()
    assert "TxnOffsetCommit" not in play.kinds()
