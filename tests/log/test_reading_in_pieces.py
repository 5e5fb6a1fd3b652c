"""Records that are validated, searched and fetched a piece at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from tests.log.scene import EVERYTHING, NOW, Scene

from kohort.broker.log import memory, segments
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import MAX_TIMESTAMP, AppendResult
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.validation import MOST_RECORD_ERRORS, UnreadBatch
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.record_heads import HEADS
from kohort.protocol.record_survey import SOME
from kohort.protocol.records import Record, build_batch

pytestmark = pytest.mark.usefixtures("kept_scenes")


def pieces_of(work: Iterator[None]) -> int:
    """Does the work; returns the number of its pieces."""
    return sum(1 for _ in work)


@pytest.mark.parametrize("codec", range(5))
def test_a_large_batch_is_read_in_pieces(codec: int) -> None:
    """Nothing is appended before its records were read, a few at a time."""
    scene = Scene(cleanup_policy="compact")
    batch = build_batch([Record(0, NOW, b"k")] * 20_000, codec=codec)
    unread = scene.partition.append_or_read(batch, now_ms=NOW)
    assert isinstance(unread, UnreadBatch)
    assert pieces_of(unread.read()) >= 20_000 // SOME
    assert scene.partition.log_end_offset == 0
    scene.send(0)
    result = scene.partition.append_or_read(batch, now_ms=NOW, read=unread)
    assert isinstance(result, AppendResult)
    assert (result.error_code, result.base_offset) == (0, 1)


def test_a_configuration_that_changes_while_records_are_read() -> None:
    """The records are read again, and checked by the new configuration."""
    scene = Scene()
    batch = build_batch([Record(0, NOW, None, b"v")] * (SOME + 1))
    unread = scene.partition.append_or_read(batch, now_ms=NOW)
    assert isinstance(unread, UnreadBatch)
    pieces_of(unread.read())
    scene.partition.config = LogConfig(cleanup_policy="compact")
    again = scene.partition.append_or_read(batch, now_ms=NOW, read=unread)
    assert isinstance(again, UnreadBatch)
    pieces_of(again.read())
    result = scene.partition.append_or_read(batch, now_ms=NOW, read=again)
    assert isinstance(result, AppendResult)
    assert result.error_code == ErrorCode.INVALID_RECORD


def test_a_batch_of_too_many_records() -> None:
    """Refused by its header without decompression: a Java producer splits it."""
    scene = Scene(cleanup_policy="compact")
    made = bytearray(build_batch([Record(0, NOW, b"k")]))
    struct.pack_into(">i", made, 23, records.MAX_RECORDS)
    struct.pack_into(">i", made, 57, records.MAX_RECORDS + 1)
    struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
    result = scene.partition.append_or_read(bytes(made), now_ms=NOW)
    assert isinstance(result, AppendResult)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_is_refused() -> None:
    """Records may not decompress to more bytes than a request may have."""
    scene = Scene(cleanup_policy="compact")
    some = [Record(0, NOW, b"k", bytes(21 * 1024 * 1024))] * 5
    result = scene.partition.append(build_batch(some, codec=4), now_ms=NOW)
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "decompresses to more" in result.reason


def test_refused_records_are_listed_up_to_a_limit() -> None:
    """The rest of the batch is not read."""
    scene = Scene(cleanup_policy="compact")
    some = [Record(0, NOW, None, b"v")] * (2 * MOST_RECORD_ERRORS)
    result = scene.partition.append(build_batch(some, codec=4), now_ms=NOW)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert len(result.record_errors) == MOST_RECORD_ERRORS


def test_a_time_is_searched_in_pieces() -> None:
    """The records of a large batch are read a few at a time."""
    scene = Scene()
    some = [Record(0, NOW + number, b"k") for number in range(20_000)]
    scene.partition.append(build_batch(some, codec=4), now_ms=NOW)
    assert pieces_of(find_offset(scene.partition, NOW + 19_999)) >= 19_000 // HEADS
    assert scene.found(NOW + 19_999) == (19_999, 19_999, 0)
    assert pieces_of(find_offset(scene.partition, MAX_TIMESTAMP)) >= 19_000 // HEADS


def _searched(*parts: range) -> Scene:
    """A batch for each range of times; all claim to have the time 9,999."""
    scene = Scene()
    for times in parts:
        some = [Record(0, NOW + time, b"k", b"v") for time in times]
        made = bytearray(build_batch(some))
        struct.pack_into(">q", made, 35, NOW + 9_999)
        struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
        scene.partition.append_own(bytes(made), now_ms=NOW)
    return scene


def test_a_log_that_is_closed_during_a_search() -> None:
    """The search ends with NOT_LEADER_OR_FOLLOWER."""
    scene = _searched(range(2_000))
    search = find_offset(scene.partition, NOW + 1_999)
    next(search)
    scene.partition.close()
    assert finish(search).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("limit", [0, 1, 150, 1_000, 3_000, EVERYTHING])
@pytest.mark.parametrize("minimum_one", [True, False])
def test_pieces_add_up_to_one_read(
    limit: int, minimum_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches up to the limit, some of them longer than a piece."""
    for module in (memory, segments):
        monkeypatch.setattr(module, "PIECE", 200)
    scene = Scene()
    for number in range(40):
        scene.send(*range(30 if number % 5 == 4 else 1))
    for offset in range(0, scene.partition.log_end_offset + 2, 7):
        whole = scene.partition.read(offset, limit, minimum_one=minimum_one)
        work = scene.partition.read_in_pieces(offset, limit, minimum_one=minimum_one)
        pieces = finish(work)
        assert pieces.error_code == whole.error_code
        assert b"".join(pieces.buffers) == b"".join(whole.buffers)
        assert pieces.size_in_bytes == whole.size_in_bytes
    turns = pieces_of(scene.partition.read_in_pieces(0, EVERYTHING, minimum_one=True))
    assert turns > 20


@pytest.mark.parametrize("first", [0, 4, 13, 20, 30])
def test_records_that_are_deleted_while_they_are_read(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OFFSET_OUT_OF_RANGE at any pause; a read behind them has all of its batches."""
    for module in (memory, segments):
        monkeypatch.setattr(module, "PIECE", 200)
    pauses = 0
    while True:
        scene = Scene(segment_bytes=400)
        for _ in range(20):
            scene.send(0, 1)
        whole = scene.bytes_from(first)
        work = scene.partition.read_in_pieces(first, EVERYTHING, minimum_one=True)
        pauses += 1
        if sum(1 for _ in zip(range(pauses), work, strict=False)) < pauses:
            break
        scene.partition.delete_records(20)
        found = finish(work)
        if first < 20:
            assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            assert b"".join(found.buffers) == whole
    assert pauses > 1


def test_batches_that_are_deleted_during_a_search() -> None:
    """The search goes on with the next one that is left, and skips none."""
    scene = _searched(range(1_000), range(1_000), *[range(1_000, 2_000)] * 2)
    search = find_offset(scene.partition, NOW + 1_000)
    next(search)
    scene.partition.delete_records(2_000)
    assert finish(search).offset == 2_000


def test_records_that_are_deleted_during_a_search() -> None:
    """They are not found, although their batch is still there."""
    scene = _searched(range(3_000))
    search = find_offset(scene.partition, NOW + 2_000)
    next(search)
    scene.partition.delete_records(2_500)
    assert finish(search).offset == 2_500
