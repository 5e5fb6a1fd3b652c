"""A partition's log, with Apache Kafka 4.3's answers to the same requests."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from tests.log.scene import EVERYTHING, NOW, Scene, timed
from tests.log.storage import BATCH_BY_BATCH, MEMORY

from kohort.broker.log.epochs import LeaderEpochs
from kohort.broker.log.memory import LONG_BATCH
from kohort.broker.log.results import (
    EARLIEST,
    HIGH_WATERMARK,
    LATEST,
    MAX_TIMESTAMP,
    AppendResult,
)
from kohort.broker.log.settings import LOG_APPEND_TIME, LogConfig
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

pytestmark = pytest.mark.usefixtures("kept_scenes")

HOUR = 3_600_000


def test_an_empty_partition() -> None:
    """Offsets start at 0, and reading at the end is no error."""
    scene = Scene()
    partition = scene.partition
    assert partition.high_watermark == partition.last_stable_offset == 0
    assert partition.log_start_offset == partition.log_end_offset == 0
    assert (partition.size_in_bytes, len(partition.store)) == (0, 0)
    assert scene.bytes_from(0) == b""
    assert partition.expire(NOW) == 0
    assert partition.leader_epoch == 0


def test_offsets_are_dense() -> None:
    """Each batch starts where the previous one ended."""
    scene = Scene()
    assert scene.send(0, 0, 0) == AppendResult(ErrorCode.NONE, 0, 2, -1, 0)
    assert scene.send(0) == AppendResult(ErrorCode.NONE, 3, 3, -1, 0)
    assert scene.send(0, 0) == AppendResult(ErrorCode.NONE, 4, 5, -1, 0)
    partition = scene.partition
    assert partition.high_watermark == partition.last_stable_offset == 6
    assert len(partition.store) == 3


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("size", [10, LONG_BATCH])
def test_a_batch_stays_as_it_was_sent(codec: int, size: int) -> None:
    """Except base offset and leader epoch, the bytes are the producer's."""
    partition = Scene.keeper.partition(leader_epoch=6)
    value = records.build_batch([Record(0, 0, None, bytes(range(250)) * (size // 10))])
    batch = build_batch([Record(0, NOW, b"k", value)] * 2, codec=codec)
    for base in (0, 2):
        assert partition.append(batch, now_ms=NOW).base_offset == base
    found = partition.read(2, EVERYTHING, minimum_one=True)
    expected = struct.pack(">q", 2) + batch[8:12] + struct.pack(">i", 6) + batch[16:]
    assert b"".join(found.buffers) == expected
    assert partition.size_in_bytes == 2 * len(batch)


def test_a_received_frame_may_be_forgotten() -> None:
    """A batch is a view into a frame, and bytes after it are not kept."""
    scene = Scene()
    batch = build_batch([Record(0, NOW, None, b"v")])
    frame = b"#" * 10 + batch + b"tail"
    view = memoryview(frame)[10:]
    assert not scene.partition.append(view, now_ms=NOW).error_code
    assert scene.partition.size_in_bytes == len(batch)
    assert len(scene.bytes_from(0)) == len(batch)


def test_reading_starts_with_the_batch_that_has_the_offset() -> None:
    """Consumers skip the records before it in the first batch."""
    scene = Scene()
    for count in (3, 2, 3, 1, 2):
        scene.send(*[0] * count)
    starts = [0, 0, 0, 3, 3, 5, 5, 5, 8, 9, 9]
    assert [scene.offsets_from(offset)[0] for offset in range(11)] == starts
    assert scene.offsets_from(4) == [3, 5, 8, 9]
    assert scene.bytes_from(11) == b""


@pytest.mark.parametrize("offset", [-2, -1, 12, 100])
def test_offsets_out_of_range(offset: int) -> None:
    """Before the start or after the end."""
    scene = Scene()
    scene.send(*[0] * 11)
    found = scene.partition.read(offset, EVERYTHING, minimum_one=True)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (found.buffers, found.size_in_bytes) == ((), 0)


@pytest.mark.parametrize("length", [5, LONG_BATCH])
def test_a_limit_cuts_the_last_batch(length: int) -> None:
    """As in Kafka; the first batch is whole or missing."""
    scene = Scene()
    for _ in range(4):
        batch = build_batch([Record(0, NOW, None, bytes(length))])
        scene.partition.append(batch, now_ms=NOW)
    everything = scene.bytes_from(0)
    size = len(everything) // 4
    for limit in (0, 1, size - 1, size, size + 1, size + 30, 3 * size - 1, 9 * size):
        for minimum_one in (False, True):
            found = scene.partition.read(0, limit, minimum_one=minimum_one)
            expected = everything[: max(limit, size) if minimum_one else limit]
            if len(expected) < size:
                expected = b""
            assert b"".join(found.buffers) == expected
            assert found.size_in_bytes == len(expected)


def test_a_negative_limit() -> None:
    """Kafka fails if there is something to read, and only then."""
    scene = Scene()
    scene.send(0)
    for offset, error in (
        (0, ErrorCode.UNKNOWN_SERVER_ERROR),
        (1, ErrorCode.NONE),
        (2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        assert scene.partition.read(offset, -1, minimum_one=True).error_code == error


def refusals() -> dict[str, tuple[bytes, int, int]]:
    """Batches, with the error code and the log start offset of Kafka's answer.

    One for each stage of the checks; tests/protocol/test_records.py has the others.
    """
    good = build_batch([Record(0, NOW, b"k", b"v")] * 3)

    def patched(layout: str, position: int, value: int) -> bytes:
        made = bytearray(good)
        struct.pack_into(layout, made, position, value)
        if position > 20:
            struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
        return bytes(made)

    corrupt, invalid = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
    return {
        "truncated": (good[:-1], invalid, -1),
        "magic 3": (patched("b", 16, 3), corrupt, -1),
        "crc": (patched(">I", 17, 5), corrupt, -1),
        "large": (
            build_batch([Record(0, NOW, None, bytes(2_000))]),
            ErrorCode.MESSAGE_TOO_LARGE,
            -1,
        ),
        "base offset": (patched(">q", 0, 1), invalid, 1),
        "codec": (patched(">h", 21, 7), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    }


@pytest.mark.parametrize("name", refusals())
def test_refused_batches(name: str) -> None:
    """The code, and the log start offset only if Kafka had reached the log."""
    scene = Scene(max_message_bytes=2_000)
    scene.send(0, 0)
    scene.partition.delete_records(1)
    batch, code, start = refusals()[name]
    result = scene.partition.append(batch, now_ms=NOW)
    assert result.error_code == code
    assert (result.base_offset, result.last_offset) == (-1, -1)
    assert (result.log_append_time_ms, result.log_start_offset) == (-1, start)
    assert bool(result.error_message) == (name == "magic 3")
    assert result.reason
    assert (scene.partition.log_end_offset, len(scene.partition.store)) == (2, 1)


def test_zstd_in_an_old_produce() -> None:
    """Before Produce v7 zstd is refused."""
    partition = Scene().partition
    batch = build_batch([Record()], codec=4)
    refused = partition.append(batch, now_ms=NOW, zstd=False)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refused.log_start_offset == -1
    assert not partition.append(batch, now_ms=NOW).error_code


def test_timestamps_too_far_ahead() -> None:
    """An hour is allowed; each later record is listed (KIP-467)."""
    scene = Scene()
    assert not scene.send(HOUR).error_code
    result = scene.send(0, HOUR + 1, 5, HOUR + 2)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [position for position, _ in result.record_errors] == [1, 3]
    assert str(NOW + HOUR + 2) in result.record_errors[1][1]
    assert result.error_message
    assert (result.base_offset, result.log_start_offset) == (-1, 0)
    scene.now_ms += 2
    assert not scene.send(0, HOUR + 1, 5, HOUR + 2).error_code


def test_timestamps_too_old() -> None:
    """No limit by default; a record without a time is never too old."""
    assert not Scene().send(-NOW + 5).error_code
    scene = Scene(message_timestamp_before_max_ms=1_000)
    result = scene.send(0, -1_001, -1_000)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [position for position, _ in result.record_errors] == [1]
    assert not scene.send(-1 - NOW).error_code


def test_records_of_compacted_topics_have_keys() -> None:
    """A null key is listed and refused; the timestamps' code comes first."""
    scene = Scene(cleanup_policy="compact")
    some = [Record(0, NOW, key, b"v") for key in (b"k", None, b"", None)]
    result = scene.partition.append(build_batch(some, codec=1), now_ms=NOW)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [position for position, _ in result.record_errors] == [1, 3]
    assert "t-0" in result.record_errors[0][1]
    assert not scene.send(0, 0).error_code
    late = Record(0, NOW + 2 * HOUR, b"k", b"v")
    result = scene.partition.append(build_batch([some[1], late]), now_ms=NOW)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [position for position, _ in result.record_errors] == [0, 1]


def test_unreadable_records_of_compacted_topics() -> None:
    """Bytes that cannot be decompressed: Kafka has no code for its exception."""
    scene = Scene(cleanup_policy="compact,delete")
    made = bytearray(build_batch([Record(0, NOW, b"k", b"v")]))
    struct.pack_into(">h", made, 21, 1)
    struct.pack_into(">I", made, 17, records.crc_of(made[21:]))
    result = scene.partition.append(bytes(made), now_ms=NOW)
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "gzip" in result.reason


@pytest.mark.parametrize("size", [5, LONG_BATCH])
def test_append_time(size: int) -> None:
    """All records, and the response, get the broker's time."""
    scene = Scene(message_timestamp_type=LOG_APPEND_TIME)
    scene.now_ms += 77
    some = [Record(0, NOW + time, b"k", bytes(size)) for time in (9 * HOUR, 0)]
    result = scene.partition.append(build_batch(some), now_ms=scene.now_ms)
    assert result == AppendResult(ErrorCode.NONE, 0, 1, NOW + 77, 0)
    scene.send(0)
    data = scene.bytes_from(0)
    (first, _), (second, at) = records.read_headers(data)
    assert first.is_log_append_time
    assert first.base_timestamp == NOW + 9 * HOUR
    assert second.base_offset == 2
    for header, position in ((first, 0), (second, at)):
        batch = data[position : position + header.size]
        assert records.crc_of(batch[21:]) == header.crc
    assert {r.timestamp_ms for r in records.read_records(data)} == {NOW + 77}
    assert scene.found(NOW) == (77, 0, 0)
    assert scene.found(MAX_TIMESTAMP) == (77, 0, 0)


def test_a_producer_sets_append_time() -> None:
    """With CreateTime the flag is removed; with LogAppendTime it is refused."""
    flagged = {"attributes": records.LOG_APPEND_TIME}
    scene = Scene()
    assert not scene.send(0, 3, **flagged).error_code
    data = scene.bytes_from(0)
    header = records.read_header(data)
    assert not header.attributes
    assert records.crc_of(data[21:]) == header.crc
    assert [r.timestamp_ms - NOW for r in records.read_records(data)] == [0, 3]

    result = Scene(message_timestamp_type=LOG_APPEND_TIME).send(0, 3, **flagged)
    assert result.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [position for position, _ in result.record_errors] == [0, 1]


def test_batches_of_the_broker_itself() -> None:
    """They get offsets and are stored, without any check."""
    partition = Scene.keeper.partition(leader_epoch=2)
    batch = build_batch([Record(0, NOW, None, b"v")] * 2, attributes=records.CONTROL)
    partition.append_own(batch, now_ms=NOW)
    assert partition.append_own(batch, now_ms=NOW) == ErrorCode.NONE
    assert partition.log_end_offset == 4
    data = b"".join(partition.read(2, EVERYTHING, minimum_one=True).buffers)
    header = records.read_header(data)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 2)


def test_the_readable_size_is_known_without_reading() -> None:
    """Bytes from the batch with an offset on; -1 if nothing can be read."""
    scene = Scene()
    for _ in range(5):
        scene.send(0, 1)
    for offset in range(11):
        size = scene.partition.readable(offset)
        found = scene.partition.read(offset, EVERYTHING, minimum_one=True)
        assert size == found.size_in_bytes
    assert scene.partition.readable(11) == -1
    scene.partition.delete_records(4)
    assert scene.partition.readable(3) == -1


def test_who_watches_is_called_when_it_grows() -> None:
    """In the order in which they were added, and no longer after their removal."""
    scene = Scene()
    calls: list[str] = []
    watchers: list[Callable[[], None]] = [
        lambda: calls.append(f"a{scene.partition.log_end_offset}"),
        lambda: calls.append(f"b{scene.partition.log_end_offset}"),
    ]
    for watcher in watchers:
        scene.partition.watch(watcher)
    scene.send(0, 0)
    scene.partition.append(b"", now_ms=NOW)
    assert calls == ["a2", "b2"]
    scene.partition.unwatch(watchers[0])
    scene.partition.unwatch(watchers[0])
    scene.send(0)
    scene.partition.wake()
    assert calls == ["a2", "b2", "b3", "b3"]


def test_repeated_batches_wake_nobody() -> None:
    """Repeated batches call no watcher."""
    scene = Scene()
    calls: list[None] = []
    scene.partition.watch(lambda: calls.append(None))
    for _ in range(3):
        scene.send(0, producer_id=1, producer_epoch=0, base_sequence=0)
    assert len(calls) == 1


def test_who_watches_may_leave_when_called() -> None:
    """An answered Fetch removes itself, and the others are still called."""
    scene = Scene()
    calls: list[str] = []

    def once() -> None:
        scene.partition.unwatch(once)
        calls.append("once")

    scene.partition.watch(once)
    scene.partition.watch(lambda: calls.append("always"))
    scene.send(0)
    scene.send(0)
    assert calls == ["once", "always", "always"]


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_deleting_records() -> None:
    """The start moves to any offset; whole batches before it are dropped (KIP-107)."""
    scene = timed()
    partition = scene.partition
    size = partition.size_in_bytes
    assert partition.delete_records(1) == (ErrorCode.NONE, 1)
    assert (len(partition.store), partition.size_in_bytes) == (5, size)
    assert scene.offsets_from(1) == [0, 3, 5, 8, 9]
    assert partition.delete_records(0) == (ErrorCode.NONE, 1)
    assert partition.delete_records(5) == (ErrorCode.NONE, 5)
    assert scene.offsets_from(5) == [5, 8, 9]
    assert partition.size_in_bytes == len(scene.bytes_from(5))
    assert scene.send(0).log_start_offset == 5


def test_reading_what_was_deleted() -> None:
    """Out of range, even if the batch is kept for later records."""
    scene = timed()
    scene.partition.delete_records(4)
    found = scene.partition.read(3, EVERYTHING, minimum_one=True)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_deleting_all_records() -> None:
    """The high watermark's special offset; later offsets follow on."""
    scene = timed()
    partition = scene.partition
    assert partition.delete_records(HIGH_WATERMARK) == (ErrorCode.NONE, 11)
    assert (len(partition.store), partition.size_in_bytes) == (0, 0)
    assert scene.bytes_from(11) == b""
    assert scene.found(EARLIEST) == scene.found(LATEST) == (-1, 11, 0)
    assert scene.found(NOW) == scene.found(MAX_TIMESTAMP) == (-1, -1, -1)
    assert scene.send(0, 0).base_offset == 11
    assert scene.offsets_from(12) == [11]


@pytest.mark.parametrize("before", [-5, -2, 12])
def test_deleting_out_of_range(before: int) -> None:
    """An offset after the end, or a negative one, is out of range."""
    scene = timed()
    assert scene.partition.delete_records(before) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert scene.partition.log_start_offset == 0


def test_records_of_compacted_topics_cannot_be_deleted() -> None:
    """The policy has to include delete; it is checked before the offset."""
    scene = Scene(cleanup_policy="compact")
    scene.send(0)
    for before in (0, 99):
        answer = scene.partition.delete_records(before)
        assert answer == (ErrorCode.POLICY_VIOLATION, -1)
    scene.partition.config = LogConfig(cleanup_policy="compact,delete")
    assert scene.partition.delete_records(1) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_retention_by_time() -> None:
    """Batches are dropped from the front, until one is young enough."""
    scene = Scene(retention_ms=1_000)
    for time in (0, 300, 100, 400):
        scene.send(time)
    partition = scene.partition
    size = partition.size_in_bytes // 4
    assert partition.expire(NOW + 1_000) == 0
    assert partition.expire(NOW + 1_001) == size
    assert partition.log_start_offset == 1
    # The third is older than the second, and waits for it.
    assert partition.expire(NOW + 1_300) == 0
    assert partition.expire(NOW + 1_301) == 2 * size
    assert scene.offsets_from(3) == [3]
    assert partition.expire(NOW + 9_999) == size
    assert partition.log_start_offset == partition.log_end_offset == 4
    assert scene.send(0).base_offset == 4


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_retention_of_records_without_time() -> None:
    """They are as old as their append."""
    scene = Scene(retention_ms=1_000)
    scene.send(-1 - NOW)
    assert scene.partition.expire(NOW + 1_000) == 0
    size = scene.partition.size_in_bytes
    assert scene.partition.expire(NOW + 1_001) == size > 0


@pytest.mark.parametrize("keeper", BATCH_BY_BATCH, indirect=True)
def test_retention_by_size() -> None:
    """The rest is never below the limit: a batch is dropped if all of it is above."""
    scene = Scene(retention_ms=-1)
    for _ in range(5):
        scene.send(0)
    partition = scene.partition
    size = partition.size_in_bytes // 5
    for limit, kept in ((5 * size, 5), (4 * size + 1, 5), (4 * size, 4), (size, 1)):
        partition.config = LogConfig(retention_ms=-1, retention_bytes=limit)
        partition.expire(NOW + 10**12)
        assert len(partition.store) == kept
        assert partition.log_start_offset == 5 - kept
    partition.config = LogConfig(retention_ms=-1, retention_bytes=0)
    assert partition.expire(NOW) == size
    assert partition.log_start_offset == 5


def test_compacted_topics_keep_everything() -> None:
    """Neither limit applies without delete in the policy."""
    scene = Scene(cleanup_policy="compact", retention_ms=1, retention_bytes=1)
    scene.send(0)
    assert scene.partition.expire(NOW + 10**12) == 0
    assert len(scene.partition.store) == 1


def test_the_end_of_the_only_epoch() -> None:
    """Kafka's answer to OffsetForLeaderEpoch for a topic that never moved."""
    scene = timed()
    ends = {epoch: scene.partition.end_of_epoch(epoch) for epoch in (-2, -1, 0, 1)}
    assert ends == {-2: (-2, 0), -1: (-1, -1), 0: (0, 11), 1: (-1, -1)}
    scene.partition.delete_records(HIGH_WATERMARK)
    assert scene.partition.end_of_epoch(0) == (0, 11)
    assert scene.partition.end_of_epoch(-2) == (-2, 11)


def test_the_ends_of_several_epochs() -> None:
    """A skipped epoch ends with the previous one (KIP-101)."""
    scene = Scene()
    scene.send(0, 0)
    scene.partition.begin_epoch(3)
    scene.send(10)
    scene.partition.begin_epoch(5)
    scene.send(20)
    ends = [scene.partition.end_of_epoch(epoch) for epoch in range(7)]
    assert ends == [(0, 2), (0, 2), (0, 2), (3, 3), (3, 3), (5, 4), (-1, -1)]
    assert [scene.found(NOW + time)[2] for time in (0, 10, 20)] == [0, 3, 5]
    assert scene.found(LATEST) == (-1, 4, 5)
    assert scene.found(EARLIEST) == (-1, 0, 0)
    scene.partition.delete_records(2)
    assert scene.found(EARLIEST) == (-1, 2, 3)
    assert scene.partition.end_of_epoch(1) == (1, 2)


def test_an_epoch_in_which_nothing_was_written() -> None:
    """It leaves no trace once the next one begins."""
    epochs = LeaderEpochs([(1, 0)])
    epochs.begin(2, 0)
    epochs.begin(4, 10)
    epochs.begin(7, 10)
    assert epochs.latest == 7
    assert epochs.end_of(4, 12) == (2, 10)
    assert epochs.end_of(1, 12) == (1, 0)
    assert [epochs.at(offset) for offset in (0, 9, 10)] == [2, 2, 7]


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_epoch_that_a_client_knows(current: int, code: int) -> None:
    """An old one is fenced, a newer one unknown, -1 is not checked (KIP-320)."""
    assert LeaderEpochs([(4, 0)]).check(current) == code


def test_epochs_behind_the_end_of_the_log_are_gone() -> None:
    """For example after a crash that cut off the batches of the last leaders."""
    epochs = LeaderEpochs([(1, 0), (3, 5), (4, 9), (6, 12)])
    epochs.end_at(9)
    assert (epochs.entries, epochs.latest) == (((1, 0), (3, 5), (4, 9)), 4)
    epochs.end_at(4)
    assert (epochs.entries, epochs.latest) == (((1, 0),), 1)


def test_batches_one_by_one() -> None:
    """From the one with the offset on, including those appended meanwhile."""
    scene = Scene()
    for count in (3, 2, 1):
        scene.send(*[0] * count)
    batches = scene.partition.batches(4)
    assert records.read_header(next(batches)).base_offset == 3
    scene.send(0)
    left = [records.read_header(batch).base_offset for batch in batches]
    assert left == [5, 6]
    assert not list(scene.partition.batches(7))


def test_closing() -> None:
    """Watchers are called; closing twice is allowed."""
    scene = Scene()
    scene.send(0)
    scene.partition.flush()
    calls: list[bool] = []
    scene.partition.watch(lambda: calls.append(scene.partition.is_closed))
    scene.partition.close()
    scene.partition.close()
    assert calls == [True]


def test_an_old_epoch_does_not_begin() -> None:
    """Epochs only grow."""
    partition = Scene.keeper.partition(leader_epoch=3)
    partition.begin_epoch(3)
    partition.begin_epoch(1)
    assert partition.epochs.entries == ((3, 0),)


def test_configuration_may_change() -> None:
    """A new limit applies from the next batch on."""
    scene = Scene()
    partition = scene.partition
    assert not scene.send(0).error_code
    partition.config = LogConfig(max_message_bytes=70)
    assert scene.send(0, 0).error_code == ErrorCode.MESSAGE_TOO_LARGE
    partition.config = LogConfig(message_timestamp_type=LOG_APPEND_TIME)
    assert scene.send(0, 0).log_append_time_ms == NOW


def names(values: Sequence[object]) -> list[str]:
    """Types' names, for a readable comparison."""
    return [type(value).__name__ for value in values]


@pytest.mark.parametrize("keeper", [MEMORY], indirect=True)
def test_short_batches_do_not_pin_their_frame() -> None:
    """Only a long batch stays in its received buffer."""
    partition = Scene().partition
    for size in (100, 2 * LONG_BATCH):
        batch = build_batch([Record(0, NOW, None, bytes(size))])
        partition.append(batch, now_ms=NOW)
    found = partition.read(0, EVERYTHING, minimum_one=True)
    assert names(found.buffers) == ["bytes", "bytes", "memoryview"]
