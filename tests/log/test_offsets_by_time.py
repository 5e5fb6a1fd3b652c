"""Offsets by time and by special timestamps (ListOffsets), as in Apache Kafka 4.3."""

from __future__ import annotations

import struct

import pytest
from tests.log.scene import NOW, Scene, timed
from tests.log.storage import BATCH_BY_BATCH

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    FoundOffset,
)
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

pytestmark = pytest.mark.usefixtures("kept_scenes")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (-200, (0, 0)),
        (-95, (0, 0)),
        (0, (0, 0)),
        (1, (50, 1)),
        (21, (50, 1)),
        (50, (50, 1)),
        (51, (60, 6)),
        (61, (500, 8)),
        (500, (500, 8)),
        (501, (-1, -1)),
    ],
)
def test_offsets_by_time(time: int, expected: tuple[int, int]) -> None:
    """The first record in the log that is not older, which may have any time."""
    found = timed().found(NOW + time)
    assert found[:2] == expected
    assert found[2] == (-1 if expected[1] < 0 else 0)


def test_offsets_by_name() -> None:
    """Start, end, the first record of the largest timestamp; no tiered storage."""
    scene = timed()
    assert scene.found(EARLIEST) == scene.found(EARLIEST_LOCAL) == (-1, 0, 0)
    assert scene.found(LATEST) == (-1, 11, 0)
    assert scene.found(MAX_TIMESTAMP) == (500, 8, 0)
    assert scene.found(LATEST_TIERED) == (-1, -1, -1)
    assert scene.found(EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)
    unsupported = FoundOffset(ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
    assert finish(find_offset(scene.partition, -7)) == unsupported


def test_offsets_in_an_empty_partition() -> None:
    """Start and end are 0; no record has any time."""
    scene = Scene()
    assert scene.found(EARLIEST) == scene.found(LATEST) == (-1, 0, 0)
    assert scene.found(MAX_TIMESTAMP) == scene.found(0) == (-1, -1, -1)


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_offsets_by_time_begin_with_the_log() -> None:
    """Deleted records are not found, even in a batch that is kept."""
    scene = timed()
    scene.partition.delete_records(1)
    assert scene.found(NOW) == (50, 1, 0)
    scene.partition.delete_records(4)
    assert scene.found(NOW - 95) == (-90, 4, 0)
    assert scene.found(NOW) == (10, 5, 0)
    assert scene.found(EARLIEST) == (-1, 4, 0)


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_the_largest_timestamp_may_be_deleted_already() -> None:
    """Kafka returns a record before the start, as long as its batch exists."""
    scene = Scene()
    scene.send(50, 10, 20)
    scene.send(5, 40)
    scene.partition.delete_records(1)
    assert scene.found(MAX_TIMESTAMP) == (50, 0, 0)
    assert scene.found(NOW + 45) == (-1, -1, -1)
    scene.partition.delete_records(3)
    assert scene.found(MAX_TIMESTAMP) == (40, 4, 0)


def test_offsets_by_time_in_a_damaged_batch() -> None:
    """Invalid records are an error."""
    scene = Scene()
    made = bytearray(build_batch([Record(0, NOW, b"k", b"v")]))
    made[-3:] = b"\xff\xff\xff"
    struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
    scene.partition.append_own(bytes(made), now_ms=NOW)
    corrupt = FoundOffset(ErrorCode.CORRUPT_MESSAGE, -1, -1, -1)
    assert finish(find_offset(scene.partition, NOW)) == corrupt


def test_a_header_may_promise_a_time_that_no_record_has() -> None:
    """The search continues with the next batch."""
    scene = Scene()
    made = bytearray(build_batch([Record(0, NOW, b"k", b"v")]))
    struct.pack_into(">q", made, 35, NOW + 900)
    struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
    scene.partition.append_own(bytes(made), now_ms=NOW)
    scene.send(700)
    assert scene.found(NOW + 500) == (700, 1, 0)
