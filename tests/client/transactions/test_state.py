"""The pure state of a transactional producer: its requests, and the errors of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.client.consuming.consumer_group import ConsumerGroupMetadata
from kohort.client.errors import (
    CommitFailedError,
    KohortError,
    ProducerFencedError,
    TransactionStateError,
    error_of,
)
from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.client.transactions.requests import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducer,
    Request,
)
from kohort.client.transactions.state import TRANSITIONS, TransactionState
from kohort.client.transactions.transaction import Operation, Transaction
from kohort.protocol.errors import ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "m", None)
ROWS = {P0: OffsetAndMetadata(5), P1: OffsetAndMetadata(7)}
APIS = {
    InitProducer: "InitProducerId",
    AddPartitions: "AddPartitionsToTxn",
    AddOffsets: "AddOffsetsToTxn",
    CommitOffsets: "TxnOffsetCommit",
    EndTransaction: "EndTxn",
}


class Play:
    """A producer without batches, and its coordinator's answers.

    Attributes:
        core: the state under test.
        asked: the requests so far.
        has_batches: whether batches are undelivered.
    """

    def __init__(self, version: int = 2, *, can_bump: bool = True) -> None:
        self.core = Transaction("x")
        self.asked: list[Request] = []
        self.has_batches = False
        start = self.core.initialize()
        self.core.learn(version, 1, can_bump=can_bump)
        self.answer()
        assert start.is_done
        assert start.error is None
        self.asked.clear()

    @property
    def state(self) -> TransactionState:
        """The current state."""
        return self.core.state

    def next(self) -> Request | None:
        """The next request."""
        return self.core.next_request(has_batches=self.has_batches)

    def answer(self) -> None:
        """Answers all requests without an error."""
        while (request := self.next()) is not None:
            self.asked.append(request)
            self.accept(request)

    def accept(self, request: Request) -> None:
        """Answers a request without an error."""
        core = self.core
        match request:
            case InitProducer():
                core.initialized(max(request.producer_id, 9), request.epoch + 1)
            case AddPartitions():
                core.partitions_added(request)
            case AddOffsets():
                core.group_added()
            case CommitOffsets():
                core.offsets_committed(request.offsets)
            case EndTransaction(version=version):
                bumped = (9, core.epoch + 1) if version >= 2 else (-1, -1)
                core.ended(*bumped)

    def refuse(self, code: int, **where: Any) -> bool:
        """Answers the next request with an error; returns whether it is retried."""
        request = self.next()
        assert request is not None
        self.asked.append(request)
        return self.core.refused(
            request, error_of(code, api=APIS[type(request)], **where)
        )

    def begin(self, *places: TopicPartition) -> None:
        """Begins a transaction with records in some partitions."""
        self.core.begin()
        for place in places:
            self.core.add_partition(place)

    def end(self, *, is_commit: bool = True) -> Operation:
        """Ends the transaction, with all answers."""
        operation = self.core.end(is_commit=is_commit)
        self.answer()
        return operation

    def step(self, kind: str, code: int) -> Operation | None:
        """One step of a random scene; `code` is the error of a request or batch."""
        core = self.core
        if kind == "begin":
            core.begin()
        elif kind == "add":
            core.add_partition(P0)
        elif kind == "offsets":
            return core.add_offsets(ROWS, GROUP)
        elif kind in {"commit", "abort"}:
            return core.end(is_commit=kind == "commit")
        elif kind == "fail":
            core.batch_failed(batch_error(code or ErrorCode.REQUEST_TIMED_OUT))
        elif (request := self.next()) is not None:
            if code:
                api = APIS[type(request)]
                core.refused(request, error_of(code, api=api, topic="t"))
            else:
                self.accept(request)
        return None

    def kinds(self) -> list[str]:
        """The kinds of the requests so far."""
        return [APIS[type(request)] for request in self.asked]


def fails(call: Callable[[], object], message: str = ".") -> KohortError:
    """The error that a call raises."""
    with pytest.raises(KohortError, match=message) as caught:
        call()
    return caught.value


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


# -- errors

RETRIED = [
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
]
# As in the handlers of kafka-clients 4.3: the state after each error of each request.
TABLE = {
    "InitProducerId": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ],
        "abortable_error": [ErrorCode.TRANSACTION_ABORTABLE],
    },
    "AddPartitionsToTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ],
        "abortable_error": [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    },
    "AddOffsetsToTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
    "TxnOffsetCommit": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
    "EndTxn": {
        "fatal_error": [
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
        "abortable_error": [
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.TRANSACTION_ABORTABLE,
        ],
    },
}


def at(api: str) -> tuple[Play, Operation | None]:
    """A producer whose next request is of this API, and the operation behind it."""
    play = Play(version=1)
    operation: Operation | None = None
    if api == "InitProducerId":
        play.core = Transaction("x")
        operation = play.core.initialize()
        return play, operation
    play.begin(P0)
    if api != "AddPartitionsToTxn":
        play.answer()
    if api in {"AddOffsetsToTxn", "TxnOffsetCommit"}:
        operation = play.core.add_offsets(ROWS, GROUP)
    if api == "TxnOffsetCommit":
        request = play.next()
        assert request is not None
        play.accept(request)
    if api == "EndTxn":
        operation = play.core.end(is_commit=True)
    play.asked.clear()
    return play, operation


CASES = [
    (api, state, code)
    for api, states in TABLE.items()
    for state, codes in states.items()
    for code in codes
]


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


def batch_error(code: int) -> KohortError:
    """The error of a batch."""
    return error_of(code, api="Produce", topic="t", partition=0)


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


# -- features


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


# -- all of it

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
