"""Finds offsets for ListOffsets: by time, or the start or end of a log."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from kohort.broker.log.partition import Partition
from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FoundOffset,
)
from kohort.broker.log.store import StorageError
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

_NOT_FOUND = FoundOffset(ErrorCode.NONE, -1, -1, -1)
_CLOSED = FoundOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)


def find_offset(
    partition: Partition, timestamp: int, *, committed: bool = False
) -> Generator[None, None, FoundOffset]:
    """Finds the offset of a point in time, or of one of Kafka's special timestamps.

    Reads the records of one batch, rarely of more: other work may run in between.

    Args:
        partition: the partition.
        timestamp: ms since the epoch, for the first record that is not older; or
            EARLIEST, LATEST, MAX_TIMESTAMP (KIP-734: the first record with the largest
            timestamp), EARLIEST_LOCAL (KIP-405). LATEST_TIERED and
            EARLIEST_PENDING_UPLOAD find nothing.
        committed: for the isolation level ``read_committed``, whose log ends at the
            last stable offset.
    """
    start, epochs = partition.log_start_offset, partition.epochs
    end = partition.last_stable_offset if committed else partition.log_end_offset
    if timestamp >= 0 or timestamp == MAX_TIMESTAMP:
        try:
            return (yield from _by_records(partition, timestamp, end))
        except StorageError as error:
            partition.unreadable(error)
            return FoundOffset(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    if timestamp == LATEST:
        return FoundOffset(ErrorCode.NONE, -1, end, epochs.latest)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundOffset(ErrorCode.NONE, -1, start, epochs.at(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOT_FOUND
    return FoundOffset(ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


def _by_records(
    partition: Partition, timestamp: int, end: int
) -> Generator[None, None, FoundOffset]:
    batches: Iterable[bytes]
    # Kafka does not check the start of the log for the largest timestamp.
    checks_start = timestamp != MAX_TIMESTAMP
    if checks_start:
        batches = partition.store.since(timestamp, partition.log_start_offset)
    else:
        timestamp, batches = partition.store.latest()
    for batch in batches:
        epoch = records.read_header(batch).partition_leader_epoch
        try:
            for heads in records.read_heads(batch):
                # Records may have been deleted during the pause.
                start = partition.log_start_offset if checks_start else 0
                for offset, time, _ in heads:
                    if time < timestamp or offset < start:
                        continue
                    if offset >= end:
                        return _NOT_FOUND
                    return FoundOffset(ErrorCode.NONE, time, offset, epoch)
                yield
                if partition.is_closed:
                    return _CLOSED
        except WireError:
            return FoundOffset(ErrorCode.CORRUPT_MESSAGE, -1, -1, -1)
    return _NOT_FOUND
