"""The records of a batch as a broker reads them: in pieces, and only their heads.

A broker reads records to validate them and to find a time. Either way it needs the
offset of a record, its timestamp, and whether it has a key. `Heads` reads the bytes in
pieces, and never holds more than two of them:

1. Records that are complete in the available bytes are read at once.
2. The rest of these bytes is put before the next piece.
3. A record that is longer than a piece, or has very many headers, is read field by
   field: its key and its value are skipped, piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from kohort.protocol.compression import PIECE
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.record_rows import FAR
from kohort.protocol.varints import LONGEST_INT, delta_at, int_at, varint_at, wrapped

RecordHead = tuple[int, int, bool]
"""Offset and timestamp of a record, and whether it has a key."""

HEADS: Final = 512
"""Records read at a time: half a millisecond."""

_MANY_HEADERS = 64
"""Headers above which a record is not read at once: the shortest have two bytes, so a
piece may contain 100,000."""

_LONGEST_VARINT = 10


class SizeError(WireError):
    """The size of a record is not a varint of an int32."""


class Heads:
    """Reads the heads of the records of one batch.

    Args:
        pieces: the records and nothing else.
        count: number of records.
        base_offset: of the batch.
        base_timestamp: of the batch, in milliseconds.
    """

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_data",
        "_found",
        "_left",
        "_pieces",
        "_position",
        "_taken",
    )

    def __init__(
        self,
        pieces: Iterator[bytes],
        count: int,
        base_offset: int,
        base_timestamp: int,
    ) -> None:
        self._pieces = pieces
        self._left = count
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._data = b""
        self._position = 0
        # Bytes before those in `_data`.
        self._taken = 0
        self._found: list[RecordHead] = []

    def read(self) -> Iterator[list[RecordHead]]:
        """Some heads at a time; an empty list lets other tasks run.

        Raises:
            WireError: the data is damaged. Records before the damage are returned.
        """
        while self._left > 0:
            failed: WireError | None = None
            try:
                self._read_whole()
            except WireError as error:
                failed = error
            except IndexError:
                failed = WireError("a record ends behind the data")
            found, self._found = self._found, []
            self._left -= len(found)
            yield found
            if failed is not None:
                raise failed
            if not found:
                is_long = len(self._data) - self._position > PIECE
                if is_long or not self._grow():
                    yield from self._read_long()
        while self._position == len(self._data):
            if not self._grow():
                return
            yield []
        rest = len(self._data) - self._position
        raise WireError(f"{rest} bytes behind the last record")

    def _read_whole(self) -> None:
        """Reads records that end in the data at hand."""
        data, position, add = self._data, self._position, self._found.append
        base_offset, base_timestamp = self._base_offset, self._base_timestamp
        is_near = -FAR < base_timestamp < FAR
        end = len(data)
        for _ in range(min(self._left, HEADS)):
            self._position = position
            if end - position < _LONGEST_VARINT and not _has_varint(data[position:]):
                return
            # Most varints have one byte: read in place, as a call doubled the time.
            size = data[position]
            if size & 0x81:
                size, position = _size_at(data, position)
            else:
                size >>= 1
                position += 1
            stop = position + size
            if stop > end:
                return
            time, position = varint_at(data, position + 1)
            if not is_near or not -FAR < time < FAR:
                time = wrapped(base_timestamp + time) - base_timestamp
            delta, position = delta_at(data, position)
            key_size = data[position]
            if key_size & 0x80:
                key_size, position = int_at(data, position)
            else:
                key_size = (key_size >> 1) ^ -(key_size & 1)
                position += 1
            if key_size > 0:
                position += key_size
            size = data[position]
            if size & 0x81:
                size, position = int_at(data, position)
                position += max(size, 0)
            else:
                position += (size >> 1) + 1
            if position + 1 == stop and not data[position]:
                position = stop
            else:
                count, position = int_at(data, position)
                if count > _MANY_HEADERS:
                    return
                position = behind_headers(data, position, count)
            if position != stop:
                raise WireError(f"a record ends at {position}, not {stop}")
            add((base_offset + delta, base_timestamp + time, key_size >= 0))
        self._position = position

    def _read_long(self) -> Iterator[list[RecordHead]]:
        """Reads one record of any length."""
        size = yield from self._varint(_size_at)
        stop = self._taken + self._position + size
        yield from self._skip(1)
        time = wrapped(self._base_timestamp + (yield from self._varint(varint_at)))
        delta = yield from self._varint()
        key_size = yield from self._varint()
        yield from self._skip(key_size)
        yield from self._skip((yield from self._varint()))
        count = yield from self._varint()
        if count < 0:
            raise WireError(f"{count} headers")
        for number in range(count):
            size = yield from self._varint()
            if size < 0:
                raise WireError("a header without a key")
            yield from self._skip(size)
            yield from self._skip((yield from self._varint()))
            if number % HEADS == 0:
                yield []
        end = self._taken + self._position
        if end != stop:
            raise WireError(f"a record ends at {end}, not {stop}")
        self._left -= 1
        yield [(self._base_offset + delta, time, key_size >= 0)]

    def _varint(
        self, read: Callable[[bytes, int], tuple[int, int]] = int_at
    ) -> Generator[list[RecordHead], None, int]:
        while not _has_varint(
            self._data[self._position : self._position + _LONGEST_VARINT]
        ):
            if len(self._data) - self._position >= _LONGEST_VARINT or not self._grow():
                raise WireError("a varint that does not end")
            yield []
        value, self._position = read(self._data, self._position)
        return value

    def _skip(self, size: int) -> Iterator[list[RecordHead]]:
        """Skips some bytes; a negative size is that of null."""
        while size > (there := len(self._data) - self._position):
            size -= there
            self._position += there
            if not self._grow():
                raise WireError("a record ends behind the data")
            yield []
        self._position += max(size, 0)

    def _grow(self) -> bool:
        """Appends the next piece to the unread data."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._taken += self._position
        self._data = self._data[self._position :] + piece
        self._position = 0
        return True


def _size_at(data: bytes, position: int) -> tuple[int, int]:
    """The size of a record, and the position behind it."""
    start = position
    while data[position] >= 0x80:
        position += 1
        if position - start == LONGEST_INT:
            raise SizeError(f"the size of a record in more than {LONGEST_INT} bytes")
    size, position = int_at(data, start)
    if size < 0:
        raise WireError(f"a record of {size} bytes")
    return size, position


def _has_varint(data: bytes) -> bool:
    return any(byte < 0x80 for byte in data)


def behind_headers(data: Buffer, position: int, count: int) -> int:
    """The position behind some headers."""
    if count < 0:
        raise WireError(f"{count} headers")
    for _ in range(count):
        size, position = int_at(data, position)
        if size < 0:
            raise WireError("a header without a key")
        size, position = int_at(data, position + size)
        if size > 0:
            position += size
    return position
