"""A partition in files that is stopped, killed and started again at random.

An uninterrupted one in memory has to give the same answers, to the last error code of
an idempotent producer.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.log.storage import InFolder, opened

from kohort.broker.log import checkpoints
from kohort.broker.log.directory import DataDir
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.partition import Partition
from kohort.broker.log.results import EARLIEST, LATEST, MAX_TIMESTAMP
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
EXPIRATION_MS = 1_000
NEVER = 2**63 - 1
EVERYTHING = 10**9

TAILS = {
    "nothing": b"",
    "a byte": b"\0",
    "half a header": bytes(30),
    "zeros": bytes(300),
    "half a batch": build_batch([Record(0, NOW, b"k", bytes(100))])[:90],
    "a batch with another CRC": build_batch([Record(0, NOW, b"k", bytes(100))])[:-1]
    + b"\1",
    "text": b"this is not a batch, and it is longer than the header of one is",
}


class RestartMachine(InFolder):
    """Files beside memory; every rule compares both."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = 0
        self.now_ms = NOW

    @property
    def path(self) -> Path:
        """The directory in this life."""
        return self.root / str(self.lives)

    @property
    def partition_path(self) -> Path:
        """The partition's folder."""
        return self.path / "t-0"

    @initialize(
        segment_bytes=st.sampled_from([150, 400, 2_000, 10**6]),
        interval=st.sampled_from([0, 200, 4_096]),
        flush=st.sampled_from([1, 5, NEVER]),
    )
    def begin(self, segment_bytes: int, interval: int, flush: int) -> None:
        """Two empty partitions."""
        self.config = LogConfig(
            retention_ms=-1,
            producer_id_expiration_ms=EXPIRATION_MS,
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            flush_messages=flush,
        )
        self.memory = Partition("t-0", self.config)
        self.folder: DataDir
        self.files: Partition
        self._open()
        self.closing.callback(self._close)

    def _close(self) -> None:
        self.folder.close()  # that of its last life

    def _open(self) -> None:
        epoch = self.memory.leader_epoch
        opening = opened(self.path, self.config, epoch, now_ms=self.now_ms)
        self.folder, self.files = opening

    @rule(
        later=st.sampled_from([0, 0, 1, 400]),
        times=st.lists(st.integers(-50, 50), min_size=1, max_size=4),
        size=st.sampled_from([0, 30]),
        codec=st.sampled_from([0, 1]),
    )
    def append(self, later: int, times: list[int], size: int, codec: int) -> None:
        """Records without a producer."""
        self.now_ms += later
        self._append(build_batch(self._records(times, size), codec=codec))

    @rule(
        producer=st.sampled_from([1, 2, 3]),
        epoch=st.sampled_from([0, 0, 0, 1, 2]),
        step=st.sampled_from([0, 0, 0, 0, 1, -1, -2, -3, -5, -6]),
        count=st.integers(1, 2),
    )
    def produce(self, producer: int, epoch: int, step: int, count: int) -> None:
        """The next batch of a producer, or an invalid one: early, repeated, too old."""
        state = self.memory.producers.get(producer)
        sequence = 0
        if state is not None and state.epoch == epoch:
            known = [batch.first_sequence for batch in state.batches]
            sequence = records.advance_sequence(state.batches[-1].last_sequence, 1)
            if step > 0:
                sequence += step
            elif step < 0:
                sequence = known[max(step, -len(known))]
        self._append(
            build_batch(
                self._records([0] * count, 0),
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    def _records(self, times: list[int], size: int) -> list[Record]:
        return [Record(0, self.now_ms + time, b"k", bytes(size)) for time in times]

    def _append(self, batch: bytes) -> None:
        expected = self.memory.append(batch, now_ms=self.now_ms)
        assert self.files.append(batch, now_ms=self.now_ms) == expected

    @precondition(lambda self: self.memory.log_end_offset > 0)
    @rule(position=st.floats(0, 1))
    def delete_records(self, position: float) -> None:
        """Moves the start of the log, which stays there."""
        before = int(position * self.memory.log_end_offset)
        assert self.files.delete_records(before) == self.memory.delete_records(before)

    @rule()
    def expire(self) -> None:
        """Forgets silent producers."""
        self.memory.expire_producers(self.now_ms)
        self.files.expire_producers(self.now_ms)

    @rule(by=st.integers(1, 2))
    def elect(self, by: int) -> None:
        """Elects a leader in a newer epoch."""
        for partition in (self.memory, self.files):
            partition.begin_epoch(partition.leader_epoch + by)

    @rule()
    def checkpoint(self) -> None:
        """The broker's work once a minute."""
        self.folder.checkpoint()

    @rule()
    def flush(self) -> None:
        """The broker's work for flush.ms."""
        self.files.flush()

    @rule()
    def restart(self) -> None:
        """A clean stop, and a start."""
        self.folder.close()
        assert (self.path / checkpoints.CLEAN_SHUTDOWN).exists()
        self.memory.expire_producers(self.now_ms)
        self._open()
        assert self.folder.is_clean

    @rule(tail=st.sampled_from(sorted(TAILS)), without=st.sampled_from(["", "index"]))
    def crash(self, tail: str, without: str) -> None:
        """A start after a kill -9, perhaps with part of the next batch."""
        before, killed = self.path, self.folder
        self.lives += 1
        shutil.copytree(before, self.path)
        killed.close()
        active = max(self.partition_path.glob("*.log"))
        with active.open("ab") as file:
            file.write(TAILS[tail])
        if without:
            active.with_suffix(".index").unlink()
            active.with_suffix(".timeindex").write_bytes(b"some bytes")
        self.memory.expire_producers(self.now_ms)
        self._open()
        assert not self.folder.is_clean

    @rule(position=st.floats(0, 1), max_bytes=st.sampled_from([0, 100, 300, 1_000]))
    def read(self, position: float, max_bytes: int) -> None:
        """Reads the same bytes."""
        start = self.memory.log_start_offset
        offset = start + int(position * (self.memory.log_end_offset - start))
        for minimum_one in (False, True):
            found, expected = (
                partition.read(offset, max_bytes, minimum_one=minimum_one)
                for partition in (self.files, self.memory)
            )
            assert b"".join(found.buffers) == b"".join(expected.buffers)
            assert found.size_in_bytes == expected.size_in_bytes

    @rule(time=st.integers(-60, 500))
    def look_up(self, time: int) -> None:
        """Finds the same offsets by time and by special timestamp."""
        for timestamp in (NOW + time, self.now_ms, EARLIEST, LATEST):
            expected = finish(find_offset(self.memory, timestamp))
            assert finish(find_offset(self.files, timestamp)) == expected

    @invariant()
    def both_are_the_same(self) -> None:
        """They agree after every step."""
        start, end = self.memory.log_start_offset, self.memory.log_end_offset
        assert (self.files.log_start_offset, self.files.log_end_offset) == (start, end)
        assert self.files.epochs.entries == self.memory.epochs.entries
        everything = self.memory.read(start, EVERYTHING, minimum_one=True)
        assert b"".join(self.files.batches(start)) == b"".join(everything.buffers)
        assert self.files.size_in_bytes >= everything.size_in_bytes
        if start == 0:
            found = finish(find_offset(self.files, MAX_TIMESTAMP))
            assert found == finish(find_offset(self.memory, MAX_TIMESTAMP))


RestartMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None
)
TestRestarts = RestartMachine.TestCase
