"""The aborted transactions of a log or segment, and their index in Kafka's format.

`.txnindex` has 34 bytes for each: version 0, producer id, first offset, offset of the
marker, and the last stable offset after it. An entry is in the index of the segment
that has the marker; a segment without entries needs no file. It can be rebuilt from the
log, so it is written late, as the other indexes are. Nothing in it shows that entries
are missing, so `checkpoints.ABORTED_INDEXES` has the CRC of each.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kohort.broker.log import files
from kohort.broker.log.ended_transactions import AbortedTransaction
from kohort.protocol.records import BatchHeader

if TYPE_CHECKING:
    from pathlib import Path

ABORTED_ENTRY: Final = 34
_VERSION: Final = 0
_ENTRY = struct.Struct(">hqqqq")


def is_aborted(batch: BatchHeader, aborted: Iterable[AbortedTransaction]) -> bool:
    """Returns whether a batch belongs to one of some aborted transactions."""
    return any(
        each.producer_id == batch.producer_id
        and each.first_offset <= batch.base_offset < each.last_offset
        for each in aborted
    )


class AbortedIndex:
    """Aborted transactions in the order of their markers.

    Attributes:
        crc: the CRC-32 of its file.
    """

    __slots__ = ("_first", "_last", "_producer", "_stable", "_written", "crc")

    def __init__(self) -> None:
        self._producer = array("q")
        self._first = array("q")
        self._last = array("q")
        self._stable = array("q")
        self._written = 0
        self.crc = 0

    def __len__(self) -> int:
        """The number of transactions."""
        return len(self._last)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        """Yields all, in order."""
        return map(
            AbortedTransaction, self._producer, self._first, self._last, self._stable
        )

    def add(self, aborted: AbortedTransaction) -> None:
        """Adds a transaction whose marker comes after all others."""
        for column, value in zip(self._columns(), aborted, strict=True):
            column.append(value)

    def _columns(self) -> tuple[array[int], ...]:
        return self._producer, self._first, self._last, self._stable

    def find(self, offset: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions with offsets in a range.

        Args:
            offset: start of the range.
            end: the offset behind it.

        Returns:
            The transactions; and whether later segments have no more of them.
        """
        first = bisect_left(self._last, offset)
        # All that begin before this last stable offset have ended by then.
        last = bisect_left(self._stable, end, first)
        is_complete = last < len(self)
        places = range(first, last + is_complete)
        found = [self._at(place) for place in places if self._first[place] < end]
        return found, is_complete

    def _at(self, place: int) -> AbortedTransaction:
        return AbortedTransaction(*[column[place] for column in self._columns()])

    def drop_before(self, offset: int) -> None:
        """Forgets the transactions whose markers lie before an offset."""
        count = bisect_left(self._last, offset)
        if count:
            for column in self._columns():
                del column[:count]

    # -- files

    def write(self, path: Path, *, is_durable: bool) -> None:
        """Appends new entries to the file.

        Raises:
            StorageError: the write failed; the next call writes them again.
        """
        done, count = self._written, len(self)
        if done < count or (is_durable and count):
            data = b"".join(
                _ENTRY.pack(_VERSION, *self._at(place)) for place in range(done, count)
            )
            files.write_at(path, data, done * ABORTED_ENTRY, is_durable=is_durable)
            self._written = count
            self.crc = zlib.crc32(data, self.crc)

    @classmethod
    def load(cls, base_offset: int, end: int, path: Path) -> AbortedIndex | None:
        """Reads the file; None if it is inconsistent, and empty if it is missing.

        Args:
            base_offset: of the segment.
            end: the offset behind its last batch.
            path: path of the ``.txnindex``.
        """
        data = files.read_file(path) or b""
        if len(data) % ABORTED_ENTRY:
            return None
        found = cls()
        for version, *entry in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                return None
            found.add(AbortedTransaction(*entry))
        found._written = len(found)
        found.crc = zlib.crc32(data)
        return found if found._is_plausible(base_offset, end) else None

    def _is_plausible(self, base_offset: int, end: int) -> bool:
        last: Sequence[int] = self._last
        return (
            all(a < b for a, b in pairwise(last))
            and all(a <= b for a, b in pairwise(self._stable))
            and all(
                base_offset <= each.last_offset < end
                and each.first_offset < each.last_offset
                for each in self
            )
        )
