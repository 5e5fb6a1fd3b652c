"""A state machine: a compacted log always has the newest record of each key."""

from __future__ import annotations

from collections.abc import Generator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.log.storage import EVERYWHERE, MEMORY, InFolder, Keeper

from kohort.broker.log import compaction
from kohort.broker.log.settings import LogConfig
from kohort.protocol.records import (
    CRC_START,
    Record,
    advance_sequence,
    build_batch,
    crc_of,
    read_header,
    read_records,
)

NOW = 1_700_000_000_000
RETENTION = 100
EVERYTHING = 10**9

# Two keys are so long that compaction remembers their digests.
KEYS = [b"", b"a", b"b", b"c" * 129, b"d" * 129]
PAIRS = st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"", b"x", b"y" * 40]))


class CompactionMachine(InFolder):
    """A compacted partition, and everything that was ever written to it."""

    @initialize(
        kind=st.sampled_from(EVERYWHERE),
        retention=st.sampled_from([0, RETENTION]),
        lag=st.sampled_from([0, 0, 50]),
        max_keys=st.sampled_from([1, 2, 100]),
        step=st.sampled_from([1, 3, 1000]),
    )
    def begin(
        self, kind: str, retention: int, lag: int, max_keys: int, step: int
    ) -> None:
        """An empty partition, whose start may move."""
        self.retention, self.lag = retention, lag
        self.limits = {"max_keys": max_keys, "records_per_step": step}
        self.keeper = Keeper(kind, self.root)
        self.closing.callback(self.keeper.close)
        self.partition = self.keeper.partition(
            LogConfig(
                cleanup_policy="compact,delete",
                retention_ms=-1,
                min_cleanable_dirty_ratio=0.0,
                min_compaction_lag_ms=lag,
                delete_retention_ms=retention,
                segment_bytes=1200,
            )
        )
        self.is_by_batch = kind == MEMORY
        self.now = NOW
        self.written: list[Record] = []
        self.cleaning: Generator[None, None, None] | None = None
        self.closing.callback(self._end_cleaning)
        self.began_at = 0
        # By producer, the last sequence and its offset.
        self.sequences: dict[int, tuple[int, int]] = {}
        # The delete horizon of each tombstone seen by a cleaning, those whose horizon
        # had passed when the last one ended, and its time.
        self.seen: dict[int, int] = {}
        self.past: set[int] = set()
        self.cleaned_at = 0

    # -- rules

    @rule(
        pairs=st.lists(PAIRS, min_size=1, max_size=5),
        codec=st.integers(0, 4),
        producer_id=st.sampled_from([-1, -1, 1, 2]),
        times=st.lists(st.integers(-20, 20), min_size=5, max_size=5),
    )
    def append(
        self,
        pairs: list[tuple[bytes, bytes | None]],
        codec: int,
        producer_id: int,
        times: list[int],
    ) -> None:
        """Appends values and tombstones, with times that go up and down."""
        end = len(self.written)
        headers = [[], [("h", b"x")]]
        some = [
            Record(end + at, self.now + times[at], key, value, headers[at % 2] or ())
            for at, (key, value) in enumerate(pairs)
        ]
        first = -1
        if producer_id >= 0:
            first = self.sequences.get(producer_id, (-1, 0))[0] + 1
            last = first + len(some) - 1
            self.sequences[producer_id] = last, end + len(some) - 1
        batch = build_batch(
            some,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=first,
        )
        found = self.partition.append(batch, now_ms=self.now)
        assert (found.error_code, found.base_offset) == (0, end)
        self.written += some

    @rule(by=st.sampled_from([1, 30, RETENTION]))
    def pass_time(self, by: int) -> None:
        """Time passes."""
        self.now += by

    @precondition(lambda self: self.cleaning is None)
    @rule()
    def begin_cleaning(self) -> None:
        """Begins a cleaning, with its first step."""
        self.expected = compaction.dirt(self.partition, self.now)
        self.start = self.partition.log_start_offset
        self.began_at = self.now
        self.cleaning = compaction.clean(self.partition, self.now, **self.limits)
        self.go_on(1)

    @precondition(lambda self: self.cleaning is not None)
    @rule(steps=st.sampled_from([1, 2, 1000]))
    def go_on(self, steps: int) -> None:
        """Continues for some steps; a due cleaning must make progress."""
        assert self.cleaning is not None
        for _ in range(steps):
            try:
                next(self.cleaning)
            except StopIteration:
                self.cleaning = None
                self.ended()
                return

    def ended(self) -> None:
        """Returns whether it got as far as it had to."""
        dirty = self.partition.store.first_dirty_offset
        assert dirty <= max(self.expected.end, self.expected.first_dirty_offset)
        if self.partition.log_start_offset != self.start or not self.expected.is_due:
            return
        assert dirty > self.expected.first_dirty_offset
        if self.limits["max_keys"] >= len(KEYS):
            assert dirty == self.expected.end
        self.cleaned_at = self.began_at
        self.past = {at for at, ms in self.seen.items() if ms <= self.began_at}

    @precondition(lambda self: self.cleaning is None)
    @rule(by=st.sampled_from([0, RETENTION]))
    def clean(self, by: int) -> None:
        """Some time later, a whole cleaning."""
        self.now += by
        self.begin_cleaning()
        if self.cleaning is not None:
            self.go_on(10_000)

    @precondition(lambda self: self.cleaning is not None)
    @rule()
    def abandon(self) -> None:
        """Ends a cleaning early."""
        self._end_cleaning()

    def _end_cleaning(self) -> None:
        if self.cleaning is not None:
            self.cleaning.close()
            self.cleaning = None

    @rule(back=st.integers(0, 8))
    def delete_records(self, back: int) -> None:
        """Moves the start of the log."""
        before = max(len(self.written) - back, self.partition.log_start_offset)
        assert self.partition.delete_records(before) == (0, before)

    @rule(offset=st.integers(0, 100), max_bytes=st.integers(0, 400))
    def read(self, offset: int, max_bytes: int) -> None:
        """A consumer starts anywhere, also in a gap, and gets the next records."""
        start, end = self.partition.log_start_offset, len(self.written)
        if not start <= offset < end:
            return
        found = self.partition.read(offset, max_bytes, minimum_one=True)
        data = b"".join(found.buffers)
        rest = [one for one in self.batches() if read_header(one).last_offset >= offset]
        assert data == b"".join(rest)[: max(max_bytes, len(rest[0]))]
        assert len(data) == found.size_in_bytes

    # -- invariants

    def batches(self) -> list[bytes]:
        """All batches, read one by one."""
        offset, made = self.partition.log_start_offset, []
        while offset < len(self.written):
            found = self.partition.read(offset, 0, minimum_one=True)
            batch = b"".join(found.buffers)
            assert not found.error_code
            assert read_header(batch).size == len(batch)
            assert read_header(batch).last_offset >= offset
            made.append(batch)
            offset = read_header(batch).last_offset + 1
        return made

    @invariant()
    def holds(self) -> None:
        """Batches are valid, and their records unchanged."""
        start, end = self.partition.log_start_offset, len(self.written)
        assert self.partition.log_end_offset == end
        found: list[Record] = []
        last = -1
        for batch in self.batches():
            header = read_header(batch)
            assert header.crc == crc_of(batch[CRC_START:])
            assert header.base_offset > last
            last = header.last_offset
            some = list(read_records(batch))
            assert all(header.base_offset <= one.offset <= last for one in some)
            found += some
            if header.has_delete_horizon:
                self.see_horizon(header.base_timestamp, some)
        assert last == (end - 1 if start < end else -1)
        assert all(self.written[record.offset] == record for record in found)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        self.check_keys({offset for offset in offsets if offset >= start})

    def see_horizon(self, horizon: int, some: list[Record]) -> None:
        """The horizon of a tombstone is set once, by the cleaning that ended."""
        for record in some:
            if record.value is None and record.offset not in self.seen:
                self.seen[record.offset] = horizon
                assert horizon == self.cleaned_at + self.retention
            if record.value is None:
                assert self.seen[record.offset] == horizon

    def check_keys(self, found: set[int]) -> None:
        """The newest record of each key exists; the clean part has no others."""
        start = self.partition.log_start_offset
        dirty = self.partition.store.first_dirty_offset
        newest: dict[bytes | None, int] = {}
        newest_clean: dict[bytes | None, int] = {}
        for record in self.written:
            newest[record.key] = record.offset
            if record.offset < dirty:
                newest_clean[record.key] = record.offset
        for key, offset in newest.items():
            if offset < start or offset in found:
                continue
            assert self.written[offset].value is None, "a value is lost"
            assert self.seen[offset] <= self.cleaned_at, "a tombstone went too early"
            older = [at for at in found if self.written[at].key == key]
            assert not older, "a deleted key is back"
        for offset in found:
            record = self.written[offset]
            if offset < dirty:
                assert newest_clean[record.key] == offset
                assert record.value is not None or offset in self.seen
            assert offset not in self.past, "a tombstone stayed too long"

    @invariant()
    def producers_are_known(self) -> None:
        """The last batch of each producer has its last sequence."""
        headers = [read_header(batch) for batch in self.batches()]
        last = {header.producer_id: header for header in headers}
        for producer_id, (sequence, offset) in self.sequences.items():
            if offset >= self.partition.log_start_offset:
                header = last[producer_id]
                first, delta = header.base_sequence, header.last_offset_delta
                assert advance_sequence(first, delta) == sequence
                assert header.last_offset == offset

    @invariant()
    def size_is_known(self) -> None:
        """Bytes are counted right after any replacement."""
        size = sum(map(len, self.batches()))
        if self.is_by_batch:
            assert self.partition.size_in_bytes == size
        else:
            assert self.partition.size_in_bytes >= size


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(
    max_examples=settings().max_examples * 4, stateful_step_count=50
)
