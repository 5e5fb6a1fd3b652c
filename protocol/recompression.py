"""Batches that a broker rewrites with another codec, for ``compression.type``.

A batch may have 100 MB of records. They are decompressed, written and compressed a
piece at a time, and other requests are served in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from kohort.protocol import compression
from kohort.protocol.compression import TooLargeError
from kohort.protocol.fields import Buffer
from kohort.protocol.messages import WireError
from kohort.protocol.rebuilding import put_record, time_at
from kohort.protocol.records import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    sealed,
)
from kohort.protocol.varints import delta_at, put_varint, varint_at

_SOME: Final = 256
"""Records written at a time: half a millisecond."""


class UnfitError(WireError):
    """A batch cannot be rewritten: Kafka's builder refuses its fields."""


def recompress_in_pieces(
    header: BatchHeader, batch: Buffer, codec: int, level: int | None, most: int
) -> Generator[None, None, bytes]:
    """The batch with another codec and consecutive offsets, as Kafka writes it.

    Other tasks may run in between.

    Args:
        header: the batch's header.
        batch: the batch; its records have been read, and are valid.
        codec: of the new batch.
        level: of the codec; None for its default.
        most: maximum bytes of the new batch.

    Raises:
        TooLargeError: it would have more bytes.
        UnfitError: a negative timestamp, or a producer without an epoch.
    """
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_epoch == NO_PRODUCER_EPOCH or header.base_sequence < 0
    ):
        raise UnfitError("a producer without an epoch or a sequence")
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    pieces = compression.decompress_in_pieces(header.codec, packed)
    written = _Records(header, pieces)
    parts: list[bytes] = []
    size = HEADER_SIZE
    for part in compression.compress_pieces(codec, written.write(), level):
        size += len(part)
        if size > most:
            raise TooLargeError(f"more than {most} bytes with codec {codec}")
        parts.append(part)
        yield
    fields = (
        header.attributes & TRANSACTIONAL | codec,
        header.record_count - 1,
        written.base_timestamp,
        written.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    return sealed(0, header.partition_leader_epoch, fields, b"".join(parts))


class _Records:
    """Records with new offsets and time deltas, some at a time."""

    __slots__ = ("_header", "_pieces", "base_timestamp", "max_timestamp")

    def __init__(self, header: BatchHeader, pieces: Iterator[bytes]) -> None:
        self._header = header
        self._pieces = pieces
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP

    def write(self) -> Iterator[bytes]:
        """The bytes of the records; an empty part lets other tasks run."""
        body = bytearray()
        count = 0
        for span in self._spans():
            if span is not None:
                self._put(body, count, *span)
                count += 1
            if span is None or count % _SOME == 0:
                yield bytes(body)
                body.clear()

    def _spans(self) -> Iterator[tuple[bytes, int, int] | None]:
        """Each record as (data, start after its size, end); None after a piece."""
        parts: list[bytes] = []
        missing = 0
        for piece in self._pieces:
            parts.append(piece)
            missing -= len(piece)
            if missing <= 0:
                data, position = b"".join(parts), 0
                missing = 1
                while position < len(data):
                    try:
                        size, start = varint_at(data, position)
                    except IndexError:
                        break
                    missing = max(start + size - len(data), 1)
                    if start + size > len(data):
                        break
                    yield data, start, start + size
                    position = start + size
                parts = [data[position:]]
            yield None

    def _put(
        self, body: bytearray, number: int, data: bytes, start: int, stop: int
    ) -> None:
        header = self._header
        time, position = time_at(header, data, start)
        _, position = delta_at(data, position)
        if time < NO_TIMESTAMP:
            raise UnfitError(f"a timestamp of {time}")
        if not number:
            self.base_timestamp = time
        self.max_timestamp = max(self.max_timestamp, time)
        head = bytearray(1)
        put_varint(head, time - self.base_timestamp)
        put_varint(head, number)
        put_record(body, head, data, position, stop)
