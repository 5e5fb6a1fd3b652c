"""The transaction coordinator: epochs, states and errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.transactions.context import ID, T0, T1, Answer, Context

from kohort.broker.transactions import expiry
from kohort.broker.transactions.events import TopicPartition
from kohort.broker.transactions.settings import TransactionSettings
from kohort.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
LAST = 32_766
"""The last epoch that a producer gets."""


@pytest.fixture
def scene() -> Context:
    """A coordinator with an initialized producer: id 4000, epoch 0."""
    made = Context()
    assert (made.init().producer_id, made.transaction.metadata.producer_epoch) == (
        4000,
        0,
    )
    return made


def at_epoch(scene: Context, epoch: int) -> None:
    """Raises the epoch as very many InitProducerId would."""
    metadata = scene.transaction.metadata
    after = metadata.initialized(metadata.producer_id, epoch, -1, 60_000, 1)
    scene.forge(after)


# -- InitProducerId


def test_producers_that_come_together(scene: Context) -> None:
    """One gets the next epoch; the others find its record being written."""
    with scene.together():
        first: Any = scene.init()
        codes = [scene.init().error_code for _ in range(9)]
        codes += [scene.add(T0).error_code, scene.end().error_code]
        assert (first.results, codes) == ([], [BUSY] * 11)
    assert (first.result.error_code, first.result.producer_epoch) == (NONE, 1)
    assert scene.init().producer_epoch == 2


def test_partitions_and_groups_that_are_added_together(scene: Context) -> None:
    """The first one is added; a retry does not wait for a record."""
    with scene.together():
        first: Any = scene.add(T0)
        assert scene.add(T1, group="g").error_code == BUSY
        assert scene.end().error_code == BUSY
    assert first.result.error_code == NONE
    with scene.together():
        assert scene.add(T0).error_code == NONE


def test_a_new_id_has_no_state_before(scene: Context) -> None:
    """Its first event says so; the next one has the time in the state."""
    (first,) = scene.events
    assert (first["state"], first["cause"]) == ("Empty", "initialized")
    assert (first["previous_state"], first["duration_ns"]) == (None, None)
    scene.sleep(1.5)
    scene.add(T0)
    began = scene.events[-1]
    assert (began["previous_state"], began["duration_ns"]) == ("Empty", 1_500_000_000)
    assert began["partitions"] == [{"topic": "t", "partitions": [0]}]


def test_a_producer_gets_the_next_epoch(scene: Context) -> None:
    """The id stays, and an earlier producer is fenced."""
    again = scene.init()
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 4000, 1)
    assert scene.add(T0, epoch=0).error_code == FENCED
    (fenced,) = [e for e in scene.events if e["kind"] == "transaction_fenced"]
    assert (fenced["producer_epoch"], fenced["current_epoch"]) == (0, 1)
    assert (fenced["api"], fenced["client_id"]) == ("AddPartitionsToTxn", "producer")


def test_the_same_request_once_more_gets_the_same_epoch(scene: Context) -> None:
    """A producer that names its epoch may have missed the answer (KIP-360)."""
    assert [scene.init(4000, 0).producer_epoch for _ in range(2)] == [1, 1]
    assert scene.init(4000, 7).error_code == FENCED
    assert scene.init(5, 1).error_code == FENCED
    # Another producer has come: no retry is possible any more.
    assert scene.init().producer_epoch == 2
    assert scene.init(4000, 1).error_code == FENCED


def test_epochs_run_out(scene: Context) -> None:
    """After the last epoch the id gets another producer id, also for a retry."""
    at_epoch(scene, LAST)
    rotated = scene.init(4000, LAST)
    assert (rotated.producer_id, rotated.producer_epoch) == (4001, 0)
    again = scene.init(4000, LAST)
    assert (again.producer_id, again.producer_epoch) == (4001, 0)
    assert scene.init(4000, LAST - 1).error_code == FENCED


def test_the_last_epoch_is_asked_for_again(scene: Context) -> None:
    """Kafka fails for an earlier epoch, a retry included, but not for the last one."""
    at_epoch(scene, LAST - 1)
    assert scene.init(4000, LAST - 1).producer_epoch == LAST
    before = scene.log()
    for epoch in (LAST - 1, 5):
        assert scene.init(4000, epoch).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.init(7, LAST - 1).error_code == FENCED
    assert scene.log() == before
    assert scene.init(4000, LAST).producer_id == 4001


def test_there_is_no_producer_id() -> None:
    """The next block of ids cannot be saved: the client tries again."""
    scene = Context()
    scene.next_producer_id = None
    assert scene.init().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not scene.log()


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_is_out_of_range(timeout_ms: int) -> None:
    """Timeouts are positive, and at most transaction.max.timeout.ms."""
    error = Context().init(timeout_ms=timeout_ms).error_code
    assert error == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_new_producer_aborts_the_open_transaction(scene: Context) -> None:
    """The marker has the next epoch, and the next try gets the one after that."""
    scene.add(T0)
    assert scene.init().error_code == BUSY
    assert scene.markers == [(T0, False, 1)]
    assert scene.init().producer_epoch == 2
    assert ("PrepareAbort", "fenced") in scene.states()


def test_a_producer_that_starts_over_keeps_the_epoch_of_the_marker(
    scene: Context,
) -> None:
    """It names its own epoch, so the aborted transaction was its own."""
    scene.add(T0)
    assert scene.init(4000, 0).error_code == BUSY
    assert scene.init(4000, 0).producer_epoch == 1


def test_a_zombie_aborts_the_transaction_of_its_successor(scene: Context) -> None:
    """As in Kafka, the epoch does not matter while a transaction is open."""
    scene.init()
    scene.add(T0)
    assert scene.init(4000, 0).error_code == BUSY
    assert scene.state == "CompleteAbort"
    assert scene.init(4000, 0).error_code == FENCED


def test_before_kip_890_fencing_raises_the_epoch_as_well() -> None:
    """With transaction.version 1 the epoch of the marker is the raised one."""
    scene = Context(version=1)
    scene.init()
    scene.add(T0)
    assert scene.init(4000, 0).error_code == BUSY
    assert scene.markers == [(T0, False, 1)]
    # Kafka does not remember the epoch before, so this is no retry.
    assert scene.init(4000, 0).error_code == FENCED
    assert scene.init().producer_epoch == 2


# -- AddPartitionsToTxn


def test_partitions_are_added(scene: Context) -> None:
    """The first ones begin the transaction; known ones write no record."""
    scene.add(T0)
    scene.add(T1)
    written = len(scene.log())
    assert scene.add(T0, T1).error_code == NONE
    assert len(scene.log()) == written
    assert scene.describe().partitions == [T0, T1]
    assert scene.states()[1:] == [
        ("Ongoing", "client_began"),
        ("Ongoing", "client_added"),
    ]


def test_a_transaction_begins_without_partitions(scene: Context) -> None:
    """As in Kafka; its end needs no markers."""
    assert scene.add().error_code == NONE
    assert scene.state == "Ongoing"
    scene.end()
    assert (scene.state, scene.markers) == ("CompleteCommit", [])


def test_groups_are_part_of_a_transaction(scene: Context) -> None:
    """Two groups may share a partition of __consumer_offsets."""
    offsets = TopicPartition("__consumer_offsets", 7)
    scene.add(offsets, group="g")
    scene.add(offsets, group="h")
    assert scene.events[-1]["group_ids"] == ["g", "h"]
    scene.end()
    assert scene.events[-1]["group_ids"] == []


def test_partitions_are_refused(scene: Context) -> None:
    """Unknown id, wrong producer, wrong epoch, no id."""
    assert scene.add(T0, transactional_id="other").error_code == UNMAPPED
    assert scene.add(T0, producer_id=5).error_code == UNMAPPED
    assert scene.add(T0, epoch=1).error_code == FENCED
    assert scene.add(T0, transactional_id="").error_code == ErrorCode.INVALID_REQUEST
    assert scene.state == "Empty"


def test_partitions_are_verified(scene: Context) -> None:
    """Nothing is added; each partition has its code (KIP-890)."""
    scene.add(T0)
    result = scene.add(T1, T0, verify_only=True)
    assert result.codes == [ErrorCode.TRANSACTION_ABORTABLE, NONE]
    assert scene.describe().partitions == [T0]
    scene.end()
    assert scene.add(T0, verify_only=True).codes == [ErrorCode.TRANSACTION_ABORTABLE]


# -- EndTxn


def test_a_transaction_commits(scene: Context) -> None:
    """Up to EndTxn v4 the epoch stays; the markers come before CompleteCommit."""
    scene.add(T0, T1)
    result = scene.end()
    assert (result.error_code, result.producer_id, result.producer_epoch) == (0, -1, -1)
    assert scene.markers == [(T0, True, 0), (T1, True, 0)]
    assert scene.recorded() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert scene.states()[2:] == [
        ("PrepareCommit", "client_committed"),
        ("CompleteCommit", "markers_written"),
    ]


def test_a_transaction_aborts_with_the_next_epoch(scene: Context) -> None:
    """EndTxn v5 raises the epoch at each end (KIP-890)."""
    scene.add(T0, version=2)
    result = scene.end(is_commit=False, bumps=True)
    assert (result.producer_id, result.producer_epoch) == (4000, 1)
    assert scene.markers == [(T0, False, 1)]
    assert scene.add(T0, epoch=0).error_code == FENCED
    assert scene.add(T0, epoch=1).error_code == NONE


KAFKAS_TABLE = {
    ("Empty", False): (FENCED, NONE),
    ("Empty", True): (FENCED, WRONG_STATE),
    ("CompleteAbort", False): (NONE, NONE),
    ("CompleteAbort", True): (WRONG_STATE, WRONG_STATE),
    ("CompleteCommit", False): (WRONG_STATE, NONE),
    ("CompleteCommit", True): (NONE, WRONG_STATE),
}
"""EndTxn v5 without a transaction: with the epoch before, and with the current one."""


@pytest.mark.parametrize(("state", "is_commit"), KAFKAS_TABLE)
def test_an_end_without_a_transaction(state: str, is_commit: bool) -> None:
    """Aborts with the current epoch raise it; those with the one before are retries."""
    retry, current = KAFKAS_TABLE[state, is_commit]
    scene = Context()
    scene.init()
    scene.init()
    if state != "Empty":
        scene.add(T0, version=2)
        scene.end(is_commit=state == "CompleteCommit", bumps=True)
    epoch = scene.transaction.metadata.producer_epoch
    before = scene.end(is_commit=is_commit, bumps=True, epoch=epoch - 1)
    assert before.error_code == retry
    assert before.producer_epoch == (-1 if retry else epoch)
    now = scene.end(is_commit=is_commit, bumps=True, epoch=epoch)
    assert now.error_code == current
    assert now.producer_epoch == (-1 if current else epoch + 1)


def test_an_end_is_repeated(scene: Context) -> None:
    """Up to v4 the same once more is fine, and the contrary is not."""
    scene.add(T0)
    scene.end()
    assert scene.end().error_code == NONE
    assert scene.end(is_commit=False).error_code == WRONG_STATE
    assert scene.end(epoch=7).error_code == FENCED
    assert scene.end(producer_id=7).error_code == UNMAPPED
    assert scene.end(transactional_id="other").error_code == UNMAPPED


def test_an_end_uses_up_the_epochs(scene: Context) -> None:
    """The marker has the very last epoch, and the producer goes on with another id."""
    at_epoch(scene, LAST)
    scene.add(T0, version=2)
    result = scene.end(bumps=True)
    assert (result.producer_id, result.producer_epoch) == (4001, 0)
    assert scene.markers == [(T0, True, LAST + 1)]
    again = scene.end(bumps=True, producer_id=4000, epoch=LAST)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 4001, 0)
    assert scene.add(T0, producer_id=4000, epoch=LAST).error_code == UNMAPPED


def test_both_generations_of_the_protocol_mix(scene: Context) -> None:
    """The version of each request decides."""
    scene.add(T0, version=2)
    assert scene.end(bumps=False).error_code == NONE
    scene.add(T0, version=0)
    assert scene.end(bumps=True).producer_epoch == 1
    assert [epoch for _, _, epoch in scene.markers] == [0, 1]


# -- the log


def test_nothing_is_answered_before_its_record_is_written(scene: Context) -> None:
    """Until then the id is busy, and readers see the state of the log."""
    with scene.together():
        waiting = scene.add(T0)
        assert isinstance(waiting, Answer)
        assert not waiting.results
        assert scene.add(T1).error_code == BUSY
        assert scene.init().error_code == BUSY
        assert scene.end(bumps=True).error_code == BUSY
        assert scene.describe().state == "Empty"
    assert waiting.result.error_code == NONE
    assert scene.describe().state == "Ongoing"


def test_the_log_refuses_a_record(scene: Context) -> None:
    """It is too large: the change is taken back."""
    with scene.refusing():
        assert scene.add(T0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.state == "Empty"
    error = scene.init(transactional_id="x" * 40_000).error_code
    assert error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.add(T0).error_code == NONE
    assert list(scene.coordinator.transactions) == [ID]


def test_a_move_refuses_requests_that_wait(scene: Context) -> None:
    """The old coordinator answers NOT_COORDINATOR."""
    with scene.together():
        waiting: Any = scene.add(T0)
        scene.reload()
    assert waiting.result.error_code == ErrorCode.NOT_COORDINATOR
    assert scene.state == "Empty"


# -- expiry


def test_an_id_expires() -> None:
    """It was not used for long; the check writes a tombstone."""
    scene = Context(TransactionSettings(expiration_ms=60_000))
    scene.init()
    scene.sleep(3600)
    assert scene.recorded() == ["Empty", "Dead"]
    assert scene.states()[-1] == ("Dead", "id_expired")
    assert scene.add(T0, producer_id=4000, epoch=0).error_code == UNMAPPED
    assert scene.init(4000, 0).producer_id == 4001


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    """Neither does one that was used meanwhile."""
    settings = TransactionSettings(
        expiration_ms=1_000, expiration_interval_ms=5_000, max_timeout_ms=10**6
    )
    scene = Context(settings)
    scene.init(timeout_ms=10**6)
    scene.add(T0)
    scene.sleep(60)
    assert scene.state == "Ongoing"
    scene.sleep(4.5)
    scene.end()
    scene.sleep(1)
    assert scene.state == "CompleteCommit"
    scene.sleep(5)
    assert not scene.coordinator.transactions


def test_very_many_ids_expire_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no check takes long; the next part follows soon."""
    monkeypatch.setattr(expiry, "LARGEST_PART", 10)
    scene = Context(TransactionSettings(expiration_ms=1))
    for number in range(15):
        scene.init(transactional_id=f"t{number}")
    scene.sleep(3600)
    assert len(scene.coordinator.transactions) == 5
    scene.sleep(1)
    assert not scene.coordinator.transactions
