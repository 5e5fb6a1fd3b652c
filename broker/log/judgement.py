"""Judges segments: which batches of a file are whole, and whether any are missing.

Recovery, ``kohort import`` and ``kohort verify`` all use it.

A CRC covers a batch, but neither its offset nor its place. So offsets have to ascend,
without a gap if the segment was never compacted. If a file was cut off between two
batches, the next segment shows it: the last batch has to reach up to it. If compaction
has removed the last batches of a segment, the last entry of its index marks the last
remaining batch (`Segment.mark_end`); if it has removed all of them, both indexes are
empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kohort.broker.log.segment import CHUNK, MOST_RELATIVE
from kohort.protocol import records
from kohort.protocol.records import BatchHeader

Read = Callable[[int, int], bytes]
"""Reads bytes from a position: as many as requested, or fewer at the end of the file.
"""


_MAGIC = bytes([records.MAGIC])
_MAGIC_AT = 16


class Batches:
    """The whole batches of a segment, in order.

    Args:
        read: reads from the segment's file.
        size: its bytes.
        base_offset: the segment's name.
        is_dense: whether the segment was certainly never compacted.

        position: start of the first batch to read.

    Attributes:
        position: the end of the whole batches read so far.
        next_offset: the offset behind them.
        why: the reason why the rest is not a whole batch; empty if there is no rest.
        is_torn: whether the rest may be the beginning of a batch.
    """

    def __init__(
        self,
        read: Read,
        size: int,
        base_offset: int,
        *,
        is_dense: bool,
        position: int = 0,
    ) -> None:
        self._read = read
        self._size = size
        self._is_dense = is_dense
        self.position = position
        self.next_offset = base_offset
        self.why = ""
        self.is_torn = False

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yields each batch with its position, once it has been checked."""
        start, chunk = 0, b""
        while self.position < self._size:
            position = self.position
            at = position - start
            if len(chunk) - at < records.HEADER_SIZE:
                chunk, start, at = self._read(position, CHUNK), position, 0
            header = self._header(chunk, at)
            if isinstance(header, str):
                self.why = header
                return
            if len(chunk) - at < header.size:
                wanted = max(CHUNK, header.size)
                chunk, start, at = self._read(position, wanted), position, 0
            covered = memoryview(chunk)[at + records.CRC_START : at + header.size]
            if records.crc_of(covered) != header.crc:
                self.why = "a batch has a wrong CRC"
                return
            self.position = position + header.size
            self.next_offset = header.last_offset + 1
            yield position, header

    def _header(self, chunk: bytes, at: int) -> BatchHeader | str:
        """The header of a valid next batch, or the reason why it is invalid."""
        left = self._size - self.position
        if left < records.HEADER_SIZE or len(chunk) - at < records.HEADER_SIZE:
            self.is_torn = True
            return "half the header of a batch"
        header = records.read_header(chunk, at)
        if header.magic != records.MAGIC or header.size < records.HEADER_SIZE:
            return f"not a batch (magic {header.magic}, length {header.length})"
        if header.size > left:
            self.is_torn = True
            return f"{left} bytes of a batch of {header.size}"
        return self._why_not_next(header) or header

    def _why_not_next(self, header: BatchHeader) -> str:
        if header.base_offset < self.next_offset:
            return f"offset {header.base_offset} behind {self.next_offset}"
        if not 0 <= header.last_offset_delta <= MOST_RELATIVE:
            return f"last offset delta {header.last_offset_delta}"
        if self._is_dense and header.base_offset != self.next_offset:
            return f"offset {header.base_offset}, not {self.next_offset}"
        return ""


def why_not_all(
    end: int,
    following: int,
    *,
    may_have_gaps: bool,
    index_knows_more: bool,
) -> str:
    """The reason to believe that records between two segments are missing, if any.

    Args:
        end: the offset behind the last batch of a segment.
        following: the first offset of the next segment.
        may_have_gaps: whether the log may have been compacted.
        index_knows_more: whether the indexes of the segment have entries for batches
            behind its end.
    """
    if end == following or (end < following and may_have_gaps and not index_knows_more):
        return ""
    return f"it ends at offset {end}, and the next segment begins at {following}"


def next_whole(
    read: Read, size: int, position: int, least_offset: int
) -> tuple[int, int] | None:
    """The position and the first offset of the next whole batch after damage, if any.

    Args:
        read: reads from the segment's file.
        size: its bytes.
        position: start of the damage.
        least_offset: batches with lower offsets are ignored.
    """
    at = position + 1 + _MAGIC_AT
    start, chunk = 0, b""
    while at < size:
        if not start <= at < start + len(chunk):
            start, chunk = at, read(at, CHUNK)
            if not chunk:
                return None
        found = chunk.find(_MAGIC, at - start)
        if found < 0:
            at = start + len(chunk)
            continue
        at = start + found + 1
        begin = at - 1 - _MAGIC_AT
        offset = int.from_bytes(read(begin, 8), "big", signed=True)
        if offset >= least_offset:
            batches = Batches(read, size, offset, is_dense=True, position=begin)
            if next(iter(batches), None) is not None:
                return begin, offset
    return None
