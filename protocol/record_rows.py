"""The records of a batch, format 2 (KIP-98), once they are not compressed.

The hot path of a consumer: see `rows_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kohort.protocol.messages import WireError
from kohort.protocol.varints import bytes_at, delta_at, varint_at, wrapped

RecordRow = tuple[
    int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]
]
"""A record: offset, timestamp, key, value and headers, as in `Record`."""

ROWS = 256
"""Records read at a time; between them the event loop may run other tasks."""

FAR = 2**62
"""A base timestamp and a distance from it below this have a sum that is an int64."""


def rows_of(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
) -> Iterator[list[RecordRow]]:
    """Records, some at a time, never none.

    Args:
        data: the records and nothing else.
        count: how many there are.
        base_offset: of the batch.
        base_timestamp: of the batch, in milliseconds.
        append_time: the timestamp of all of them; None if each has its own.

    Raises:
        WireError: the data is damaged. Records before the damage are given.
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


def _read_some(  # noqa: C901, PLR0912, PLR0915 - in place, as below
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    add: Callable[[RecordRow], None],
) -> int:
    """Reads `count` records; returns the position behind them.

    Varints of the usual lengths are read in place: a call for each would double
    the time.
    """
    end = len(data)
    for _ in range(count):
        # Sizes stay in zigzag form: the lowest bit is the sign, -1 is null.
        size = data[position]
        if size < 0x80:
            position += 1
        elif (more := data[position + 1]) < 0x80:
            size = size & 0x7F | more << 7
            position += 2
        else:
            size, position = _zigzag_at(data, position)
        stop = position + (size >> 1)
        if size & 1 or stop > end:
            raise WireError(f"a record of {(size >> 1) ^ -(size & 1)} bytes")
        # One byte of attributes, which no version uses.
        position += 1
        time = data[position]
        if time < 0x80:
            time = (time >> 1) ^ -(time & 1)
            position += 1
        else:
            time, position = varint_at(data, position)
            if not -FAR < time < FAR:
                time = wrapped(base_timestamp + time) - base_timestamp
        delta = data[position]
        if delta & 0x81:
            delta, position = delta_at(data, position)
        else:
            delta >>= 1
            position += 1
        size = data[position]
        if size & 0x81:
            key, position = bytes_at(data, position, stop)
        else:
            position += 1
            size >>= 1
            if size > stop - position:
                raise WireError(f"{size} bytes, where {stop - position} are left")
            key = data[position : (position := position + size)]
        size = data[position]
        if size < 0x80:
            position += 1
        elif (more := data[position + 1]) < 0x80:
            size = size & 0x7F | more << 7
            position += 2
        else:
            size, position = _zigzag_at(data, position)
        if size & 1:
            value = None
        else:
            size >>= 1
            if size > stop - position:
                raise WireError(f"{size} bytes, where {stop - position} are left")
            value = data[position : (position := position + size)]
        headers: Sequence[tuple[str, bytes | None]] = ()
        if position + 1 == stop and not data[position]:
            position = stop
        else:
            headers, position = _headers_at(data, position, stop)
            if position != stop:
                raise WireError(f"a record ends at {position}, not {stop}")
        add((base_offset + delta, base_timestamp + time, key, value, headers))
    return position


def _zigzag_at(data: bytes, position: int) -> tuple[int, int]:
    """A varint as `varint_at` reads it, with its sign still in the lowest bit."""
    value, position = varint_at(data, position)
    return 2 * value if value >= 0 else -2 * value - 1, position


def _headers_at(
    data: bytes, position: int, end: int
) -> tuple[Sequence[tuple[str, bytes | None]], int]:
    count, position = varint_at(data, position)
    if count == 0:
        return (), position
    if count < 0:
        raise WireError(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = bytes_at(data, position, end)
        if name is None:
            raise WireError("a header without a key")
        value, position = bytes_at(data, position, end)
        headers.append((name.decode(errors="replace"), value))
    return headers, position
