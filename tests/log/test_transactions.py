"""Transactions in a partition, as Apache Kafka 4.3 treats them."""

from __future__ import annotations

import pytest
from tests.log.storage import Keeper
from tests.log.transacting import EVERYTHING, NOW, Scene, committed_offsets

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import EARLIEST, LATEST, MAX_TIMESTAMP
from kohort.broker.long_work import finish
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import NO_SEQUENCE, TRANSACTIONAL, Record, build_batch

FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
NOT_OPEN = ErrorCode.INVALID_TXN_STATE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture(autouse=True)
def _keep(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes get their partitions from the test's keeper."""
    monkeypatch.setattr(Scene, "keeper", keeper, raising=False)


# -- the last stable offset


def test_the_oldest_open_transaction_holds_the_last_stable_offset() -> None:
    """A later one moves it only after the earlier one has ended."""
    scene = Scene()
    scene.plain()
    assert scene.stable == 1
    scene.send(1, 2)
    scene.send(2)
    scene.plain()
    assert scene.stable == 1
    scene.commit(2)
    assert scene.stable == 1
    scene.abort(1)
    assert scene.stable == scene.partition.log_end_offset == 7


def test_a_marker_without_a_transaction() -> None:
    """It is appended, and the next batch of the producer has to start anew."""
    scene = Scene()
    scene.commit(1, epoch=3)
    assert scene.stable == 1
    assert scene.send(1, epoch=2).error_code == FENCED
    assert scene.send(1, epoch=3, sequence=1).error_code == OUT_OF_ORDER
    assert not scene.send(1, epoch=3).error_code


def test_deleted_records_of_an_open_transaction() -> None:
    """The last stable offset moves on with the batch that the log starts in."""
    scene = Scene()
    scene.send(1, 2)
    scene.send(1, 3)
    stable = []
    for offset in (1, 2, 4, 5):
        assert scene.partition.delete_records(offset) == (ErrorCode.NONE, offset)
        stable.append(scene.stable)
    assert stable == [0, 2, 2, 5]
    scene.send(1)
    assert scene.stable == 5
    scene.commit(1)
    assert scene.stable == 7


# -- reading committed records


def test_a_read_ends_at_the_last_stable_offset() -> None:
    """It has nothing from there to the end of the log, and an error behind it."""
    scene = Scene()
    scene.plain(2)
    scene.send(1, 2)
    scene.plain()
    assert scene.committed() == [0, 1]
    assert scene.read(1, max_bytes=1).size_in_bytes > 1
    for offset in (2, 3, 5):
        assert not scene.read(offset).size_in_bytes
    behind = scene.partition.read(6, 100, minimum_one=True, committed=True)
    assert behind.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    scene.commit(1)
    assert scene.committed() == [0, 1, 2, 3, 4]


def test_readable_bytes_end_there_too() -> None:
    """A waiting fetch counts no others."""
    scene = Scene()
    scene.plain()
    before = scene.partition.size_in_bytes
    scene.send(1)
    readable = scene.partition.readable
    assert [readable(offset, committed=True) for offset in (0, 1, 2, 3)] == [
        before,
        0,
        0,
        -1,
    ]
    scene.abort(1)
    assert readable(0, committed=True) == scene.partition.size_in_bytes


def test_a_read_lists_the_aborted_transactions_in_it() -> None:
    """Also one whose first record is before the read, and none that has ended."""
    scene = Scene()
    scene.send(1)
    scene.send(2)
    scene.abort(1)
    scene.send(3)
    scene.commit(3)
    scene.abort(2)
    assert scene.aborted() == [[1, 0], [2, 1]]
    assert scene.aborted(2) == [[1, 0], [2, 1]]
    assert scene.aborted(3) == [[2, 1]]
    assert scene.aborted(5) == [[2, 1]]
    assert scene.aborted(6) == []
    assert scene.committed() == [3]


def test_the_list_ends_soon_after_the_read() -> None:
    """Transactions far behind it are not listed."""
    scene = Scene(index_interval_bytes=1)
    for _ in range(10):
        scene.send(1)
        scene.abort(1)
    size = scene.partition.size_in_bytes // 10
    assert len(scene.aborted(max_bytes=size)) < 5
    assert len(scene.aborted()) == 10


def test_deleted_transactions_are_not_listed() -> None:
    """Their markers are before the start of the log."""
    scene = Scene()
    for _ in range(3):
        scene.send(1)
        scene.abort(1)
    scene.partition.delete_records(4)
    assert scene.aborted(4) == [[1, 4]]


def test_a_log_is_compacted_during_a_long_read() -> None:
    """Batches get smaller; none behind the last stable offset takes their place."""
    scene = Scene(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    for _ in range(6):
        scene.plain(size=300_000)
    scene.send(1, key=b"a")
    scene.plain(key=b"b")
    read = scene.partition.read_in_pieces
    pieces = read(0, EVERYTHING, minimum_one=True, committed=True)
    next(pieces)
    scene.clean()
    assert committed_offsets(finish(pieces), 0) == scene.committed()
    assert scene.committed()[-1] == 5


# -- finding offsets


def test_offsets_by_isolation_level() -> None:
    """The end, and points in time, are before the last stable offset."""
    scene = Scene()
    scene.plain()
    scene.now_ms += 20
    scene.send(1)

    def found(timestamp: int, *, committed: bool) -> int:
        return finish(
            find_offset(scene.partition, timestamp, committed=committed)
        ).offset

    times = (LATEST, EARLIEST, MAX_TIMESTAMP, NOW, NOW + 20)
    assert [found(time, committed=False) for time in times] == [2, 0, 1, 0, 1]
    assert [found(time, committed=True) for time in times] == [1, 0, -1, 0, -1]
    scene.commit(1)
    assert [found(time, committed=True) for time in times] == [3, 0, 1, 0, 1]


# -- which batches may open a transaction


def test_only_a_verified_batch_opens_a_transaction() -> None:
    """The next ones need no verification, until a marker ends it."""
    scene = Scene()
    assert scene.send(1, is_verified=False).error_code == NOT_OPEN
    assert not scene.send(1).error_code
    assert not scene.send(1, is_verified=False).error_code
    scene.commit(1)
    assert scene.send(1, is_verified=False).error_code == NOT_OPEN
    assert scene.stable == 3


def test_a_marker_overtakes_a_verified_batch() -> None:
    """The batch must not open the transaction again."""
    scene = Scene()
    batch = build_batch(
        [Record(0, scene.now_ms, b"k", b"v")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    verification = scene.partition.verify(batch, now_ms=scene.now_ms, adds=False)
    assert not isinstance(verification, int)
    scene.abort(1)
    late = scene.partition.append(batch, now_ms=scene.now_ms, verification=verification)
    assert late.error_code == NOT_OPEN
    assert scene.stable == scene.partition.log_end_offset == 1


def test_a_plain_batch_of_a_producer_with_an_open_transaction() -> None:
    """It is refused."""
    scene = Scene()
    scene.send(1)
    assert scene.send(1, attributes=0).error_code == NOT_OPEN


def test_the_first_sequence_of_version_2() -> None:
    """It is 0; before, a producer that is not known may begin anywhere."""
    scene = Scene()
    assert scene.send(1, sequence=3, adds=True).error_code == OUT_OF_ORDER
    assert not scene.send(2, sequence=3).error_code


def test_a_batch_is_sent_again_after_one_behind_it_was_asked_for() -> None:
    """The later one waits for the first: else the first would never be accepted."""
    scene = Scene()
    scene.partition.verify(
        build_batch(
            [Record(0, scene.now_ms, b"k", b"v")],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        ),
        now_ms=scene.now_ms,
        adds=False,
    )
    assert scene.send(1, sequence=1).error_code == OUT_OF_ORDER
    assert not scene.send(1, sequence=0).error_code
    assert not scene.send(1, sequence=1).error_code


def test_a_coordinators_batch_has_no_sequence() -> None:
    """Its epoch is checked, and it opens a transaction."""
    scene = Scene()

    def own(epoch: int) -> int:
        batch = build_batch(
            [Record(0, scene.now_ms, b"k", b"v")],
            producer_id=1,
            producer_epoch=epoch,
            attributes=TRANSACTIONAL,
        )
        return scene.partition.append_own(batch, now_ms=scene.now_ms)

    assert [own(5), own(5), own(4)] == [ErrorCode.NONE, ErrorCode.NONE, FENCED]
    assert scene.stable == 0
    state = scene.partition.producers.get(1)
    assert state is not None
    assert (state.first_offset, state.last_sequence) == (0, NO_SEQUENCE)
    scene.commit(1, epoch=5)
    assert scene.stable == 3


# -- which markers are accepted


def test_epochs_of_markers() -> None:
    """Version 2 wants a higher epoch than the records have; the same one again is fine.

    Kafka accepts the same epoch from version 1, and refuses lower ones from both.
    """
    scene = Scene()
    scene.send(1, epoch=1)
    assert scene.mark(1, epoch=0, version=1).error_code == FENCED
    assert scene.mark(1, epoch=1, version=2).error_code == FENCED
    assert not scene.mark(1, epoch=2, version=2).error_code
    assert not scene.mark(1, epoch=2, version=2).error_code
    scene.send(1, epoch=2)
    assert scene.mark(1, epoch=2, version=2).error_code == FENCED
    assert not scene.mark(1, epoch=2, version=1).error_code


def test_the_epoch_of_the_coordinator() -> None:
    """A coordinator that has been replaced is refused; a new one is not."""
    scene = Scene()
    zombie = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert not scene.mark(1, coordinator_epoch=5).error_code
    assert scene.mark(1, coordinator_epoch=4).error_code == zombie
    assert not scene.mark(1, coordinator_epoch=5).error_code
    assert not scene.mark(1, coordinator_epoch=6).error_code
    state = scene.partition.producers.get(1)
    assert state is not None
    assert state.coordinator_epoch == 6


# -- expiry


def test_an_open_transaction_keeps_its_producer() -> None:
    """Others are forgotten after ``producer.id.expiration.ms``, ended ones too."""
    scene = Scene(producer_id_expiration_ms=1000)
    scene.send(1)
    scene.send(2)
    scene.commit(2)
    scene.partition.expire_producers(scene.now_ms + 1000)
    assert scene.partition.producers.get(1) is not None
    assert scene.partition.producers.get(2) is None
    scene.commit(1)
    scene.partition.expire_producers(scene.now_ms + 1000)
    assert not scene.partition.producers
