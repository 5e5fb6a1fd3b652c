"""Producers with transactions in the partition of a scene."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.log.storage import Keeper

from kohort.broker.log import compaction
from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.partition import Partition
from kohort.broker.log.producers import Verification
from kohort.broker.log.results import AppendResult, ReadResult
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol.records import (
    TRANSACTIONAL,
    Record,
    build_batch,
    read_headers,
    read_records,
)

NOW = 1_700_000_000_000
EVERYTHING = 10**9


def committed_offsets(found: ReadResult, start: int) -> list[int]:
    """The records that a consumer keeps: its rule is the same as Kafka's."""
    coming = sorted(found.aborted or (), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    kept = []
    data = b"".join(found.buffers)
    for header, position in read_headers(data):
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            some = read_records(data, position)
            kept += [record.offset for record in some if record.offset >= start]
    return kept


def transact(
    partition: Partition, producer: int, *, is_commit: bool, key: bytes = b"k"
) -> None:
    """A transaction of one record."""
    state = partition.producers.get(producer)
    batch = build_batch(
        [Record(0, NOW, key, bytes(10))],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0 if state is None else state.last_sequence + 1,
        attributes=TRANSACTIONAL,
    )
    found = partition.verify(batch, now_ms=NOW, adds=False)
    assert isinstance(found, Verification)
    assert not partition.append(batch, now_ms=NOW, verification=found).error_code
    end = EndMarker(producer, 0, is_commit, 0, 1)
    assert not partition.append_marker(end, now_ms=NOW).error_code


class Scene:
    """One partition, the time, and any number of producers."""

    keeper: ClassVar[Keeper]

    def __init__(self, **config: Any) -> None:
        self.partition: Partition = self.keeper.partition(LogConfig(**config))
        self.now_ms = NOW
        self.sequences: dict[tuple[int, int], int] = {}

    def send(
        self,
        producer: int,
        count: int = 1,
        *,
        epoch: int = 0,
        sequence: int | None = None,
        is_verified: bool = True,
        adds: bool = False,
        attributes: int = TRANSACTIONAL,
        key: bytes = b"k",
    ) -> AppendResult:
        """Appends a batch of a transaction, which the coordinator knows of."""
        place = producer, epoch
        first = self.sequences.get(place, 0) if sequence is None else sequence
        batch = build_batch(
            [Record(0, self.now_ms, key, b"v")] * count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=first,
            attributes=attributes,
        )
        verification = None
        if is_verified:
            found = self.partition.verify(batch, now_ms=self.now_ms, adds=adds)
            verification = found if isinstance(found, Verification) else None
        result = self.partition.append(
            batch, now_ms=self.now_ms, verification=verification
        )
        if not result.error_code and sequence is None:
            self.sequences[place] = first + count
        return result

    def plain(
        self, count: int = 1, key: bytes = b"k", *, size: int = 1
    ) -> AppendResult:
        """Appends a batch without a producer id."""
        batch = build_batch([Record(0, self.now_ms, key, bytes(size))] * count)
        return self.partition.append(batch, now_ms=self.now_ms)

    def mark(
        self,
        producer: int,
        *,
        epoch: int = 0,
        is_commit: bool = True,
        coordinator_epoch: int = 0,
        version: int = 1,
    ) -> AppendResult:
        """Ends a transaction."""
        end = EndMarker(producer, epoch, is_commit, coordinator_epoch, version)
        return self.partition.append_marker(end, now_ms=self.now_ms)

    def commit(self, producer: int, *, epoch: int = 0) -> AppendResult:
        """Ends a transaction with a commit marker that must be accepted."""
        result = self.mark(producer, epoch=epoch)
        assert not result.error_code, result
        return result

    def abort(self, producer: int, *, epoch: int = 0) -> AppendResult:
        """Ends a transaction with an abort marker that must be accepted."""
        result = self.mark(producer, epoch=epoch, is_commit=False)
        assert not result.error_code, result
        return result

    def clean(self) -> None:
        """Compacts as far as due."""
        finish(compaction.clean(self.partition, self.now_ms))

    def read(self, offset: int = 0, max_bytes: int = EVERYTHING) -> ReadResult:
        """A read of committed records."""
        found = self.partition.read(offset, max_bytes, minimum_one=True, committed=True)
        assert not found.error_code
        return found

    def aborted(self, offset: int = 0, max_bytes: int = EVERYTHING) -> list[list[int]]:
        """[producer, first offset] of each aborted transaction in a read."""
        found = self.read(offset, max_bytes).aborted or ()
        return [[each.producer_id, each.first_offset] for each in found]

    def committed(self, offset: int = 0) -> list[int]:
        """The offsets of the records that a reader of committed ones keeps."""
        return committed_offsets(self.read(offset), offset)

    def offsets(self) -> list[int]:
        """The offsets of all records and markers."""
        return [
            record.offset
            for batch in self.partition.batches(0)
            for record in read_records(batch)
        ]

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return self.partition.last_stable_offset
