"""Timeouts, markers, loads, and power over transactions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.transactions.context import ID, T0, T1, Context

from kohort.broker.runtime.effects import Arm, Reply
from kohort.broker.runtime.events import Appended, Expired
from kohort.broker.transactions.events import (
    ExpireTransaction,
    FenceProducer,
    HoldTransaction,
    ReleaseTransaction,
)
from kohort.broker.transactions.settings import TransactionSettings
from kohort.broker.transactions.state import ONGOING, PREPARE_ABORT, PREPARE_COMMIT
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import read_records


@pytest.fixture
def scene() -> Context:
    """A producer with a timeout of 60 s, in a transaction with two partitions."""
    made = Context()
    made.init()
    made.add(T0, T1)
    return made


# -- timeouts


def test_a_transaction_times_out(scene: Context) -> None:
    """The coordinator looks every 10 s, and aborts with the next epoch."""
    scene.sleep(60)
    assert scene.state == "Ongoing"
    scene.sleep(10)
    assert scene.states()[2:] == [
        ("PrepareAbort", "timeout"),
        ("CompleteAbort", "markers_written"),
    ]
    assert scene.markers == [(T0, False, 1), (T1, False, 1)]
    assert scene.events[-2]["duration_ns"] == 70 * 10**9
    fenced = ErrorCode.PRODUCER_FENCED
    assert scene.end(epoch=0).error_code == fenced
    invalid = ErrorCode.INVALID_TXN_STATE
    assert scene.end(epoch=0, bumps=True).error_code == invalid
    late = scene.end(epoch=0, bumps=True, is_commit=False)
    assert (late.error_code, late.producer_epoch) == (0, 1)


def test_the_timeout_counts_from_the_begin(scene: Context) -> None:
    """Later partitions do not extend it; the next transaction has all its time."""
    scene.sleep(59)
    scene.end()
    scene.add(T0)
    scene.sleep(59)
    assert scene.state == "Ongoing"
    scene.add(T1)
    scene.sleep(12)
    assert scene.state == "CompleteAbort"


def test_a_timeout_waits_for_a_change_in_progress(scene: Context) -> None:
    """A record that is being written is not overtaken."""
    start = scene.clock.now()
    coordinator, event = scene.coordinator, scene.end_event()
    (append,) = coordinator.handle(event, start)
    effects = coordinator.handle(Expired(("timeout", ID)), start + 100)
    assert [type(each) for each in effects] == [Arm]
    coordinator.handle(Appended(append.append_id), start + 100)
    assert scene.state == "PrepareCommit"


def test_the_timeout_goes_on_after_a_move(scene: Context) -> None:
    """It counts from the begin that the record has."""
    scene.sleep(55)
    scene.reload()
    assert scene.states()[-1] == ("Ongoing", "loaded")
    scene.sleep(20)
    assert scene.state == "CompleteAbort"


def test_a_timeout_needs_a_producer_id(scene: Context) -> None:
    """The epochs are used up, and no id can be reserved: it is tried again."""
    metadata = scene.transaction.metadata
    after = metadata.initialized(4000, 32_766, -1, 60_000, 1)
    scene.forge(after)
    scene.add(T0)
    scene.next_producer_id = None
    scene.sleep(75)
    assert scene.state == "Ongoing"
    scene.next_producer_id = 5000
    scene.sleep(10)
    assert (scene.state, scene.transaction.metadata.producer_id) == (
        "CompleteAbort",
        5000,
    )


# -- markers


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_marker_is_tried_again(scene: Context, error: ErrorCode) -> None:
    """The producer has its answer; the transaction ends when all markers are there."""
    scene.answers[T1] = error
    assert scene.end().error_code == ErrorCode.NONE
    assert (scene.state, scene.describe().partitions) == ("PrepareCommit", [T1])
    assert scene.add(T0).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    scene.sleep(1)
    assert scene.state == "PrepareCommit"
    scene.answers.clear()
    scene.sleep(1)
    assert scene.state == "CompleteCommit"
    assert scene.markers == [(T0, True, 0), (T1, True, 0)]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ],
)
def test_a_partition_needs_no_marker(scene: Context, error: ErrorCode) -> None:
    """It was deleted, or has the end of the transaction from somewhere else."""
    scene.answers[T0] = error
    scene.end(is_commit=False)
    assert scene.state == "CompleteAbort"


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_move_before_the_markers(scene: Context, is_commit: bool) -> None:
    """The new coordinator writes them again, and completes the transaction."""
    scene.answers[T0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    scene.end(is_commit=is_commit)
    scene.answers.clear()
    scene.markers.clear()
    scene.reload()
    assert scene.markers == [(T0, is_commit, 0), (T1, is_commit, 0)]
    assert scene.state == ("CompleteCommit" if is_commit else "CompleteAbort")


# -- the time before the markers


def test_a_producer_is_answered_before_its_markers(scene: Context) -> None:
    """Requests that come together with EndTxn, or follow at once, find the id busy."""
    busy, start = ErrorCode.CONCURRENT_TRANSACTIONS, scene.clock.now()
    with scene.together():
        assert scene.end().error_code == ErrorCode.NONE
        assert (scene.state, scene.markers) == ("PrepareCommit", [])
        assert scene.describe().partitions == [T0, T1]
        for late in (scene.add(T0), scene.add(T0, version=2), scene.end()):
            assert late.error_code == busy
        assert scene.end(bumps=True).error_code == busy
        assert scene.init().error_code == busy
    assert scene.clock.now() == start
    assert (scene.state, len(scene.markers)) == ("CompleteCommit", 2)
    assert scene.add(T0).error_code == ErrorCode.NONE


def test_an_abort_by_another_producer_is_answered_before_its_markers(
    scene: Context,
) -> None:
    """As an abort of EndTxn, or without a transaction (KIP-890)."""
    with scene.together():
        for _ in range(2):
            error = scene.init().error_code
            assert error == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (scene.state, scene.markers) == ("PrepareAbort", [])
    assert scene.state == "CompleteAbort"
    scene.init()
    with scene.together():
        assert scene.end(bumps=True, is_commit=False).error_code == ErrorCode.NONE
        assert scene.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.state == "CompleteAbort"


def test_the_next_turn_is_asked_for_before_the_answer(scene: Context) -> None:
    """However quick a client in another thread is, the markers are before it."""
    now = scene.clock.now()
    (append,) = scene.coordinator.handle(scene.end_event(), now)
    effects = scene.coordinator.handle(Appended(append.append_id), now)
    kinds = [type(each) for each in effects]
    assert kinds.index(Arm) < kinds.index(Reply)


def delayed(delay_ms: int) -> Context:
    """A producer in a transaction, with ``transaction.markers.delay.ms``."""
    made = Context(TransactionSettings(markers_delay_ms=delay_ms))
    made.init()
    made.add(T0, T1)
    return made


def test_markers_before_the_answer() -> None:
    """With a delay of 0 no request finds the id busy."""
    scene = delayed(0)
    with scene.together():
        assert scene.end().error_code == ErrorCode.NONE
        assert (scene.state, len(scene.markers)) == ("CompleteCommit", 2)
        later: list[Any] = [scene.add(T0), scene.end(), scene.init(), scene.init()]
        assert [each.error_code for each in later] == [ErrorCode.NONE] * 4


def test_markers_wait_for_the_delay() -> None:
    """On the broker's clock; those of timeouts, too."""
    scene = delayed(50)
    scene.end()
    scene.sleep(0.049)
    assert (scene.state, scene.markers) == ("PrepareCommit", [])
    scene.sleep(0.001)
    assert scene.state == "CompleteCommit"
    scene.add(T0)
    scene.sleep(70)
    assert scene.states()[-2:] == [
        ("PrepareAbort", "timeout"),
        ("CompleteAbort", "markers_written"),
    ]
    assert scene.events[-1]["duration_ns"] == 50_000_000


def test_commands_do_not_wait_for_the_delay() -> None:
    """Fences and timeouts by a test end at once; a release ends the delay."""
    scene = delayed(50)
    assert scene.command(ExpireTransaction) is None
    assert scene.state == "CompleteAbort"
    scene.add(T0)
    assert scene.command(FenceProducer) is None
    assert scene.state == "CompleteAbort"
    scene.add(T0)
    scene.end()
    assert scene.state == "PrepareCommit"
    assert scene.command(ReleaseTransaction) is None
    assert scene.state == "CompleteCommit"
    assert scene.command(ReleaseTransaction) == "the transaction is not held"


def test_a_hold_during_the_delay() -> None:
    """It lasts longer than the delay; a new coordinator does not wait for either."""
    scene = delayed(50)
    scene.end()
    assert scene.command(HoldTransaction, PREPARE_COMMIT) is None
    scene.sleep(1)
    assert (scene.state, scene.markers) == ("PrepareCommit", [])
    scene.command(ReleaseTransaction)
    scene.add(T0)
    scene.end()
    scene.reload()
    assert scene.state == "CompleteCommit"


# -- power


def test_a_test_fences_a_producer(scene: Context) -> None:
    """Its transaction is aborted, or it has none; the producer cannot go on."""
    metadata = scene.transaction.metadata
    producer = metadata.producer_id, metadata.producer_epoch
    assert scene.command(FenceProducer) is None
    for bumps in (False, True):
        result = scene.end(bumps=bumps, epoch=metadata.producer_epoch)
        assert result.error_code == ErrorCode.PRODUCER_FENCED
    assert scene.init(*producer).error_code == ErrorCode.PRODUCER_FENCED
    assert scene.states()[-2:] == [
        ("PrepareAbort", "operator"),
        ("CompleteAbort", "markers_written"),
    ]
    assert scene.command(FenceProducer) is None
    assert scene.states()[-1] == ("Empty", "operator")


def test_a_test_expires_a_transaction(scene: Context) -> None:
    """As if its timeout had passed; only an open one."""
    assert scene.command(ExpireTransaction) is None
    assert ("PrepareAbort", "timeout") in scene.states()
    assert scene.command(ExpireTransaction) == (
        "the transaction is not open: it is CompleteAbort"
    )
    assert "there is no transactional id" in str(Context().command(ExpireTransaction))


def test_a_test_holds_a_transaction(scene: Context) -> None:
    """Its markers wait, also after a move, until it is released."""
    assert scene.command(HoldTransaction, PREPARE_COMMIT) is None
    assert scene.end().error_code == ErrorCode.NONE
    assert (scene.state, scene.markers) == ("PrepareCommit", [])
    scene.reload()
    scene.sleep(100)
    assert (scene.state, scene.markers) == ("PrepareCommit", [])
    assert "is being ended" in str(scene.command(FenceProducer))
    assert scene.command(ReleaseTransaction) is None
    assert scene.state == "CompleteCommit"
    assert scene.command(ReleaseTransaction) == "the transaction is not held"


def test_a_hold_is_for_one_state(scene: Context) -> None:
    """An abort goes on while commits are held; Ongoing needs no hold."""
    assert scene.command(HoldTransaction, PREPARE_COMMIT) is None
    scene.end(is_commit=False)
    assert scene.state == "CompleteAbort"
    assert scene.command(HoldTransaction, PREPARE_ABORT) is None
    scene.add(T0)
    scene.sleep(100)
    assert scene.state == "PrepareAbort"
    assert "not in Ongoing" in str(scene.command(HoldTransaction, ONGOING))


def test_the_value_version_follows_the_feature() -> None:
    """transaction.version 0 writes records of version 0, which older brokers read."""
    for version, written in ((0, 0), (1, 1), (2, 1)):
        scene = Context(TransactionSettings(), version)
        scene.init()
        (batch,) = scene.partition.batches(0)
        (record,) = read_records(batch)
        assert record.value is not None
        assert int.from_bytes(record.value[:2]) == written
