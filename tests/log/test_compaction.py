"""When a log is compacted, how far, and concurrent changes."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.broker.log import compaction
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import MAX_TIMESTAMP
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch, read_headers, read_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
EVERYTHING = 10**9


class Scene:
    """One compacted partition, and the time."""

    def __init__(self, **config: Any) -> None:
        fields = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
        self.partition = Partition("t-0", LogConfig(**{**fields, **config}))
        self.now_ms = NOW

    def send(self, *pairs: tuple[bytes | None, bytes | None], **fields: Any) -> None:
        """Appends a batch of these keys and values, now."""
        some = [Record(0, self.now_ms, key, value) for key, value in pairs]
        batch = build_batch(some, **fields)
        assert not self.partition.append(batch, now_ms=self.now_ms).error_code

    def clean(self, **limits: int) -> int:
        """Cleans as far as due; returns the number of steps."""
        return sum(1 for _ in compaction.clean(self.partition, self.now_ms, **limits))

    def offsets(self, start: int = 0) -> list[int]:
        """The offsets of all records in a read from `start`."""
        found = self.partition.read(start, EVERYTHING, minimum_one=True)
        data = b"".join(found.buffers)
        return [
            record.offset
            for _, position in read_headers(data)
            for record in read_records(data, position)
        ]

    @property
    def first_dirty_offset(self) -> int:
        """The end of the clean part."""
        return self.partition.store.first_dirty_offset


def test_only_compacted_topics_are_cleaned() -> None:
    """cleanup.policy=delete keeps old values of a key."""
    scene = Scene(cleanup_policy="delete")
    for value in (b"1", b"2", b"3"):
        scene.send((b"a", value))
    scene.clean()
    assert scene.offsets() == [0, 1, 2]


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_large_batch_is_cleaned_in_steps(codec: int) -> None:
    """It is decompressed, read, written and compressed a piece at a time."""
    scene = Scene()
    pairs = [(b"%d" % number, bytes(200)) for number in range(20_000)]
    scene.send(*pairs, codec=codec)
    scene.send((b"0", b"1"))
    scene.send((b"a", b"1"))
    # Two passes, and one write: 60 steps for its records alone.
    pieces = 20_000 * 200 // (256 * 1024)
    assert scene.clean() > 60 + 2 * pieces
    assert scene.offsets() == list(range(1, 20_002))


def test_a_log_that_is_closed_while_a_batch_is_decompressed() -> None:
    """The cleaning ends at the next step."""
    scene = Scene()
    scene.send((b"a", bytes(9_000_000)), codec=4)
    scene.send((b"a", b"1"))
    scene.send((b"b", b"1"))
    cleaning = compaction.clean(scene.partition, NOW)
    next(cleaning)
    scene.partition.close()
    assert list(cleaning) == []


def test_an_empty_log_and_a_single_batch() -> None:
    """There is nothing to clean: the newest batch always stays."""
    scene = Scene()
    assert scene.clean() == 0
    assert compaction.dirt(scene.partition, NOW).ratio == 0.0
    scene.send((b"a", b"1"), (b"a", b"2"))
    scene.clean()
    assert scene.offsets() == [0, 1]
    assert scene.first_dirty_offset == 0


def test_the_ratio_has_to_be_above_the_minimum() -> None:
    """min.cleanable.dirty.ratio: dirty bytes to all bytes that may be cleaned."""
    scene = Scene(min_cleanable_dirty_ratio=0.5)
    for key in (b"a", b"b", b"a"):
        scene.send((key, b"1"))
    assert compaction.dirt(scene.partition, NOW).ratio == 1.0
    scene.clean()
    assert (scene.offsets(), scene.first_dirty_offset) == ([0, 1, 2], 2)

    scene.send((b"b", b"2"))
    scene.send((b"c", b"1"))
    found = compaction.dirt(scene.partition, NOW)
    assert (found.ratio, found.is_due) == (0.5, False)
    scene.clean()
    assert scene.offsets() == [0, 1, 2, 3, 4]

    scene.send((b"c", b"2"))
    assert compaction.dirt(scene.partition, NOW).is_due
    scene.clean()
    assert scene.offsets() == [2, 3, 4, 5]


def test_young_records_are_not_cleaned() -> None:
    """min.compaction.lag.ms: the first younger batch ends the part to clean."""
    scene = Scene(min_compaction_lag_ms=HOUR)
    scene.send((b"a", b"1"))
    scene.send((b"a", b"2"))
    scene.now_ms += 1
    scene.send((b"a", b"3"))
    scene.send((b"a", b"4"))
    scene.now_ms = NOW + HOUR - 1
    scene.clean()
    assert scene.offsets() == [0, 1, 2, 3]
    scene.now_ms = NOW + HOUR
    scene.clean()
    assert scene.offsets() == [1, 2, 3]


def test_old_records_are_cleaned_whatever_the_ratio() -> None:
    """max.compaction.lag.ms overrides min.cleanable.dirty.ratio (KIP-354)."""
    scene = Scene(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR)
    scene.send((b"a", b"1"))
    scene.send((b"a", b"2"))
    scene.send((b"b", b"1"))
    scene.now_ms = NOW + HOUR
    scene.clean()
    assert scene.offsets() == [0, 1, 2]
    scene.now_ms = NOW + HOUR + 1
    scene.clean()
    assert scene.offsets() == [1, 2]


def test_a_tombstone_goes_when_its_time_is_over() -> None:
    """delete.retention.ms counts from the first cleaning that saw it."""
    scene = Scene(delete_retention_ms=HOUR)
    scene.send((b"a", b"1"))
    scene.send((b"a", None), (b"e", b"1"))
    scene.send((b"b", b"1"))
    scene.now_ms = NOW + 10
    scene.clean()
    assert scene.offsets() == [1, 2, 3]

    scene.now_ms = NOW + 10 + HOUR - 1
    scene.send((b"c", b"1"))
    scene.clean()
    assert scene.offsets() == [1, 2, 3, 4]

    scene.now_ms = NOW + 10 + HOUR
    scene.send((b"d", b"1"))
    scene.clean()
    assert scene.offsets() == [2, 3, 4, 5]


def test_more_keys_than_fit_are_cleaned_in_turns() -> None:
    """A cleaning stops at its limit of keys; the next one continues there."""
    scene = Scene()
    for round_ in range(2):
        for key in (b"a", b"b", b"c"):
            scene.send((key, b"%d" % round_))
    scene.send((b"z", b""))
    scene.clean(max_keys=4)
    assert (scene.offsets(), scene.first_dirty_offset) == ([3, 4, 5, 6], 6)

    scene = Scene()
    for key in (b"a", b"a", b"b", b"a", b"b", b"z"):
        scene.send((key, b"1"))
    scene.clean(max_keys=1)
    assert (scene.offsets(), scene.first_dirty_offset) == ([0, 1, 2, 3, 4, 5], 1)
    scene.clean(max_keys=1)
    assert (scene.offsets(), scene.first_dirty_offset) == ([1, 2, 3, 4, 5], 2)


def test_long_keys_are_told_apart() -> None:
    """A digest stands for one long key only."""
    scene = Scene()
    keys = [b"k" * compaction.LONG_KEY, b"k" * 500, b"k" * 501]
    for key in (*keys, *keys[:2]):
        scene.send((key, b"1"))
    scene.send((b"z", b""))
    scene.clean()
    assert scene.offsets() == [2, 3, 4, 5]


def test_what_is_appended_meanwhile_stays() -> None:
    """A newer value of a key that is being cleaned stays, too."""
    scene = Scene()
    for value in (b"1", b"2", b"3", b"4"):
        scene.send((b"a", value))
    cleaning = compaction.clean(scene.partition, NOW, records_per_step=1)
    for _ in cleaning:
        scene.send((b"a", b"5"))
    assert scene.offsets()[:2] == [2, 3]
    assert scene.offsets()[-1] == scene.partition.log_end_offset - 1
    assert scene.first_dirty_offset == 3


@pytest.mark.parametrize("steps", range(1, 9))
def test_what_is_deleted_meanwhile_stays_deleted(steps: int) -> None:
    """A cleaning ends without a change when the start of the log moves."""
    scene = Scene(cleanup_policy="compact,delete")
    for value in (b"1", b"2", b"3", b"4", b"5"):
        scene.send((b"a", value))
    cleaning = compaction.clean(scene.partition, NOW, records_per_step=1)
    for _ in zip(range(steps), cleaning, strict=False):
        pass
    if scene.first_dirty_offset:
        assert steps > 6
        return
    assert scene.partition.delete_records(2) == (0, 2)
    assert list(cleaning) == []
    assert (scene.offsets(2), scene.first_dirty_offset) == ([2, 3, 4], 0)


def test_a_closed_partition_is_left_alone() -> None:
    """Its store is not used any more."""
    scene = Scene()
    for value in (b"1", b"2", b"3"):
        scene.send((b"a", value))
    cleaning = compaction.clean(scene.partition, NOW, records_per_step=1)
    next(cleaning)
    scene.partition.close()
    assert list(cleaning) == []
    assert scene.first_dirty_offset == 0


def test_a_policy_that_changes_meanwhile() -> None:
    """As in Kafka, a topic that is not compacted any more loses no record."""
    scene = Scene()
    for value in (b"1", b"2", b"3"):
        scene.send((b"a", value))
    cleaning = compaction.clean(scene.partition, NOW, records_per_step=1)
    next(cleaning)
    scene.partition.config = LogConfig(cleanup_policy="delete")
    assert list(cleaning) == []
    assert scene.offsets() == [0, 1, 2]


def test_a_cleaning_may_be_given_up() -> None:
    """Closing the iterator leaves the log unchanged, and another one may begin."""
    scene = Scene()
    for value in (b"1", b"2", b"3"):
        scene.send((b"a", value))
    cleaning = compaction.clean(scene.partition, NOW, records_per_step=1)
    next(cleaning)
    next(cleaning)
    cleaning.close()
    assert (scene.offsets(), scene.first_dirty_offset) == ([0, 1, 2], 0)
    scene.clean()
    assert scene.offsets() == [1, 2]


def test_a_long_batch_is_looked_at_in_several_steps() -> None:
    """A slice of work ends within a batch, too."""
    scene = Scene()
    scene.send(*[(b"%d" % (at % 100), b"") for at in range(250)], codec=4)
    scene.send((b"z", b""))
    assert scene.clean(records_per_step=50) >= 8
    assert scene.offsets() == [*range(150, 250), 250]


def test_a_damaged_batch_cannot_be_cleaned() -> None:
    """Nothing is changed, as its contents are unknown."""
    scene = Scene(cleanup_policy="delete")
    scene.send((b"a", b"1"))
    damaged = bytearray(build_batch([Record(0, NOW, b"a", b"2")]))
    damaged[records.HEADER_SIZE] = 0x7E
    damaged[17:21] = records.crc_of(damaged[21:]).to_bytes(4, "big")
    scene.partition.append_own(bytes(damaged), now_ms=NOW)
    scene.send((b"a", b"3"))
    scene.partition.config = LogConfig(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.0
    )
    size = scene.partition.size_in_bytes
    with pytest.raises(compaction.UncleanableError, match="t-0 cannot be compacted"):
        scene.clean()
    assert scene.partition.size_in_bytes == size
    assert scene.first_dirty_offset == 0


def test_the_largest_timestamp_is_that_of_a_record() -> None:
    """A batch that was emptied has a timestamp, but no record any more."""
    scene = Scene()
    scene.now_ms = NOW + 50
    ids = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    scene.send((b"a", b"1"), **ids)
    scene.now_ms = NOW
    scene.send((b"a", b"2"))
    scene.send((b"z", b""))
    scene.clean()
    assert scene.offsets() == [1, 2]
    found = finish(find_offset(scene.partition, MAX_TIMESTAMP))
    assert (found.offset, found.timestamp_ms) == (1, NOW)
    found = finish(find_offset(scene.partition, NOW + 1))
    assert found.offset == -1
