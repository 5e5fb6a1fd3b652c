"""Counts the records of a log between two offsets."""

from __future__ import annotations

from kohort.broker.log.aborted import is_aborted
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.protocol import records
from kohort.protocol.messages import WireError


def count_records(
    partition: Partition, first: int, end: int, *, committed: bool
) -> int:
    """Counts records: not the markers of transactions, nor compacted offsets.

    Args:
        partition: the log.
        first: the first offset.
        end: the offset behind the last one.
        committed: whether to leave out the records of aborted transactions.

    Returns:
        Their number. Records before the start of the log are gone: they count by their
        offsets.
    """
    start = partition.log_start_offset
    gone = max(0, min(end, start) - first)
    first, end = max(first, start), min(end, partition.log_end_offset)
    if first >= end:
        return gone
    if not partition.has_gaps:
        return gone + end - first
    try:
        return gone + _in_batches(partition, first, end, committed=committed)
    except (StorageError, WireError):
        # A damaged log: its offsets are all that is known.
        return gone + end - first


def _in_batches(partition: Partition, first: int, end: int, *, committed: bool) -> int:
    aborted = partition.store.aborted(first, end) if committed else ()
    total = 0
    for batch in partition.store.batches(first, end):
        header = records.read_header(batch)
        if header.base_offset >= end:
            break
        if header.is_control or is_aborted(header, aborted):
            continue
        a, b = max(header.base_offset, first), min(header.last_offset + 1, end)
        if header.record_count == header.last_offset + 1 - header.base_offset:
            total += max(b - a, 0)
            continue
        for heads in records.read_heads(batch):
            total += sum(a <= offset < b for offset, _, _ in heads)
    return total
