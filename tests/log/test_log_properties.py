"""A state machine: a partition agrees with a plain list of records."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.log.storage import BATCH_BY_BATCH, InFolder, Keeper

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.memory import LONG_BATCH
from kohort.broker.log.results import EARLIEST, LATEST, MAX_TIMESTAMP
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000


@dataclass
class Batch:
    """The list's entry for one batch."""

    base_offset: int
    size: int
    found: list[Record]

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.base_offset + len(self.found)

    @property
    def latest(self) -> int:
        """Its largest timestamp."""
        return max(record.timestamp_ms for record in self.found)


class LogMachine(InFolder):
    """A partition beside a list; every rule compares both."""

    @initialize(
        kind=st.sampled_from(BATCH_BY_BATCH),
        retention=st.sampled_from([-1, 50]),
        size=st.sampled_from([-1, 700]),
    )
    def begin(self, kind: str, retention: int, size: int) -> None:
        """An empty partition."""
        config = LogConfig(retention_ms=retention, retention_bytes=size)
        self.keeper = Keeper(kind, self.root)
        self.closing.callback(self.keeper.close)
        self.partition = self.keeper.partition(config)
        self.batches: list[Batch] = []
        self.start = self.end = self.grown = self.calls = 0
        self.partition.watch(self._called)

    def _called(self) -> None:
        self.calls += 1

    @rule(
        times=st.lists(st.integers(-50, 50), min_size=1, max_size=5),
        codec=st.integers(0, 4),
        size=st.sampled_from([0, 10, 3_000, LONG_BATCH]),
    )
    def append(self, times: list[int], codec: int, size: int) -> None:
        """A batch gets the next offsets, and watchers are called."""
        some = [Record(0, NOW + time, b"k", bytes(size)) for time in times]
        batch = build_batch(some, codec=codec)
        result = self.partition.append(batch, now_ms=NOW)
        assert (result.error_code, result.base_offset) == (0, self.end)
        placed = [
            Record(self.end + position, record.timestamp_ms, record.key, record.value)
            for position, record in enumerate(some)
        ]
        self.batches.append(Batch(self.end, len(batch), placed))
        self.end += len(some)
        self.grown += 1
        assert result.last_offset == self.end - 1

    @rule(
        position=st.floats(0, 1),
        max_bytes=st.sampled_from([0, 100, 500, 5_000, 10**6]),
        minimum_one=st.booleans(),
    )
    def read(self, position: float, max_bytes: int, minimum_one: bool) -> None:
        """Returns exactly the appended batches, from the one with the offset on.

        The last batch may be cut off, but not the first one.
        """
        offset = self.start + int(position * (self.end - self.start))
        expected = [batch for batch in self.batches if batch.end > offset]
        size = min(max_bytes, sum(batch.size for batch in expected))
        if expected and size < expected[0].size:
            size = expected[0].size if minimum_one else 0
        answer = self.partition.read(offset, max_bytes, minimum_one=minimum_one)
        assert answer.error_code == ErrorCode.NONE
        data = b"".join(answer.buffers)
        assert len(data) == answer.size_in_bytes == size
        whole: list[Batch] = []
        for batch in expected:
            size -= batch.size
            if size < 0:
                break
            whole.append(batch)
        data = data[: sum(batch.size for batch in whole)]
        found = [
            record
            for _, position in records.read_headers(data)
            for record in records.read_records(data, position)
        ]
        assert found == [record for batch in whole for record in batch.found]

    @rule(by=st.integers(1, 3))
    def read_outside(self, by: int) -> None:
        """Nothing can be read before the start or after the end."""
        for offset in (self.start - by, self.end + by):
            answer = self.partition.read(offset, 1000, minimum_one=True)
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule(time=st.integers(-60, 60))
    def look_up(self, time: int) -> None:
        """Finds the first record in the log that is not older."""
        answer = finish(find_offset(self.partition, NOW + time))
        fitting = [
            (record.timestamp_ms, record.offset)
            for batch in self.batches
            for record in batch.found
            if record.timestamp_ms >= NOW + time and record.offset >= self.start
        ]
        expected = fitting[0] if fitting else (-1, -1)
        assert (answer.timestamp_ms, answer.offset) == expected

    @rule()
    def look_up_by_name(self) -> None:
        """Finds the start, the end, and the first record of the largest timestamp."""
        assert finish(find_offset(self.partition, EARLIEST)).offset == self.start
        assert finish(find_offset(self.partition, LATEST)).offset == self.end
        answer = finish(find_offset(self.partition, MAX_TIMESTAMP))
        every = [record for batch in self.batches for record in batch.found]
        latest = max(every, key=lambda r: r.timestamp_ms, default=Record(offset=-1))
        assert (answer.timestamp_ms, answer.offset) == (
            latest.timestamp_ms,
            latest.offset,
        )

    @precondition(lambda self: self.end > 0)
    @rule(position=st.floats(0, 1))
    def delete(self, position: float) -> None:
        """Moves the start forward, never back."""
        before = int(position * self.end)
        self.grown += before > self.start
        self.start = max(self.start, before)
        assert self.partition.delete_records(before) == (ErrorCode.NONE, self.start)
        self._drop()

    @rule(later=st.integers(0, 100))
    def expire(self, later: int) -> None:
        """Drops old batches, then those above the size; none after one that stays."""
        config = self.partition.config
        before = sum(batch.size for batch in self.batches)
        if config.retention_ms >= 0:
            limit, start = NOW + later - config.retention_ms, self.start
            while self.batches and self.batches[0].latest < limit:
                self.start = max(self.start, self.batches.pop(0).end)
            self.grown += self.start > start
        if config.retention_bytes >= 0:
            surplus = sum(b.size for b in self.batches) - config.retention_bytes
            start = self.start
            while self.batches and surplus >= self.batches[0].size:
                surplus -= self.batches[0].size
                self.start = max(self.start, self.batches.pop(0).end)
            self.grown += self.start > start
        after = sum(batch.size for batch in self.batches)
        assert self.partition.expire(NOW + later) == before - after

    def _drop(self) -> None:
        self.batches = [batch for batch in self.batches if batch.end > self.start]

    @invariant()
    def sizes_and_offsets_agree(self) -> None:
        """They agree after every step."""
        partition = self.partition
        assert partition.log_start_offset == self.start
        assert partition.log_end_offset == partition.high_watermark == self.end
        assert len(partition.store) == len(self.batches)
        size = sum(batch.size for batch in self.batches)
        assert partition.size_in_bytes == size
        assert self.calls == self.grown


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestLog = LogMachine.TestCase
