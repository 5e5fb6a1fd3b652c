"""Idempotent producers, with Apache Kafka 4.3's answers to the same batches."""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.log.storage import Keeper

from kohort.broker.log.results import AppendResult
from kohort.broker.log.settings import LogConfig
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import MAX_SEQUENCE, Record, build_batch

NOW = 1_700_000_000_000
PRODUCER = 4711

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


class Scene:
    """One producer and one partition."""

    keeper: ClassVar[Keeper]

    def __init__(self, **config: object) -> None:
        self.partition = self.keeper.partition(LogConfig(**config))  # type: ignore[arg-type]
        self.now_ms = NOW

    def send(
        self, count: int, sequence: int, *, epoch: int = 0, producer: int = PRODUCER
    ) -> AppendResult:
        """The result of this many records from this sequence on."""
        batch = build_batch(
            [Record(0, self.now_ms, None, b"v")] * count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return self.partition.append(batch, now_ms=self.now_ms)

    def appended(self, count: int, sequence: int, *, epoch: int = 0) -> int:
        """The base offset of records that must be accepted as new ones."""
        end = self.partition.log_end_offset
        result = self.send(count, sequence, epoch=epoch)
        assert not result.error_code, result
        assert result.base_offset == end
        return result.base_offset

    def repeated(self, count: int, sequence: int, *, epoch: int = 0) -> AppendResult:
        """The answer to records that are already in the log."""
        end = self.partition.log_end_offset
        result = self.send(count, sequence, epoch=epoch)
        assert not result.error_code, result
        assert self.partition.log_end_offset == end
        return result

    def refused(self, count: int, sequence: int, *, epoch: int = 0) -> int:
        """The error for records that must not be appended."""
        end = self.partition.log_end_offset
        result = self.send(count, sequence, epoch=epoch)
        assert (result.base_offset, result.last_offset) == (-1, -1)
        assert result.log_start_offset == self.partition.log_start_offset
        assert result.error_message is None
        assert str(PRODUCER) in result.reason
        assert self.partition.log_end_offset == end
        return result.error_code


@pytest.fixture(autouse=True)
def _keep(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes get their partitions from the test's keeper."""
    monkeypatch.setattr(Scene, "keeper", keeper, raising=False)


def test_a_repeated_batch_is_answered_as_before() -> None:
    """The same offsets, nothing appended; the time is that of its records."""
    scene = Scene()
    scene.appended(3, 0)
    scene.now_ms += 5_000
    scene.appended(2, 3)
    again = scene.partition.append(
        build_batch(
            [Record(0, NOW, None, b"v")] * 3,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=0,
        ),
        now_ms=scene.now_ms,
    )
    assert again == AppendResult(ErrorCode.NONE, 0, 2, NOW, 0)
    assert scene.partition.log_end_offset == 5
    assert len(scene.partition.store) == 2


def test_gaps_and_overlaps_are_out_of_order() -> None:
    """Each batch starts where the previous one ended: no gap, no overlap."""
    scene = Scene()
    assert [scene.appended(3, 0), scene.appended(2, 3)] == [0, 3]
    for count, sequence in [(1, 9), (3, 4), (1, 0), (4, 3), (2, 0), (1, 6)]:
        assert scene.refused(count, sequence) == OUT_OF_ORDER
    assert scene.appended(1, 5) == 5


def test_five_batches_are_remembered() -> None:
    """The sixth last is out of order: Kafka has no other code for it."""
    scene = Scene()
    for sequence in range(6):
        scene.appended(1, sequence)
    for sequence in range(1, 6):
        assert scene.repeated(1, sequence).base_offset == sequence
    assert scene.refused(1, 0) == OUT_OF_ORDER


def test_a_new_epoch_starts_at_zero() -> None:
    """Epochs may be skipped; batches of old ones are no duplicates any more."""
    scene = Scene()
    scene.appended(1, 0)
    assert scene.refused(1, 5, epoch=1) == OUT_OF_ORDER
    assert scene.appended(1, 0, epoch=1) == 1
    assert scene.refused(1, 1, epoch=0) == FENCED
    assert scene.refused(1, 0, epoch=0) == FENCED
    assert scene.appended(1, 0, epoch=3) == 2
    assert scene.refused(1, 0, epoch=1) == FENCED


def test_an_unknown_producer_may_start_anywhere() -> None:
    """Its state may have expired, and it cannot know (KIP-360)."""
    scene = Scene()
    assert scene.appended(2, 7, epoch=5) == 0
    assert scene.appended(1, 9, epoch=5) == 2
    assert scene.refused(1, 99, epoch=5) == OUT_OF_ORDER
    assert scene.refused(1, 0, epoch=4) == FENCED


def test_sequences_wrap_between_batches() -> None:
    """0 follows 2^31 - 1."""
    scene = Scene()
    scene.appended(2, MAX_SEQUENCE - 1)
    assert scene.appended(1, 0) == 2
    assert scene.appended(1, 1) == 3


def test_sequences_wrap_within_a_batch() -> None:
    """The last record of a batch may have a lower sequence than its first."""
    scene = Scene()
    scene.appended(4, MAX_SEQUENCE - 1)
    again = scene.repeated(4, MAX_SEQUENCE - 1)
    assert (again.base_offset, again.last_offset) == (0, 3)
    assert scene.refused(1, 3) == OUT_OF_ORDER
    assert scene.appended(1, 2) == 4


def test_a_producer_without_epoch() -> None:
    """Epoch -1 takes any sequence, and still recognises repeated batches."""
    scene = Scene()
    scene.appended(1, 0, epoch=-1)
    scene.appended(1, 9, epoch=-1)
    scene.repeated(1, 9, epoch=-1)
    assert scene.appended(1, 4, epoch=0) == 2
    assert scene.refused(1, 5, epoch=-1) == FENCED


def test_producers_do_not_know_each_other() -> None:
    """Each id has its own state; records without an id have none."""
    scene = Scene()
    scene.appended(1, 0)
    assert scene.send(1, 0, producer=PRODUCER + 1).base_offset == 1
    assert scene.send(1, -1, epoch=-1, producer=-1).base_offset == 2
    assert scene.send(1, -1, epoch=-1, producer=-1).base_offset == 3
    assert len(scene.partition.producers) == 2


def test_deleted_records_are_remembered() -> None:
    """DeleteRecords deletes records, but not their producer's state."""
    scene = Scene()
    scene.appended(1, 0)
    scene.partition.delete_records(1)
    again = scene.repeated(1, 0)
    assert (again.base_offset, again.log_start_offset) == (0, 1)
    assert scene.refused(1, 5) == OUT_OF_ORDER
    assert scene.appended(1, 1) == 1


def test_refused_batches_leave_no_trace() -> None:
    """A batch refused for its timestamps is new when it is sent again."""
    scene = Scene()
    scene.now_ms += 10_000_000
    early = scene.send(1, 0)
    assert not early.error_code
    future = build_batch(
        [Record(0, scene.now_ms + 7_200_000, None, b"v")],
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=1,
    )
    refused = scene.partition.append(future, now_ms=scene.now_ms)
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert scene.appended(1, 1) == 1


def test_silent_producers_are_forgotten() -> None:
    """After producer.id.expiration.ms any sequence is accepted again."""
    scene = Scene(producer_id_expiration_ms=1_000)
    scene.appended(1, 0)
    scene.partition.expire_producers(NOW + 999)
    assert len(scene.partition.producers) == 1
    assert scene.refused(1, 5) == OUT_OF_ORDER
    scene.partition.expire_producers(NOW + 1_000)
    assert len(scene.partition.producers) == 0
    assert scene.appended(1, 5) == 1


def test_what_is_known_of_a_producer() -> None:
    """Epoch, sequences, offsets and time of its batches, oldest first."""
    scene = Scene()
    scene.appended(2, 0, epoch=4)
    scene.now_ms += 1
    scene.appended(1, 2, epoch=4)
    state = scene.partition.producers.get(PRODUCER)
    assert state is not None
    assert state.epoch == 4
    assert [
        (b.first_sequence, b.last_sequence, b.first_offset, b.last_offset)
        for b in state.batches
    ] == [(0, 1, 0, 1), (2, 2, 2, 2)]
    assert [b.timestamp_ms for b in state.batches] == [NOW, NOW + 1]
    assert scene.partition.producers.get(1) is None
