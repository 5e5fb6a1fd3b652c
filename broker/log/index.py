"""The two indexes of a segment, in Kafka's format.

`.index` has 8 bytes for a batch: its last offset, relative to the first of the segment,
and its position. `.timeindex` has 12: the largest timestamp so far, and the relative
last offset of the first batch that has it. There is an entry for about every
``index.interval.bytes``. Both can be rebuilt from the log, so they are written late,
and rebuilt if they are missing or inconsistent.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

from kohort.broker.log import files

OFFSET_ENTRY = 8
TIME_ENTRY = 12
TIME = struct.Struct(">qi")
OFFSET = struct.Struct(">ii")


class SegmentIndex:
    """Sparse index of a segment's batches, by offset and by time.

    Attributes:
        offsets: last offsets of batches, ascending.
        positions: start positions of these batches, in bytes.
        times: largest timestamps so far, in ms, ascending.
        times_at: last offsets of the batches that have them.
    """

    __slots__ = (
        "_base",
        "_offsets_written",
        "_times_written",
        "offsets",
        "positions",
        "times",
        "times_at",
    )

    def __init__(self, base_offset: int) -> None:
        self._base = base_offset
        self.offsets = array("q")
        self.positions = array("q")
        self.times = array("q")
        self.times_at = array("q")
        self._offsets_written = 0
        self._times_written = 0

    @property
    def size_in_memory(self) -> int:
        """Bytes in memory, approximately."""
        return 16 * (len(self.offsets) + len(self.times)) + 500

    @property
    def size_of_files(self) -> int:
        """Bytes of the longer of its files."""
        return max(OFFSET_ENTRY * len(self.offsets), TIME_ENTRY * len(self.times))

    def add_batch(self, last_offset: int, position: int) -> None:
        """Adds an entry for a batch after all that have one."""
        self.offsets.append(last_offset)
        self.positions.append(position)

    def mark_end(self, last_offset: int, position: int) -> None:
        """Adds an entry for the last batch, if it has none."""
        if not self.offsets or self.offsets[-1] < last_offset:
            self.add_batch(last_offset, position)

    def add_time(self, timestamp: int, last_offset: int) -> None:
        """Adds an entry for the largest timestamp so far, if it has grown."""
        if timestamp > (self.times[-1] if self.times else -1):
            self.times.append(timestamp)
            self.times_at.append(last_offset)

    def is_full(self, limit: int) -> bool:
        """Returns whether one of the files would exceed ``segment.index.bytes``."""
        # Kafka rounds the limit down to whole entries, and reserves one for the last
        # timestamp of the segment.
        return (
            len(self.offsets) >= limit // OFFSET_ENTRY
            or len(self.times) >= limit // TIME_ENTRY - 1
        )

    def floor(self, offset: int) -> int:
        """Returns the position from which to search for an offset, in bytes."""
        index = bisect_right(self.offsets, offset) - 1
        return self.positions[index] if index >= 0 else 0

    def offset_before_time(self, timestamp: int) -> int:
        """Returns an offset before which no record has that time or a later one."""
        index = bisect_left(self.times, timestamp) - 1
        return self.times_at[index] + 1 if index >= 0 else self._base

    # -- files

    def cut(self, offsets: int, times: int) -> None:
        """Keeps this many entries of each."""
        del self.offsets[offsets:], self.positions[offsets:]
        del self.times[times:], self.times_at[times:]
        self._offsets_written = min(self._offsets_written, offsets)
        self._times_written = min(self._times_written, times)

    def write(self, offset_path: Path, time_path: Path, *, is_durable: bool) -> None:
        """Appends new entries to the files.

        Raises:
            StorageError: the write failed; the next call writes them again.
        """
        done, count = self._offsets_written, len(self.offsets)
        if done < count or is_durable:
            pairs = array("i", bytes(8 * (count - done)))
            pairs[0::2] = array("i", [o - self._base for o in self.offsets[done:]])
            pairs[1::2] = array("i", self.positions[done:])
            data = _big_endian(pairs)
            at = done * OFFSET_ENTRY
            files.write_at(offset_path, data, at, is_durable=is_durable)
            self._offsets_written = count
        done, count = self._times_written, len(self.times)
        if done < count or is_durable:
            data = b"".join(
                TIME.pack(time, offset - self._base)
                for time, offset in zip(
                    self.times[done:], self.times_at[done:], strict=True
                )
            )
            at = done * TIME_ENTRY
            files.write_at(time_path, data, at, is_durable=is_durable)
            self._times_written = count

    @classmethod
    def load(
        cls, base_offset: int, log_size: int, offset_path: Path, time_path: Path
    ) -> SegmentIndex | None:
        """Reads the index files; None if they are inconsistent or missing.

        Args:
            base_offset: of the segment.
            log_size: bytes of its batches.
            offset_path: path of the ``.index``.
            time_path: path of the ``.timeindex``.
        """
        offsets, times = files.read_file(offset_path), files.read_file(time_path)
        if offsets is None or times is None:
            return None
        if len(offsets) % OFFSET_ENTRY or len(times) % TIME_ENTRY:
            return None
        found = cls(base_offset)
        pairs = array("i", offsets)
        if sys.byteorder == "little":
            pairs.byteswap()
        found.offsets = array("q", [base_offset + r for r in pairs[0::2]])
        found.positions = array("q", pairs[1::2])
        for time, relative in TIME.iter_unpack(times):
            found.times.append(time)
            found.times_at.append(base_offset + relative)
        found._offsets_written = len(found.offsets)
        found._times_written = len(found.times)
        return found if found.is_plausible(log_size) else None

    def is_plausible(self, log_size: int) -> bool:
        """Returns whether all columns ascend as required, and end within the log."""
        return (
            _grows(self.offsets, self._base, strictly=True)
            # Only an end mark may be for the first batch.
            and _grows(self.positions, min(len(self.positions) - 1, 1), strictly=True)
            and _grows(self.times, 0, strictly=True)
            and _grows(self.times_at, self._base, strictly=False)
            and (not self.positions or self.positions[-1] < log_size)
        )


def _grows(column: array[int], least: int, *, strictly: bool) -> bool:
    if column and column[0] < least:
        return False
    if strictly:
        return all(a < b for a, b in pairwise(column))
    return all(a <= b for a, b in pairwise(column))


def _big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()
