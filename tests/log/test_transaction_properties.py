"""Random transactions, batches, deletions and restarts, against a simple model."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.log.storage import InFolder, opened
from tests.log.transacting import EVERYTHING, NOW, committed_offsets

from kohort.broker.log.ended_transactions import EndMarker
from kohort.broker.log.lookup import find_offset
from kohort.broker.log.producers import Verification
from kohort.broker.log.results import LATEST
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import TRANSACTIONAL, Record, build_batch, read_headers

PRODUCERS = st.integers(1, 3)


@dataclass
class Batch:
    """A batch of the model: its offsets, and the number of its transaction."""

    base: int
    end: int
    transaction: int | None
    is_marker: bool = False


@dataclass
class Transaction:
    """A transaction of the model; `is_commit` is None while it is open."""

    producer: int
    first: int
    is_commit: bool | None = None


class Machine(InFolder):
    """A partition in small segments, and what it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.lives = 0
        self.end = self.start = 0
        self.batches: list[Batch] = []
        self.transactions: list[Transaction] = []
        self.open: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}

    @initialize(segment_bytes=st.sampled_from([150, 400, 10_000]))
    def begin(self, segment_bytes: int) -> None:
        """Opens the partition; the index has an entry for each batch, or none."""
        self.config = LogConfig(
            retention_ms=-1, segment_bytes=segment_bytes, index_interval_bytes=1
        )
        self.open_folder()

    def open_folder(self) -> None:
        """Opens the partition as it is on the disk."""
        self.data, self.partition = opened(
            self.root / str(self.lives), self.config, now_ms=NOW
        )
        self.closing.callback(self.data.close)

    def batch(self, producer: int, count: int) -> bytes:
        """The next batch of a producer."""
        return build_batch(
            [Record(0, NOW, b"k", b"v")] * count,
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0),
            base_sequence=self.sequences.get(producer, 0),
            attributes=TRANSACTIONAL,
        )

    def appended(self, count: int, transaction: int | None, *, marker: bool) -> None:
        """Adds a batch to the model."""
        base, self.end = self.end, self.end + count
        self.batches.append(Batch(base, self.end, transaction, marker))

    @rule(count=st.integers(1, 3))
    def send_plain(self, count: int) -> None:
        """A batch without a producer."""
        batch = build_batch([Record(0, NOW, b"k", b"v")] * count)
        assert not self.partition.append(batch, now_ms=NOW).error_code
        self.appended(count, None, marker=False)

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def send(self, producer: int, count: int) -> None:
        """A batch of a transaction, which may begin with it."""
        batch = self.batch(producer, count)
        found = self.partition.verify(batch, now_ms=NOW, adds=False)
        assert isinstance(found, Verification) == (producer not in self.open)
        verification = found if isinstance(found, Verification) else None
        result = self.partition.append(batch, now_ms=NOW, verification=verification)
        assert (result.error_code, result.base_offset) == (0, self.end)
        if producer not in self.open:
            self.open[producer] = len(self.transactions)
            self.transactions.append(Transaction(producer, self.end))
        self.sequences[producer] = self.sequences.get(producer, 0) + count
        self.appended(count, self.open[producer], marker=False)

    @rule(producer=PRODUCERS)
    def send_unverified(self, producer: int) -> None:
        """It is refused if it would open a transaction."""
        if producer not in self.open:
            result = self.partition.append(self.batch(producer, 1), now_ms=NOW)
            assert result.error_code == ErrorCode.INVALID_TXN_STATE

    @rule(producer=PRODUCERS, is_commit=st.booleans(), bumps=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool, bumps: bool) -> None:
        """A marker, also without a transaction; it may have the next epoch."""
        epoch = self.epochs.get(producer, 0) + bumps
        end = EndMarker(producer, epoch, is_commit, 0, 2 if bumps else 1)
        assert not self.partition.append_marker(end, now_ms=NOW).error_code
        self.epochs[producer] = epoch
        if bumps:
            self.sequences[producer] = 0
        ended = self.open.pop(producer, None)
        if ended is not None:
            self.transactions[ended].is_commit = is_commit
        self.appended(1, ended, marker=True)

    @rule(share=st.sampled_from([0.1, 0.3, 0.6, 1.0]))
    def delete(self, share: float) -> None:
        """Moves the start of the log."""
        offset = self.start + int((self.end - self.start) * share)
        assert self.partition.delete_records(offset) == (ErrorCode.NONE, offset)
        self.start = offset

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        """A clean stop, or a kill -9: the files are those of that moment."""
        if is_clean:
            self.data.close()
        else:
            before = self.root / str(self.lives)
            self.lives += 1
            shutil.copytree(before, self.root / str(self.lives))
            self.data.close()
        self.open_folder()
        self.read_from(self.start, EVERYTHING)

    # -- what it should be

    @property
    def stable(self) -> int:
        """The last stable offset: of the first batch left of an open transaction."""
        firsts = [self.transactions[number].first for number in self.open.values()]
        bases = [batch.base for batch in self.batches if batch.end > self.start]
        kept = bases[0] if bases else self.end
        return max(min(firsts), kept) if firsts else self.end

    def committed(self, offset: int, end: int) -> list[int]:
        """The records that a reader keeps."""
        return [
            number
            for batch in self.batches
            for number in range(max(batch.base, offset), min(batch.end, end))
            if not batch.is_marker
            and (
                batch.transaction is None
                or self.transactions[batch.transaction].is_commit
            )
        ]

    @invariant()
    def offsets_are_right(self) -> None:
        """The last stable offset, for readers and in ListOffsets."""
        if hasattr(self, "partition"):
            assert self.partition.log_end_offset == self.end
            assert self.partition.last_stable_offset == self.stable
            found = finish(find_offset(self.partition, LATEST, committed=True))
            assert found.offset == self.stable

    @rule(
        share=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
        max_bytes=st.sampled_from([1, 100, 200, EVERYTHING]),
    )
    def read(self, share: float, max_bytes: int) -> None:
        """A read by a reader of committed records."""
        self.read_from(self.start + int((self.end - self.start) * share), max_bytes)

    def read_from(self, offset: int, max_bytes: int) -> None:
        """Reads, and compares the records that a consumer would keep."""
        found = self.partition.read(offset, max_bytes, minimum_one=True, committed=True)
        assert not found.error_code
        end = offset
        data = b"".join(found.buffers)
        whole = 0
        for header, position in read_headers(data):
            assert header.base_offset < self.stable
            end, whole = header.last_offset + 1, position + header.size
        assert (end == offset) == (offset >= self.stable)
        assert whole <= len(data)
        assert committed_offsets(found, offset) == self.committed(offset, end)
        for each in found.aborted or ():
            (known,) = [t for t in self.transactions if t.first == each.first_offset]
            assert (known.producer, known.is_commit) == (each.producer_id, False)


TestTransactions = Machine.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=40)
