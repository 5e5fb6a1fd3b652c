"""Control records: the markers that end a transaction in a partition (KIP-98).

A marker is a batch of one record with the attributes `CONTROL` and `TRANSACTIONAL`. The
key tells its type; the value has the epoch of the coordinator that wrote it.
"""

from __future__ import annotations

import struct
from typing import Final

from kohort.protocol import records
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record
from kohort.protocol.slotted import slotted

ABORT: Final = 0
COMMIT: Final = 1
"""Types of control records; others are of no interest to clients."""

_KEY = struct.Struct(">hh")
"""Version and type."""
_VALUE = struct.Struct(">hi")
"""Version and epoch of the coordinator. Kafka writes version 0."""


@slotted
class Marker:
    """The end of a transaction."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    marker: Marker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """Builds the batch of a marker, without sequence, for `Partition.append_marker`.

    Args:
        marker: the end.
        producer_id: the producer of the transaction.
        producer_epoch: its epoch: that of the records or, with transaction version 2,
            the next one (KIP-890).
        timestamp_ms: ms since the epoch.
    """
    key = _KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return records.build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=records.CONTROL | records.TRANSACTIONAL,
    )


def read_marker(batch: Buffer) -> Marker | None:
    """Reads the marker of a control batch; None for a control record of another type.

    Raises:
        WireError: the record is malformed.
    """
    (record,) = records.read_records(batch)
    if record.key is None or len(record.key) < _KEY.size:
        raise WireError("a control record without a type")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in {ABORT, COMMIT}:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise WireError("a marker without the epoch of its coordinator")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind == COMMIT, coordinator_epoch)
