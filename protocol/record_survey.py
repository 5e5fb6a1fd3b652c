"""A quick look at the records of a batch that is not compressed.

A broker reads every record that a client sends. Nearly all batches are as they should
be, and then it needs three facts of them: the first timestamp, the last, and whether
all have keys. A `Survey` finds those in half of the time that `Heads` takes, and in a
tenth if records are of one size: two of them in a row start a run, and of the next ones
only those bytes are compared that are not data (`_run`). Of anything unusual, a damaged
record or a varint of more than three bytes, it only says that it is there; `Heads` find
out what it is.
"""

from __future__ import annotations

from typing import Final

from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.record_heads import behind_headers
from kohort.protocol.varints import int_at, varint_at

SOME: Final = 1024
"""Records that are read at a time: half a millisecond."""

_SHORTEST_RUN = 8
"""Records below which a run takes longer than reading them."""
_TRIES = 4
"""Runs shorter than that after which no other is tried for a while."""
_MANY_HEADERS = 2 * 8
"""As a varint: the number of headers above which a run is not tried."""
_GOES_ON = bytes(byte >> 7 for byte in range(256))
"""For each byte whether another one of its varint follows."""


class Survey:
    """Reads the records of one batch.

    Args:
        data: the records and nothing else.
        count: how many there are, as the batch declares.

    Attributes:
        earliest: the lowest timestamp so far, as a distance from the batch's base
            timestamp.
        latest: the highest one.
        has_keys: whether all records so far have keys.
    """

    __slots__ = (
        "_data",
        "_left",
        "_position",
        "earliest",
        "has_keys",
        "latest",
    )

    def __init__(self, data: Buffer, count: int) -> None:
        self._data = data
        self._left = count
        self._position = 0
        self.earliest = self.latest = 0
        self.has_keys = True

    @property
    def is_done(self) -> bool:
        """Whether all records are read, and nothing is behind them."""
        return self._left == 0 and self._position == len(self._data)

    def read_some(self) -> bool:
        """Reads up to `SOME` records; False where one is unusual."""
        count = min(self._left, SOME)
        try:
            has_read = self._read(count)
        except (IndexError, WireError):
            return False
        self._left -= count
        return has_read and (self._left > 0 or self._position == len(self._data))

    def _read(self, left: int) -> bool:  # noqa: C901, PLR0912, PLR0915 - in place
        """Varints of up to three bytes are read in place: calls took twice the time."""
        data, position, end = self._data, self._position, len(self._data)
        is_first = position == 0
        earliest, latest = self.earliest, self.latest
        last_time = length = -1
        tries = _TRIES
        while left:
            left -= 1
            start = position
            # Sizes are in zigzag form: the lowest bit is the sign, -1 is null.
            size = data[position]
            if size < 0x80:
                position += 1
            elif (more := data[position + 1]) < 0x80:
                size = size & 0x7F | more << 7
                position += 2
            else:
                size = size & 0x7F | (more & 0x7F) << 7 | data[position + 2] << 14
                position += 3
            stop = position + (size >> 1)
            # A byte of attributes, which no version uses, is before the time.
            time = data[position + 1]
            if time < 0x80:
                position += 2
            elif (more := data[position + 2]) < 0x80:
                time = time & 0x7F | more << 7
                position += 3
            elif (most := data[position + 3]) < 0x80:
                time = time & 0x7F | (more & 0x7F) << 7 | most << 14
                position += 4
            else:
                return False
            if time != last_time:
                last_time = time
                time = (time >> 1) ^ -(time & 1)
                if is_first:
                    is_first = False
                    earliest = latest = time
                elif time > latest:
                    latest = time
                elif time < earliest:
                    earliest = time
            # The offset, which the survey does not need.
            if data[position] < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                position += 2
            elif data[position + 2] < 0x80:
                position += 3
            else:
                return False
            key = data[position]
            if not key & 0x81:
                position += 1 + (key >> 1)
            elif key == 1:
                self.has_keys = False
                position += 1
            else:
                return False
            value = data[position]
            if value < 0x80:
                position += 1
            elif (more := data[position + 1]) < 0x80:
                value = value & 0x7F | more << 7
                position += 2
            elif (most := data[position + 2]) < 0x80:
                value = value & 0x7F | (more & 0x7F) << 7 | most << 14
                position += 3
            else:
                return False
            if not value & 1:
                position += value >> 1
            elif value != 1:
                return False
            if data[position]:
                if data[position] > _MANY_HEADERS:
                    tries = 0
                position = _headers_at(data, position)
            else:
                position += 1
            if position != stop or stop > end or size & 1:
                return False
            if stop - start != length:
                length = stop - start
            elif left >= _SHORTEST_RUN and tries:
                count, times = _run(self._data, start, length, left + 1)
                earliest = min(earliest, *times)
                latest = max(latest, *times)
                position = start + count * length
                left -= count - 1
                tries -= count < _SHORTEST_RUN
                length = -1
        self._position = position
        self.earliest, self.latest = earliest, latest
        return True


def _headers_at(data: Buffer, position: int) -> int:
    """The position behind the headers of a record."""
    count, position = int_at(data, position)
    return behind_headers(data, position, count)


def _run(data: Buffer, start: int, length: int, most: int) -> tuple[int, list[int]]:
    """Counts the records that are built as the one at `start`.

    Args:
        data: the records of a batch.
        start: where a valid record begins.
        length: its bytes.
        most: records that are left.

    Returns:
        How many there are, that one included, and their timestamps, each once.
    """
    fixed, times, deltas = _shape(data, start)
    count = min(most, (len(data) - start) // length)
    for at in fixed:
        column = bytes(data[at : start + count * length : length])
        count -= len(column.lstrip(column[:1]))
    for varint in (times, deltas):
        for at in varint:
            column = bytes(data[at : start + count * length : length]).translate(
                _GOES_ON
            )
            other = column.find(at == varint[-1])
            count = count if other < 0 else other
    columns = [bytes(data[at : start + count * length : length]) for at in times]
    if len(columns) == 1:
        return count, [(time >> 1) ^ -(time & 1) for time in set(columns[0])]
    found = set(zip(*columns, strict=True))
    return count, [varint_at(bytes(raw), 0)[0] for raw in found]


def _shape(data: Buffer, start: int) -> tuple[list[int], range, range]:
    """Where a record has bytes that are neither its data nor its own.

    Returns:
        The positions of its sizes and of its number of headers, of its timestamp,
        and of its offset.
    """
    _, position = varint_at(data, start)
    fixed = [*range(start, position)]
    _, time_end = varint_at(data, position + 1)
    _, delta_end = varint_at(data, time_end)
    times, deltas = range(position + 1, time_end), range(time_end, delta_end)
    position = delta_end

    def sized(position: int) -> int:
        size, end = varint_at(data, position)
        fixed.extend(range(position, end))
        return end + max(size, 0)

    position = sized(sized(position))
    count, end = varint_at(data, position)
    fixed.extend(range(position, end))
    for _ in range(2 * count):
        end = sized(end)
    return fixed, times, deltas
