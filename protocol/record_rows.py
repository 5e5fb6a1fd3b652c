"""The records of a batch, format 2 (KIP-98), once they are not compressed.

The hot path of a consumer: see `rows_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from kohort.protocol.messages import WireError
from kohort.protocol.varints import bytes_at, int_at, varint_at, wrapped

Headers = Sequence[tuple[str, bytes | None]]

RecordRow = tuple[int, int, bytes | None, bytes | None, Headers]
"""A record: offset, timestamp, key, value and headers, as in `Record`."""

ROWS = 256
"""Records read at a time; between them the event loop may run other tasks."""

FAR = 2**62
"""A base timestamp and a distance from it below this have a sum that is an int64."""

_SECOND = tuple((byte - 1) << 6 for byte in range(0x80))
"""By the second byte of a varint: the number to add to half of the first byte. It takes
off the first byte's top bit, which only marks that a second one follows."""

_BEHIND_SECOND = tuple(2 + byte for byte in _SECOND)
"""The same, for a length that counts from behind its two bytes."""

_SIGNED = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
"""The numbers that varints of one byte mean."""


def rows_of(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
) -> Iterator[list[RecordRow]]:
    """Records, some at a time, never an empty list.

    Args:
        data: the records and nothing else.
        count: number of records.
        base_offset: of the batch.
        base_timestamp: of the batch, in milliseconds.
        append_time: the timestamp of all of them; None if each has its own.

    Raises:
        WireError: the data is damaged. Records before the damage are returned.
    """
    position, end = 0, len(data)
    for first in range(0, count, ROWS):
        some = min(ROWS, count - first)
        rows: list[RecordRow] = []
        failed: WireError | None = None
        try:
            position = _read_some(
                data, position, some, base_offset, base_timestamp, rows.append
            )
        except WireError as error:
            failed = error
        except IndexError as error:
            failed = WireError(str(error))
        if append_time is not None:
            rows = [(row[0], append_time, *row[2:]) for row in rows]
        elif not -FAR < base_timestamp < FAR:
            rows = [(row[0], wrapped(row[1]), *row[2:]) for row in rows]
        if rows:
            yield rows
        if failed is not None:
            raise failed
    if position != end:
        raise WireError(f"{end - position} bytes behind the last record")


def _read_some(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    add: Callable[[RecordRow], None],
) -> int:
    """Reads `count` records; returns the position behind them.

    Varints of one and two bytes are read in place, without checks: a call for each
    would double the time. A record that was misread, since it is damaged or has a
    longer varint, does not end where its size says, or has a byte that is no index
    of the tables. `_record_at` reads it again.
    """
    second, behind, signed = _SECOND, _BEHIND_SECOND, _SIGNED
    end = len(data)
    for _ in range(count):
        start = position
        try:
            # With one byte of attributes behind it, which no version uses.
            size = data[position]
            if size < 0x80:
                stop = position + 1 + (size >> 1)
                position += 2
            else:
                stop = position + (size >> 1) + behind[data[position + 1]]
                position += 3
            time = data[position]
            if time < 0x80:
                time = signed[time]
                position += 1
            else:
                is_before = time & 1
                time = (time >> 1) + second[data[position + 1]]
                if is_before:
                    time = ~time
                position += 2
            delta = data[position]
            if (size | delta) & 1:
                stop = -1  # a negative size or offset
            if delta < 0x80:
                delta >>= 1
                position += 1
            else:
                delta = (delta >> 1) + second[data[position + 1]]
                position += 2
            size = data[position]
            if size < 0x80:
                position += 1
                after = position + (size >> 1)
            else:
                after = position + (size >> 1) + behind[data[position + 1]]
                position += 2
            key = value = None
            if not size & 1:
                key = data[position:after]
                position = after
            size = data[position]
            if size < 0x80:
                position += 1
                after = position + (size >> 1)
            else:
                after = position + (size >> 1) + behind[data[position + 1]]
                position += 2
            if not size & 1:
                value = data[position:after]
                position = after
            headers: Headers = ()
            if not data[position]:
                position += 1
            elif position < stop <= end:
                headers, position = _headers_at(data, position, stop)
            else:
                stop = -1  # no number of headers
            if position == stop:
                add((base_offset + delta, base_timestamp + time, key, value, headers))
                continue
        except IndexError:
            pass
        row, position = _record_at(data, start, base_offset, base_timestamp)
        add(row)
    return position


def _record_at(
    data: bytes, position: int, base_offset: int, base_timestamp: int
) -> tuple[RecordRow, int]:
    """A record of any layout, and the position behind it.

    Raises:
        WireError: the record is damaged.
        IndexError: the data ends in it.
    """
    size, position = varint_at(data, position)
    stop = position + size
    if size < 0 or stop > len(data):
        raise WireError(f"a record of {size} bytes")
    time, position = varint_at(data, position + 1)
    delta, position = int_at(data, position)
    key, position = bytes_at(data, position, stop)
    value, position = bytes_at(data, position, stop)
    headers, position = _headers_at(data, position, stop)
    if position != stop:
        raise WireError(f"a record ends at {position}, not {stop}")
    time = wrapped(base_timestamp + time)
    return (base_offset + delta, time, key, value, headers), position


def _headers_at(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = varint_at(data, position)
    if count == 0:
        return (), position
    if count < 0:
        raise WireError(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    value: bytes | None
    for _ in range(count):
        # Lengths of one byte are read in place, as in `_read_some`.
        size = data[position]
        if not size & 0x81:
            position += 1
            name = _name_of(data[position : (position := position + (size >> 1))])
        else:
            encoded, position = bytes_at(data, position, end)
            if encoded is None:
                raise WireError("a header without a key")
            name = encoded.decode(errors="replace")
        size = data[position]
        if not size & 0x81:
            position += 1
            value = data[position : (position := position + (size >> 1))]
        else:
            value, position = bytes_at(data, position, end)
        headers.append((name, value))
    return headers, position


@functools.lru_cache(1024)
def _name_of(encoded: bytes) -> str:
    """The short name of a header: most records share a few names."""
    return encoded.decode(errors="replace")
